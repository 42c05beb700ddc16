// Package model turns a completed cluster into the resources of Hetzner Cloud that it needs: nodes of a
// graph, and the parts of a Terraform document other than the graph. It is pure.
//
// It must not know how a resource is observed or changed, or how a plan is made or rendered, and it
// looks nothing up: all it needs to know about the world is in the facts of its input.
package model

import (
	"maps"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model/access"
	"kops.local/kops/internal/model/names"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/hetzner/hetznercloud"
	"kops.local/kops/internal/platform/hetzner/kinds"
	"kops.local/kops/internal/platform/hetzner/spec"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/fill"
)

// model is the input, with what all its parts need. It is immutable once built.
type model struct {
	platform.Model
	name    string
	spec    *api.ClusterSpec
	facts   *facts.Cloud
	zone    string // the network zone
	address string // of the API's load balancer in the network
}

// Build adds the cluster's resources to a graph, each after those it refers to. The cluster must be
// completed and valid.
func Build(in platform.Model, g *graph.Graph) error {
	m, err := newModel(in)
	if err != nil {
		return err
	}
	return platform.AddParts(g, m.name, []platform.Part{
		{Name: "network", Nodes: m.network}, {Name: "firewalls", Nodes: m.firewalls}, {Name: "SSH keys", Nodes: m.keys}, {Name: "volumes", Nodes: m.volumes}, {Name: "load balancer", Nodes: m.balancer}, {Name: "placement groups", Nodes: m.placement}, {Name: "servers", Nodes: m.servers},
	})
}

func newModel(in platform.Model) (*model, error) {
	m := &model{Model: in, name: in.Cluster.Name, spec: &in.Cluster.Spec, facts: in.Facts.Of(string(api.CloudHetzner))}
	var err error
	if m.zone, err = spec.Region(in.Cluster); err != nil {
		return nil, err
	}
	m.address, err = spec.APIAddress(in.Cluster, m.facts)
	return m, err
}

// APIHost returns where machines reach the API: at the load balancer's private address.
func APIHost(in platform.Model) (resource.Value, error) {
	address, err := spec.APIAddress(in.Cluster, in.Facts.Of(string(api.CloudHetzner)))
	return resource.Lit(address), err
}

// labels returns the labels of an object, including the cluster's.
func (m *model) labels(pairs ...string) kinds.Labels {
	out := kinds.Labels{}
	maps.Copy(out, m.spec.CloudLabels)
	out[hetznercloud.ClusterLabel] = m.name
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return out
}

// networkName returns the name of the network; of a shared one, its name or its number.
func (m *model) networkName() string {
	if id := m.spec.Networking.NetworkID; id != "" {
		return id
	}
	return m.name
}

func (m *model) networkID() resource.Value { return kinds.Networks.Out(m.networkName(), "id") }

// subnet returns the name of the subnet, which Terraform has to create before anything is attached to the
// network. A shared network has none of kops'.
func (m *model) subnet() string { return m.name + "-" + m.spec.Networking.NetworkCIDR }

func (m *model) network() ([]resource.Node, error) {
	if id := m.spec.Networking.NetworkID; id != "" {
		return []resource.Node{kinds.Networks.Adopt(id, id, kinds.Network{})}, nil
	}
	return []resource.Node{kinds.Networks.New(m.name, kinds.Network{Name: m.name, CIDR: m.spec.Networking.NetworkCIDR, Zone: m.zone, Labels: m.labels()})}, nil
}

// firewalls returns a firewall for each role. They filter the public interfaces of servers, and no
// traffic in the network.
func (m *model) firewalls() ([]resource.Node, error) {
	var nodes []resource.Node
	for _, of := range []struct {
		name string
		role api.InstanceGroupRole
		to   access.Party
	}{{"control-plane", api.RoleControlPlane, access.Servers}, {"nodes", api.RoleNode, access.Nodes}} {
		f := kinds.Firewall{Name: of.name + "." + m.name, ApplyTo: kinds.Applied{Selector: hetznercloud.Selector(m.name, of.role)}, Labels: m.labels(hetznercloud.FirewallLabel, of.name)}
		for _, flow := range access.Flows(m.Cluster, m.Groups) {
			if flow.From == access.Users && flow.To == of.to && len(flow.Ranges) > 0 {
				f.Rules = append(f.Rules, kinds.Rule{Direction: "in", Protocol: string(flow.Protocol), Port: flow.Ports.String(), Sources: flow.Ranges})
			}
		}
		nodes = append(nodes, kinds.Firewalls.New(f.Name, f))
	}
	return nodes, nil
}

func (m *model) keys() ([]resource.Node, error) {
	var nodes []resource.Node
	for _, k := range m.SSHKeys {
		print, err := platform.SSHFingerprint(k)
		if err != nil {
			return nil, err
		}
		name := m.name + "-" + print
		nodes = append(nodes, kinds.SSHKeys.New(name, kinds.SSHKey{Name: name, PublicKey: strings.TrimSpace(k), Labels: m.labels(), Fingerprint: print}))
	}
	return nodes, nil
}

// Sizes of volumes, in GB, and the maximum length of their names.
const (
	defaultVolume = 20
	maxVolumeName = 64
)

// volumes returns the etcd members' volumes.
func (m *model) volumes() ([]resource.Node, error) {
	return m.EtcdDisks(func(e platform.EtcdMember) (resource.Node, error) {
		location, err := spec.LocationOf(m.Cluster, e.Group)
		name := names.Short(e.Name+".etcd-"+e.Etcd.Name+"."+m.name, maxVolumeName)
		n := kinds.Volumes.New(name, kinds.Volume{Name: name, Location: location, SizeGB: int(fill.Or(e.VolumeSize, defaultVolume)),
			Labels: m.labels(hetznercloud.GroupLabel, e.Group.Name, hetznercloud.VolumeLabel, e.Etcd.Name)})
		n.Remedy = "the volume holds etcd's data: keep it, and undo the change to the location of the group in " + e.Path + ".instanceGroup"
		return n, err
	})
}
