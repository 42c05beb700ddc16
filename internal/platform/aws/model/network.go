package model

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/aws/kinds"
	"kops.local/kops/internal/spec/fill"
)

// vpcID returns the VPC's identifier, known or not.
func (m *model) vpcID() resource.Value { return kinds.VPCs.Out(m.name, "id") }

// sharedVPC reports whether the cluster uses a VPC that it does not own.
func (m *model) sharedVPC() bool { return m.spec.Networking.NetworkID != "" }

func (m *model) subnetName(s *api.ClusterSubnetSpec) string { return s.Name + "." + m.name }

func (m *model) subnetID(s *api.ClusterSubnetSpec) resource.Value {
	return kinds.Subnets.Out(m.subnetName(s), "id")
}

// network returns the VPC, its DHCP options, its subnets and its gateways.
func (m *model) network() ([]resource.Node, error) {
	nodes := m.vpc()
	subnets, err := m.subnetNodes()
	if err != nil {
		return nil, err
	}
	gateways, err := m.gateways()
	return append(append(nodes, subnets...), gateways...), err
}

func (m *model) vpc() []resource.Node {
	net := m.spec.Networking
	if m.sharedVPC() {
		return []resource.Node{kinds.VPCs.Adopt(m.name, net.NetworkID, kinds.VPC{CIDR: net.NetworkCIDR})}
	}
	domain := m.facts.Region + ".compute.internal"
	if m.facts.Region == "us-east-1" { // the first region's names are older than the rule
		domain = "ec2.internal"
	}
	nodes := []resource.Node{
		kinds.VPCs.New(m.name, kinds.VPC{
			CIDR: net.NetworkCIDR, AmazonIPv6: true, DNSHostnames: true, DNSSupport: true, Tags: m.tags(m.name)}),
		kinds.DHCPOptionSets.New(m.name, kinds.DHCPOptions{
			DomainName: domain, Servers: []string{"AmazonProvidedDNS"}, Tags: m.tags(m.name)}),
		kinds.DHCPAssociations.New(m.name, kinds.DHCPAssociation{
			VPC: m.vpcID(), Options: kinds.DHCPOptionSets.Out(m.name, "id")}),
	}
	for _, cidr := range net.AdditionalNetworkCIDRs {
		nodes = append(nodes, kinds.VPCCIDRs.New(rangeName(cidr), kinds.VPCCIDR{VPC: m.vpcID(), CIDR: cidr}))
	}
	return nodes
}

// rangeName returns the name of an additional range of the VPC.
func rangeName(cidr string) string { return "cidr-" + cidr }

// rangeDependency returns the additional range that contains a subnet, if any: the VPC rejects the
// subnet until it has the range.
func (m *model) rangeDependency(s *api.ClusterSubnetSpec) []resource.Address {
	if m.sharedVPC() {
		return nil
	}
	subnet, err := netip.ParsePrefix(s.CIDR)
	if err != nil { // an IPv6-only subnet has no IPv4 range
		return nil
	}
	for _, cidr := range m.spec.Networking.AdditionalNetworkCIDRs {
		if r, err := netip.ParsePrefix(cidr); err == nil && r.Overlaps(subnet) {
			return []resource.Address{kinds.VPCCIDRs.At(rangeName(cidr))}
		}
	}
	return nil
}

func (m *model) subnetNodes() ([]resource.Node, error) {
	var nodes []resource.Node
	for i := range m.spec.Networking.Subnets {
		s := &m.spec.Networking.Subnets[i]
		if s.ID != "" {
			nodes = append(nodes, m.sharedSubnet(s)...)
			continue
		}
		n, err := m.ownSubnet(s)
		if err != nil {
			return nil, fmt.Errorf("subnet %s: %w", s.Name, err)
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// sharedSubnet adopts an existing subnet, which only gets tags.
func (m *model) sharedSubnet(s *api.ClusterSubnetSpec) []resource.Node {
	nodes := []resource.Node{kinds.Subnets.Adopt(m.subnetName(s), s.ID, kinds.Subnet{VPC: m.vpcID(), Zone: m.zoneOf(s), CIDR: s.CIDR})}
	if !fill.Or(m.spec.Networking.TagSubnets, true) {
		return nodes
	}
	tags := m.subnetTags(s)
	tags[kinds.TagOwnerPrefix+m.name] = kinds.Shared
	return append(nodes, kinds.SubnetTagSets.New(m.subnetName(s), kinds.SubnetTags{Subnet: m.subnetID(s), Tags: tags}))
}

// ownSubnet creates a subnet. A subnet without IPv4 reaches IPv4
// addresses through NAT64, which needs DNS64.
func (m *model) ownSubnet(s *api.ClusterSubnetSpec) (resource.Node, error) {
	n := kinds.Subnet{VPC: m.vpcID(), Zone: s.Zone, CIDR: s.CIDR, Tags: m.tags(m.subnetName(s))}
	if fill.Or(m.spec.Networking.TagSubnets, true) {
		for k, v := range m.subnetTags(s) {
			n.Tags[k] = v
		}
	}
	if s.IPv6CIDR != "" {
		n.AssignIPv6 = true
		n.IPv6Native, n.DNS64 = s.CIDR == "", s.CIDR == ""
		size, index, relative, err := relativeCIDR(s.IPv6CIDR)
		switch {
		case err != nil:
			return resource.Node{}, err
		case relative:
			n.IPv6Part = kinds.IPv6Part(kinds.VPCs.Out(m.name, "cidr6"), size-vpcIPv6Bits, index)
		default:
			n.IPv6CIDR = s.IPv6CIDR
		}
	}
	if !fill.Or(m.aws.UseIPBasedNodeNames, false) {
		n.HostnameType = "resource-name"
		n.ResourceNameA, n.ResourceNameAAAA = s.CIDR != "", s.IPv6CIDR != ""
	}
	node := kinds.Subnets.New(m.subnetName(s), n)
	node.After = m.rangeDependency(s)
	return node, nil
}

// vpcIPv6Bits is the prefix length of a VPC's IPv6 range, always a /56.
const vpcIPv6Bits = 56

// relativeCIDR parses a range relative to the VPC's: "/64#a" is the /64 with the hexadecimal number
// a, counted from 0.
func relativeCIDR(text string) (size, index int, relative bool, err error) {
	rest, ok := strings.CutPrefix(text, "/")
	if !ok {
		return 0, 0, false, nil
	}
	bits, number, _ := strings.Cut(rest, "#")
	size, err = strconv.Atoi(bits)
	if err != nil || size < vpcIPv6Bits || size > 64 {
		return 0, 0, true, fmt.Errorf("%s is not a range of the form /64#n", text)
	}
	n, err := strconv.ParseUint(number, 16, 8)
	if err != nil || n >= 1<<(size-vpcIPv6Bits) {
		return 0, 0, true, fmt.Errorf("%s: %q is not the hexadecimal number of a /%d in a /%d", text, number, size, vpcIPv6Bits)
	}
	return size, int(n), true, nil
}

// isUnmanaged reports whether a subnet's routes are managed outside of the cluster.
func isUnmanaged(s *api.ClusterSubnetSpec) bool { return s.Egress == egressExternal }

// gateways returns the VPC's internet gateways.
func (m *model) gateways() ([]resource.Node, error) {
	var nodes []resource.Node
	if m.hasPublicRoutes() {
		g := kinds.InternetGateway{VPC: m.vpcID(), Tags: m.tags(m.name)}
		id := m.facts.Networks[m.spec.Networking.NetworkID].InternetGateway
		switch {
		case !m.sharedVPC():
			nodes = append(nodes, kinds.InternetGateways.New(m.name, g))
		case id == "":
			return nil, fmt.Errorf("the VPC %s has no internet gateway", m.spec.Networking.NetworkID)
		default:
			nodes = append(nodes, kinds.InternetGateways.Adopt(m.name, id, kinds.InternetGateway{VPC: m.vpcID()}))
		}
	}
	if m.hasEgressOnlyRoutes() {
		g := kinds.EgressOnlyGateway{VPC: m.vpcID(), Tags: m.tags(m.name)}
		id := m.facts.Networks[m.spec.Networking.NetworkID].EgressOnlyGateway
		switch {
		case !m.sharedVPC():
			nodes = append(nodes, kinds.EgressOnlyGateways.New(m.name, g))
		case id == "":
			return nil, fmt.Errorf("the VPC %s has no egress-only internet gateway", m.spec.Networking.NetworkID)
		default:
			nodes = append(nodes, kinds.EgressOnlyGateways.Adopt(m.name, id, kinds.EgressOnlyGateway{VPC: m.vpcID()}))
		}
	}
	return nodes, nil
}

// internetDependencies returns what must exist before something that reaches the internet.
func (m *model) internetDependencies() []resource.Address {
	if !m.hasPublicRoutes() {
		return nil
	}
	return []resource.Address{kinds.InternetGateways.At(m.name)}
}

// hasPublicRoutes reports whether the cluster has a public route table: it does if it manages the
// routes of any of its own subnets.
func (m *model) hasPublicRoutes() bool {
	for i := range m.spec.Networking.Subnets {
		if s := &m.spec.Networking.Subnets[i]; s.ID == "" && !isUnmanaged(s) {
			return true
		}
	}
	return false
}

// hasEgressOnlyRoutes reports whether a private subnet has outgoing IPv6 traffic to the internet.
func (m *model) hasEgressOnlyRoutes() bool {
	for i := range m.spec.Networking.Subnets {
		s := &m.spec.Networking.Subnets[i]
		if m.ipv6Only() && isPrivate(s) && !isUnmanaged(s) && s.ID == "" {
			return true
		}
	}
	return false
}

// isPrivate reports whether a subnet is reachable only from inside the VPC.
func isPrivate(s *api.ClusterSubnetSpec) bool {
	return s.Type == api.SubnetPrivate || s.Type == api.SubnetDualStack
}
