package model

import (
	"cmp"
	"fmt"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/gcename"
	"kops.local/kops/internal/platform/gce/kinds"
	"kops.local/kops/internal/platform/gce/spec"
)

// Values of a subnet's egress in the spec.
const (
	egressNAT      = "nat"
	egressExternal = "External"
)

// network returns the network, its subnets, and the NAT for private subnets.
func (m *model) network() ([]resource.Node, error) {
	node := kinds.Networks.New(m.networkName(), kinds.Network{Name: m.networkName()})
	if m.spec.Networking.NetworkID != "" {
		node.Adopt = m.networkProject() + "/" + m.networkName()
	}
	nodes := []resource.Node{node}
	for i := range m.spec.Networking.Subnets {
		nodes = append(nodes, m.subnetwork(&m.spec.Networking.Subnets[i]))
	}
	nat, err := m.nat()
	return append(nodes, nat...), err
}

// networkName returns the name of the network; the name of a shared one is in the spec, after the
// project.
func (m *model) networkName() string {
	if id := m.spec.Networking.NetworkID; id != "" {
		_, name, _ := spec.ParseNetwork(id) // validation has rejected others
		return name
	}
	return gcename.Network(m.name)
}

// networkProject is the project of the network.
func (m *model) networkProject() string {
	project, _, _ := spec.ParseNetwork(m.spec.Networking.NetworkID)
	return cmp.Or(project, m.project)
}

func (m *model) networkID() resource.Value { return kinds.Networks.Out(m.networkName(), "id") }

// subnetName returns the name of a subnet; the name of a shared one is in the spec.
func (m *model) subnetName(s *api.ClusterSubnetSpec) string {
	if s.ID != "" {
		return s.ID
	}
	return m.suffixed(s.Name)
}

func (m *model) subnetID(s *api.ClusterSubnetSpec) resource.Value {
	return kinds.Subnetworks.Out(m.subnetName(s), "id")
}

func (m *model) subnetwork(s *api.ClusterSubnetSpec) resource.Node {
	n := kinds.Subnetwork{Name: m.subnetName(s), Network: m.networkID(), Region: m.region, CIDR: s.CIDR, StackType: "IPV4_ONLY"}
	if m.spec.IPv6Only() {
		n.StackType, n.IPv6Access = "IPV4_IPV6", "EXTERNAL"
	}
	if m.usesAliasRanges() {
		n.Secondary = []kinds.SecondaryRange{
			{Name: m.podRange(), CIDR: m.spec.Networking.PodCIDR},
			{Name: m.suffixed("services"), CIDR: m.spec.Networking.ServiceClusterIPRange},
		}
	}
	if s.ID != "" {
		return kinds.Subnetworks.Adopt(n.Name, fmt.Sprintf("projects/%s/regions/%s/subnetworks/%s", m.networkProject(), m.region, s.ID), n)
	}
	return kinds.Subnetworks.New(n.Name, n)
}

// podRange returns the name of the secondary range from which machines get their pod ranges.
func (m *model) podRange() string { return m.suffixed("pods") }

// nat returns the NAT for the cluster's own private subnets.
func (m *model) nat() ([]resource.Node, error) {
	name := m.suffixed("nat")
	router := kinds.Routers.New(name, kinds.Router{Name: name, Network: m.networkID()})
	nat := kinds.RouterNAT{Name: name, Router: router.Out("id"), Region: m.region, Allocation: "AUTO_ONLY", Source: "LIST_OF_SUBNETWORKS"}
	for i := range m.spec.Networking.Subnets {
		s := &m.spec.Networking.Subnets[i]
		if s.ID != "" || s.Type != api.SubnetPrivate && s.Type != api.SubnetDualStack || s.Egress == egressExternal {
			continue
		}
		if s.Egress != "" && s.Egress != egressNAT {
			return nil, fmt.Errorf("subnet %s: unsupported egress %q; leave spec.subnets[].egress empty, or set it to nat or External", s.Name, s.Egress)
		}
		nat.Subnetworks = append(nat.Subnetworks, kinds.NATSubnetwork{Subnetwork: m.subnetID(s), Ranges: []string{"ALL_IP_RANGES"}})
	}
	if nat.Subnetworks == nil {
		return nil, nil
	}
	return []resource.Node{router, kinds.RouterNATs.New(name, nat)}, nil
}
