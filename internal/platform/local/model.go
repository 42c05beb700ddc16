package local

import (
	"errors"
	"fmt"
	"net/netip"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/ports"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model/access"
	"kops.local/kops/internal/model/managedfile"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/local/kinds"
	"kops.local/kops/internal/platform/local/localcloud"
	bridges "kops.local/kops/internal/platform/local/network"
	"kops.local/kops/internal/platform/local/spec"
)

// buildModel adds the cluster's machines and what they need to a graph that already
// contains the managed files.
func buildModel(in platform.Model, g *graph.Graph) error {
	m, err := newModel(in, g)
	if err != nil {
		return fmt.Errorf("model the machines of %s: %w", in.Cluster.Name, err)
	}
	nodes := []resource.Node{m.network, m.image, m.mirror, m.balancer}
	volumes, err := m.volumes()
	if err != nil {
		return err
	}
	nodes = append(nodes, volumes...)
	for _, group := range in.Groups {
		n, err := m.group(group)
		if err != nil {
			return fmt.Errorf("model the group %s: %w", group.Name, err)
		}
		nodes = append(nodes, n)
	}
	return g.Add(nodes...)
}

// builder holds the input and the nodes that all groups refer to.
type builder struct {
	platform.Model
	name     string
	gateway  netip.Addr
	network  resource.Node
	image    resource.Node
	mirror   resource.Node
	balancer resource.Node
	// files are the addresses of all managed files, which machines read when they start.
	files []resource.Address
}

func newModel(in platform.Model, g *graph.Graph) (*builder, error) {
	m := &builder{Model: in, name: in.Cluster.Name}
	cidr, err := bridges.Check(in.Cluster.Spec.Networking.NetworkCIDR)
	if err != nil {
		return nil, err
	}
	known := in.Facts.Of(string(api.CloudLocal))
	if known.Bundle == "" {
		return nil, errors.New("the facts file has no data about this host")
	}
	m.gateway = bridges.Gateway(cidr).Addr()
	for n := range g.All() {
		m.files = append(m.files, n.Address)
	}
	m.network = kinds.Networks.New(m.name, kinds.Network{Cluster: m.name, CIDR: cidr.String(), Refused: machineRanges(in.Cluster), NAT: true, Up: true})
	m.image = kinds.Images.New(m.name, kinds.Image{Cluster: m.name})
	network := resource.Out(m.network.Address, "id")
	m.mirror = kinds.Mirrors.New("bundle", kinds.Mirror{Cluster: m.name, Name: "bundle", Network: network,
		Bundle: known.Bundle, Port: localcloud.MirrorPort})
	var servers []string
	for _, group := range access.GroupsOf(in.Groups, api.RoleControlPlane) {
		servers = append(servers, group.Name)
	}
	var listeners []kinds.Listener
	for _, d := range access.Doors(in.Cluster) {
		l := kinds.Listener{Port: d.Port, Target: d.Port}
		if d.Port == ports.API {
			l.Check = fmt.Sprintf("http://:%d/readyz", ports.APIHealth)
		}
		listeners = append(listeners, l)
	}
	m.balancer = kinds.LoadBalancers.New("api", kinds.LoadBalancer{Cluster: m.name, Name: "api", Network: network, Groups: servers, Listeners: listeners})
	return m, nil
}

// machineRanges returns the address ranges that exist on machines only: those of pods and services.
func machineRanges(c *api.Cluster) (out []string) {
	for _, text := range []string{c.Spec.Networking.PodCIDR, c.Spec.Networking.ServiceClusterIPRange} {
		if r, err := netip.ParsePrefix(text); err == nil && r.Addr().Is4() {
			out = append(out, r.Masked().String())
		}
	}
	return out
}

// volumes returns the disks of the etcd members.
func (m *builder) volumes() ([]resource.Node, error) {
	var out []resource.Node
	for _, e := range m.Cluster.Spec.EtcdClusters {
		for _, member := range e.EtcdMembers {
			if member.InstanceGroup == nil {
				return nil, fmt.Errorf("the member %s of etcd %s has no instance group", member.Name, e.Name)
			}
			out = append(out, m.volume(e.Name, member.Name))
		}
	}
	return out, nil
}

func (m *builder) volume(etcd, member string) resource.Node {
	name := member + ".etcd-" + etcd + "." + m.name
	return kinds.Volumes.New(name, kinds.Volume{Cluster: m.name, Name: name})
}

func (m *builder) group(g *api.InstanceGroup) (resource.Node, error) {
	cpus, memory, ok := spec.Size(g.Spec.MachineType)
	if !ok {
		return resource.Node{}, fmt.Errorf("%q is not a machine type of this host", g.Spec.MachineType)
	}
	data, err := m.UserData(g, resource.Lit(m.gateway.String()))
	if err != nil {
		return resource.Node{}, err
	}
	want := kinds.MachineGroup{Cluster: m.name, Name: g.Name, Network: resource.Out(m.network.Address, "id"),
		Image: resource.Out(m.image.Address, "path"), CPUs: cpus, MemoryMiB: memory, DiskGiB: spec.Disk(g), MinDiskGiB: spec.MinDisk(m.Cluster), UserData: data,
		Labels: map[string]string{localcloud.Role: "node"}}
	if g.Spec.MinSize != nil {
		want.Size = int(*g.Spec.MinSize)
	}
	if g.IsControlPlane() {
		want.Labels[localcloud.Role] = localcloud.ControlPlane
		want.Folders = m.hostFolders(g)
	}
	n := kinds.MachineGroups.New(g.Name, want)
	n.After = append(append(n.After, m.files...), m.mirror.Address, m.balancer.Address)
	return n, nil
}

// hostFolders returns the host's folders that control-plane machines see: the cluster's
// state, the registry of machines, and the etcd disks.
func (m *builder) hostFolders(g *api.InstanceGroup) []kinds.Folder {
	state, _ := managedfile.FolderOf(m.Cluster.Spec.ConfigStore.Base) // validated: it is a folder
	out := []kinds.Folder{
		{Host: resource.Lit(state), Path: state},
		{Host: resource.Out(m.network.Address, "registry"), Path: localcloud.Registry, ReadOnly: true},
		{Host: resource.Out(m.network.Address, "requests"), Path: localcloud.Requests},
	}
	for _, e := range m.Cluster.Spec.EtcdClusters {
		for _, member := range e.EtcdMembers {
			if *member.InstanceGroup == g.Name {
				out = append(out, kinds.Folder{Host: resource.Out(m.volume(e.Name, member.Name).Address, "path"),
					Path: localcloud.Disks + "/" + localcloud.Disk(m.name, e.Name, member.Name)})
			}
		}
	}
	return out
}
