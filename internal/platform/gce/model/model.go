// Package model turns a completed cluster into the Google Compute Engine resources that it needs:
// nodes of a graph, and the parts of a Terraform document other than the graph. It is pure.
//
// It must not know how a resource is observed or changed, or how a plan is made or rendered, and it
// looks nothing up: all it needs to know about the world is in the facts of its input.
package model

import (
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/model/access"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/gce/gcecloud"
	"kops.local/kops/internal/platform/gce/gcename"
	"kops.local/kops/internal/spec/facts"
)

// model is the input, with what all its parts need. It is immutable once built.
type model struct {
	platform.Model
	// name is the cluster's name, which is the suffix of nearly every name here.
	name            string
	spec            *api.ClusterSpec
	gce             *api.GCESpec
	facts           *facts.Cloud
	project, region string
	// subnets are the spec's subnets by name.
	subnets map[string]*api.ClusterSubnetSpec
}

// Build adds the cluster's resources to a graph, each after those it refers to. The cluster must be
// completed and valid; the zone of its names must be in the facts.
func Build(in platform.Model, g *graph.Graph) error {
	m, err := newModel(in)
	if err != nil {
		return err
	}
	return platform.AddParts(g, m.name, []platform.Part{
		{Name: "network", Nodes: m.network},
		{Name: "firewall rules", Nodes: m.firewalls},
		{Name: "service accounts", Nodes: m.identities},
		{Name: "disks", Nodes: m.disks},
		{Name: "addresses", Nodes: m.addresses},
		{Name: "target pool", Nodes: m.pool},
		{Name: "names", Nodes: m.dns},
		{Name: "templates", Nodes: m.templates},
		{Name: "instance groups", Nodes: m.managers},
		{Name: "load balancers", Nodes: m.balancers},
	})
}

func newModel(in platform.Model) (*model, error) {
	own := in.Cluster.Spec.CloudProvider.GCE
	switch {
	case own == nil:
		return nil, fmt.Errorf("cluster %s is not on GCE", in.Cluster.Name)
	case own.Project == "":
		return nil, fmt.Errorf("cluster %s: spec.project is empty; set it to the ID of the project (gcloud config get-value project)", in.Cluster.Name)
	}
	region, err := Region(in.Cluster)
	if err != nil {
		return nil, err
	}
	m := &model{Model: in, name: in.Cluster.Name, spec: &in.Cluster.Spec, gce: own, facts: in.Facts.Of(string(api.CloudGCE)),
		project: own.Project, region: region, subnets: map[string]*api.ClusterSubnetSpec{}}
	for i := range m.spec.Networking.Subnets {
		s := &m.spec.Networking.Subnets[i]
		m.subnets[s.Name] = s
	}
	return m, nil
}

// Region returns a cluster's region: all its subnets must name the same one.
func Region(c *api.Cluster) (string, error) {
	found := ""
	for _, s := range c.Spec.Networking.Subnets {
		switch {
		case s.Region == "" || s.Region == found:
		case found != "":
			return "", fmt.Errorf("subnet %s is in region %s, but others are in %s; all subnets of a cluster must be in one region", s.Name, s.Region, found)
		default:
			found = s.Region
		}
	}
	if found == "" {
		return "", fmt.Errorf("no subnet of cluster %s has a region; set spec.subnets[].region", c.Name)
	}
	return found, nil
}

// suffixed returns the name of an object of the cluster.
func (m *model) suffixed(object string) string { return gcename.Suffixed(object, m.name) }

// labels returns the labels of an object, including the cluster's.
func (m *model) labels(pairs ...string) map[string]string {
	out := map[string]string{gcecloud.ClusterLabel: gcecloud.Label(m.name)}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return out
}

// groupsOf returns the instance groups with one of the roles, sorted by name.
func (m *model) groupsOf(roles ...api.InstanceGroupRole) []*api.InstanceGroup {
	return access.GroupsOf(m.Groups, roles...)
}

// servers returns the groups whose machines run an API server.
func (m *model) servers() []*api.InstanceGroup {
	return m.groupsOf(api.RoleControlPlane, api.RoleAPIServer)
}

func (m *model) hasAPIServers() bool { return len(m.groupsOf(api.RoleAPIServer)) > 0 }
func (m *model) noDNS() bool         { return m.spec.DNSType() == api.DNSNone }

// usesAliasRanges reports whether pods get addresses from a secondary range of the subnet.
func (m *model) usesAliasRanges() bool {
	return m.spec.Networking.GCP != nil || m.spec.Networking.Kindnet != nil
}

// hasLoadBalancer reports whether the API is behind a load balancer; if it is public, there is an internal
// one, too.
func (m *model) hasLoadBalancer() bool { return m.spec.API.LoadBalancer != nil }

func (m *model) isPublic() bool {
	return m.hasLoadBalancer() && m.spec.API.LoadBalancer.Type != api.LoadBalancerInternal
}

// subnetOf returns the subnet of a group, which has only one.
func (m *model) subnetOf(g *api.InstanceGroup) (*api.ClusterSubnetSpec, error) {
	if len(g.Spec.Subnets) != 1 {
		return nil, fmt.Errorf("group %s: its machines must be in one subnet, but spec.subnets lists %d", g.Name, len(g.Spec.Subnets))
	}
	s, ok := m.subnets[g.Spec.Subnets[0]]
	if !ok {
		return nil, fmt.Errorf("group %s: the cluster has no subnet %s", g.Name, g.Spec.Subnets[0])
	}
	return s, nil
}

// zonesOf returns the zones of a group, sorted: its own, and its subnet's.
func (m *model) zonesOf(g *api.InstanceGroup) ([]string, error) {
	s, err := m.subnetOf(g)
	if err != nil {
		return nil, err
	}
	zones := slices.Clone(g.Spec.Zones)
	if s.Zone != "" {
		zones = append(zones, s.Zone)
	}
	if len(zones) == 0 {
		return nil, fmt.Errorf("group %s has no zone; set spec.zones", g.Name)
	}
	slices.Sort(zones)
	return slices.Compact(zones), nil
}

// zoneOf returns the zone of a group that must have only one.
func (m *model) zoneOf(g *api.InstanceGroup, why string) (string, error) {
	zones, err := m.zonesOf(g)
	if err == nil && len(zones) > 1 {
		err = fmt.Errorf("group %s is in the zones %s, but %s; keep one in spec.zones, and create a group for each of the others", g.Name, strings.Join(zones, ", "), why)
	}
	if err != nil {
		return "", err
	}
	return zones[0], nil
}
