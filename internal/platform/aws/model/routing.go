package model

import (
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/aws/kinds"
)

// All addresses, and the range of IPv4 addresses in NAT64 (RFC 6052).
const (
	anyIPv4 = "0.0.0.0/0"
	anyIPv6 = "::/0"
	nat64   = "64:ff9b::/96"
)

// egressExternal is the egress of a subnet whose routes are managed outside of the cluster.
const egressExternal = "External"

// zoneRoutes are the subnets of one zone by their routes. Except in hosts, only the cluster's own
// subnets are included.
type zoneRoutes struct {
	zone    string
	private []*api.ClusterSubnetSpec // Private and DualStack
	nat64   []*api.ClusterSubnetSpec // public subnets with IPv6, whose pods reach IPv4 through NAT64
	hosts   []*api.ClusterSubnetSpec // possible subnets of a NAT gateway, including shared ones
}

func (z *zoneRoutes) name(m *model) string       { return z.zone + "." + m.name }
func (z *zoneRoutes) privateTable() string       { return "private-" + z.zone }
func (z *zoneRoutes) publicTable() string        { return "public-" + z.zone }
func (m *model) routeTable(role string) string   { return role + "." + m.name }
func (m *model) tableID(n string) resource.Value { return kinds.RouteTables.Out(n, "id") }
func (m *model) gatewayID() resource.Value       { return kinds.InternetGateways.Out(m.name, "id") }
func (m *model) needsNAT64(s *api.ClusterSubnetSpec) bool {
	return m.ipv6Only() && s.Type == api.SubnetPublic && s.IPv6CIDR != ""
}

// egressSubnets returns the subnets that share the zone's egress.
func (z *zoneRoutes) egressSubnets() []*api.ClusterSubnetSpec {
	return slices.Concat(z.private, z.nat64)
}

// sharedNAT returns the existing NAT gateway that is the zone's egress, or "".
func (z *zoneRoutes) sharedNAT() string {
	for _, s := range z.egressSubnets() {
		if strings.HasPrefix(s.Egress, "nat-") {
			return s.Egress
		}
	}
	return ""
}

// zones returns the subnets by zone, in the order of the subnets.
func (m *model) zones() []*zoneRoutes {
	var list []*zoneRoutes
	byName := map[string]*zoneRoutes{}
	for i := range m.spec.Networking.Subnets {
		s := &m.spec.Networking.Subnets[i]
		zone := m.zoneOf(s)
		if byName[zone] == nil {
			byName[zone] = &zoneRoutes{zone: zone}
			list = append(list, byName[zone])
		}
		z := byName[zone]
		if s.Type == api.SubnetUtility || m.needsNAT64(s) {
			z.hosts = append(z.hosts, s)
		}
		switch {
		case s.ID != "" || isUnmanaged(s):
		case isPrivate(s):
			z.private = append(z.private, s)
		case m.needsNAT64(s):
			z.nat64 = append(z.nat64, s)
		}
	}
	return list
}

// routing returns the route tables, their routes and targets, and the associations with subnets.
func (m *model) routing() ([]resource.Node, error) {
	nodes := m.publicRouting()
	for _, z := range m.zones() {
		if len(z.private)+len(z.nat64) == 0 {
			continue
		}
		more, err := m.zoneRouting(z)
		if err != nil {
			return nil, fmt.Errorf("zone %s: %w", z.zone, err)
		}
		nodes = append(nodes, more...)
	}
	more, err := m.additionalRoutes()
	return append(nodes, more...), err
}

// publicRouting returns the public subnets' table.
func (m *model) publicRouting() []resource.Node {
	if !m.hasPublicRoutes() {
		return nil
	}
	nodes := []resource.Node{
		m.newTable(m.name, "public", ""),
		kinds.Routes.New("route-"+anyIPv4, kinds.Route{RouteTable: m.tableID(m.name), CIDR: anyIPv4, Gateway: m.gatewayID()}),
		kinds.Routes.New("route-"+anyIPv6, kinds.Route{RouteTable: m.tableID(m.name), IPv6CIDR: anyIPv6, Gateway: m.gatewayID()}),
	}
	for i := range m.spec.Networking.Subnets {
		s := &m.spec.Networking.Subnets[i]
		if s.ID == "" && !isPrivate(s) && !isUnmanaged(s) && !m.needsNAT64(s) {
			nodes = append(nodes, m.associate(m.subnetName(s), s, m.name))
		}
	}
	return nodes
}

// newTable returns a route table; sharedNAT is the NAT gateway outside of the cluster that it
// routes to, or "".
func (m *model) newTable(name, role, sharedNAT string) resource.Node {
	return kinds.RouteTables.New(name, kinds.RouteTable{
		VPC: m.vpcID(), Tags: m.tagsWith(name, tagRouteTableRole, role), SharedNATGateway: sharedNAT})
}

func (m *model) associate(name string, s *api.ClusterSubnetSpec, table string) resource.Node {
	return kinds.RouteTableAssociations.New(name, kinds.RouteTableAssociation{Subnet: m.subnetID(s), RouteTable: m.tableID(table)})
}

// zoneRouting returns the egress of a zone's private subnets, and of its
// public subnets that need NAT64.
func (m *model) zoneRouting(z *zoneRoutes) ([]resource.Node, error) {
	nodes, way, err := m.egress(z)
	if err != nil {
		return nil, err
	}
	if len(z.private) > 0 {
		nodes = append(nodes, m.privateTable(z, way)...)
	}
	if len(z.nat64) > 0 {
		nodes = append(nodes, m.nat64Table(z, way)...)
	}
	return nodes, nil
}

func (m *model) privateTable(z *zoneRoutes, way kinds.Route) []resource.Node {
	table := m.routeTable(z.privateTable())
	nodes := []resource.Node{m.newTable(table, z.privateTable(), z.sharedNAT())}
	for _, s := range z.private {
		nodes = append(nodes, m.associate("private-"+m.subnetName(s), s, table))
	}
	way.RouteTable = m.tableID(table)
	nodes = append(nodes, newRoute(z.privateTable(), anyIPv4, way))
	if m.ipv6Only() {
		if !way.NATGateway.IsZero() {
			nodes = append(nodes, newRoute(z.privateTable(), nat64, way))
		}
		nodes = append(nodes, newRoute(z.privateTable(), anyIPv6, kinds.Route{
			RouteTable: way.RouteTable, EgressOnlyGateway: kinds.EgressOnlyGateways.Out(m.name, "id")}))
	}
	return nodes
}

func (m *model) nat64Table(z *zoneRoutes, way kinds.Route) []resource.Node {
	table := m.routeTable(z.publicTable())
	nodes := []resource.Node{m.newTable(table, z.publicTable(), z.sharedNAT())}
	for _, s := range z.nat64 {
		nodes = append(nodes, m.associate("public-"+m.subnetName(s), s, table))
	}
	way.RouteTable = m.tableID(table)
	public := kinds.Route{RouteTable: way.RouteTable, Gateway: m.gatewayID()}
	return append(nodes, newRoute(z.publicTable(), anyIPv4, public), newRoute(z.publicTable(), anyIPv6, public),
		newRoute(z.publicTable(), nat64, way))
}

// newRoute returns a route that is named by its table and its destination.
func newRoute(table, cidr string, r kinds.Route) resource.Node {
	if strings.Contains(cidr, ":") {
		r.CIDR, r.IPv6CIDR = "", cidr
	} else {
		r.CIDR, r.IPv6CIDR = cidr, ""
	}
	return kinds.Routes.New("route-"+table+"-"+cidr, r)
}

// egress returns the target of a zone's default route, and the resources that it needs.
func (m *model) egress(z *zoneRoutes) ([]resource.Node, kinds.Route, error) {
	var egress, publicIP string
	for i, s := range z.egressSubnets() {
		if i > 0 && (s.Egress != egress || s.PublicIP != publicIP) {
			return nil, kinds.Route{}, fmt.Errorf("subnet %s has a different egress from the previous subnets in the zone", s.Name)
		}
		egress, publicIP = s.Egress, s.PublicIP
	}
	switch {
	case egress == "" || strings.HasPrefix(egress, "eipalloc-"):
		nodes, err := m.natGateway(z, egress, publicIP)
		return nodes, kinds.Route{NATGateway: kinds.NATGateways.Out(z.name(m), "id")}, err
	case z.sharedNAT() != "":
		return []resource.Node{kinds.NATGateways.Adopt(z.name(m), egress, kinds.NATGateway{})},
			kinds.Route{NATGateway: kinds.NATGateways.Out(z.name(m), "id")}, nil
	}
	way, err := routeTo(egress)
	return nil, way, err
}

// natGateway creates a NAT gateway with a new or an existing address.
func (m *model) natGateway(z *zoneRoutes, allocation, publicIP string) ([]resource.Node, error) {
	if len(z.hosts) == 0 {
		return nil, fmt.Errorf("there is no Utility subnet for a NAT gateway")
	}
	name := z.name(m)
	address := kinds.ElasticIPs.New(name, kinds.ElasticIP{Domain: "vpc", Tags: m.tags(name)})
	switch {
	case allocation != "":
		address = kinds.ElasticIPs.Adopt(name, allocation, kinds.ElasticIP{})
	case publicIP != "":
		id, ok := m.account.ElasticIPs[publicIP]
		if !ok {
			return nil, fmt.Errorf("the address %s is not an elastic IP of the account", publicIP)
		}
		address = kinds.ElasticIPs.Adopt(name, id, kinds.ElasticIP{})
	}
	nat := kinds.NATGateways.New(name, kinds.NATGateway{
		Allocation: address.Out("id"), Subnet: m.subnetID(z.hosts[0]), Tags: m.tags(name)})
	nat.After = m.internetDependencies() // without it, the gateway fails permanently
	return []resource.Node{address, nat}, nil
}

// routeTo returns a route to an existing target, by the prefix of its identifier.
func routeTo(target string) (kinds.Route, error) {
	v := resource.Lit(target)
	prefix, _, _ := strings.Cut(target, "-")
	switch prefix {
	case "igw", "vgw":
		return kinds.Route{Gateway: v}, nil
	case "eigw":
		return kinds.Route{EgressOnlyGateway: v}, nil
	case "nat":
		return kinds.Route{NATGateway: v}, nil
	case "tgw":
		return kinds.Route{TransitGateway: v}, nil
	case "pcx":
		return kinds.Route{Peering: v}, nil
	case "eni":
		return kinds.Route{NetworkInterface: v}, nil
	case "i":
		return kinds.Route{Instance: v}, nil
	}
	return kinds.Route{}, fmt.Errorf("%s cannot be the target of a route", target)
}

// additionalRoutes returns the routes that users add to the tables of subnets. The subnets of a
// zone share one table: identical routes of two subnets become one.
func (m *model) additionalRoutes() ([]resource.Node, error) {
	type place struct{ table, cidr string }
	type wish struct{ subnet, target string }
	asked := map[place]wish{}
	var nodes []resource.Node
	for i := range m.spec.Networking.Subnets {
		s := &m.spec.Networking.Subnets[i]
		for _, r := range s.AdditionalRoutes {
			route, err := routeTo(r.Target)
			if err != nil {
				return nil, fmt.Errorf("subnet %s: %w", s.Name, err)
			}
			at := place{m.tableOf(s), r.CIDR}
			if first, ok := asked[at]; ok {
				if first.target != r.Target {
					return nil, fmt.Errorf("subnets %s and %s share a route table and send %s to %s and to %s: use one target",
						first.subnet, s.Name, r.CIDR, first.target, r.Target)
				}
				continue
			}
			asked[at] = wish{s.Name, r.Target}
			route.RouteTable, route.Recorded = m.tableID(at.table), r.Target
			nodes = append(nodes, newRoute(s.Name, r.CIDR, route))
		}
	}
	return nodes, nil
}

// tableOf returns the route table of one of the cluster's own subnets.
func (m *model) tableOf(s *api.ClusterSubnetSpec) string {
	switch {
	case isPrivate(s):
		return m.routeTable("private-" + m.zoneOf(s))
	case m.needsNAT64(s):
		return m.routeTable("public-" + m.zoneOf(s))
	}
	return m.name
}
