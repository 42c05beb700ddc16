package kinds

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
)

// Route sends traffic for one destination, CIDR or IPv6CIDR, to one target.
type Route struct {
	RouteTable resource.Value `res:"replace" tf:"route_table_id"`
	CIDR       string         `res:"replace" tf:"destination_cidr_block"`
	IPv6CIDR   string         `res:"replace" tf:"destination_ipv6_cidr_block"`

	Gateway           resource.Value `tf:"gateway_id"` // an internet or virtual private gateway
	EgressOnlyGateway resource.Value `tf:"egress_only_gateway_id"`
	NATGateway        resource.Value `tf:"nat_gateway_id"`
	TransitGateway    resource.Value `tf:"transit_gateway_id"`
	Peering           resource.Value `tf:"vpc_peering_connection_id"`
	NetworkInterface  resource.Value `tf:"network_interface_id"`
	// Instance is a machine that forwards traffic. Terraform's provider 5 does not support it.
	Instance resource.Value
	// Recorded is the identifier of the target of a route that a user's spec contains. It marks the
	// route as the cluster's own after the spec no longer contains it. It is stored as a tag of the
	// table, because routes have no tags.
	Recorded string `res:",post"`
}

// routeTagPrefix, followed by a destination, is the key of a table's tag that contains the target
// of kops' route.
const routeTagPrefix = "kops.k8s.io/route/"

// ownDestinations are the destinations of the routes in every cluster's tables.
var ownDestinations = [...]string{"0.0.0.0/0", "::/0", "64:ff9b::/96"}

// Routes is the kind of Route.
var Routes = resource.Kind[Route, *Client]{
	Name:   "aws_route",
	API:    apiEC2,
	Phase:  resource.Network,
	Tasks:  []string{"Route"},
	Key:    routeKey,
	Tidy:   func(r *Route) { r.CIDR, r.IPv6CIDR = canonicalRange(r.CIDR), canonicalRange(r.IPv6CIDR) },
	List:   listRoutes,
	Create: createRoute,
	Update: []resource.Setter[Route, *Client]{{
		Fields: []string{"Gateway", "EgressOnlyGateway", "NATGateway", "TransitGateway", "Peering", "NetworkInterface", "Instance"},
		Set:    replaceRoute,
	}, {
		Fields: []string{"Recorded"},
		Set: func(ctx context.Context, c *Client, have, want *Route) error {
			return setEC2Tags(ctx, c, have.RouteTable.Text(), have.record(), want.record())
		},
	}},
	Delete: func(ctx context.Context, c *Client, r *Route) error {
		_, err := c.EC2.DeleteRoute(ctx, &ec2.DeleteRouteInput{RouteTableId: stringOrNil(r.RouteTable.Text()),
			DestinationCidrBlock: stringOrNil(r.CIDR), DestinationIpv6CidrBlock: stringOrNil(r.IPv6CIDR)})
		if err = fault.IgnoreGone(err); err != nil {
			return err
		}
		return fault.IgnoreGone(setEC2Tags(ctx, c, r.RouteTable.Text(), r.record(), nil))
	},
}

// destination returns the route's destination range.
func (r *Route) destination() string { return r.CIDR + r.IPv6CIDR }

// record returns the tag that stores Recorded.
func (r *Route) record() map[string]string {
	if r.Recorded == "" {
		return nil
	}
	return map[string]string{routeTagPrefix + r.destination(): r.Recorded}
}

// target returns the identifier of the route's target.
func (r *Route) target() string {
	return r.Gateway.Text() + r.EgressOnlyGateway.Text() + r.NATGateway.Text() + r.TransitGateway.Text() +
		r.Peering.Text() + r.NetworkInterface.Text() + r.Instance.Text()
}

func routeKey(r *Route) string { return nameOf(r.RouteTable) + " " + r.destination() }

// listRoutes lists the wanted routes in the cluster's tables and those that kops created: the
// recorded ones whose target is still the recorded one, and every cluster's standard routes to its
// own gateways. Others belong to users and to controllers in the cluster.
func listRoutes(ctx context.Context, c *Client, s resource.Scope) ([]*Route, error) {
	tables, err := routeTableDescriber.listOwned(ctx, c, s)
	if err != nil {
		return nil, err
	}
	gateways, err := ownedGateways(ctx, c, s)
	if err != nil {
		return nil, err
	}
	var out []*Route
	for _, t := range tables {
		for _, d := range t.Routes {
			if d.Origin != ec2types.RouteOriginCreateRoute || d.DestinationPrefixListId != nil {
				continue
			}
			r := routeOf(t, d)
			ours := r.Recorded != "" && r.Recorded == r.target() ||
				(s.All || slices.Contains(ownDestinations[:], r.destination())) && slices.Contains(gateways, r.target())
			named := *r // the key of a wanted route while its table is unknown
			named.RouteTable = resource.Lit(tagMap(t.Tags)[TagName])
			if ours || slices.Contains(s.Names, routeKey(r)) || slices.Contains(s.Names, routeKey(&named)) {
				out = append(out, r)
			}
		}
	}
	return out, nil
}

func routeOf(t ec2types.RouteTable, d ec2types.Route) *Route {
	r := &Route{RouteTable: text(t.RouteTableId), CIDR: aws.ToString(d.DestinationCidrBlock), IPv6CIDR: aws.ToString(d.DestinationIpv6CidrBlock),
		Gateway: text(d.GatewayId), EgressOnlyGateway: text(d.EgressOnlyInternetGatewayId), NATGateway: text(d.NatGatewayId),
		TransitGateway: text(d.TransitGatewayId), Peering: text(d.VpcPeeringConnectionId), Instance: text(d.InstanceId)}
	if r.Instance.IsZero() { // a route to a machine also names its interface
		r.NetworkInterface = text(d.NetworkInterfaceId)
	}
	r.Recorded = tagMap(t.Tags)[routeTagPrefix+r.destination()]
	return r
}

// ownedGateways returns the ids of the cluster's own gateways of all types.
func ownedGateways(ctx context.Context, c *Client, s resource.Scope) ([]string, error) {
	var ids []string
	internet, err := internetGatewayDescriber.listOwned(ctx, c, s)
	if err != nil {
		return nil, err
	}
	for _, g := range internet {
		ids = append(ids, aws.ToString(g.InternetGatewayId))
	}
	egress, err := egressOnlyDescriber.listOwned(ctx, c, s)
	if err != nil {
		return nil, err
	}
	for _, g := range egress {
		ids = append(ids, aws.ToString(g.EgressOnlyInternetGatewayId))
	}
	nat, err := natDescriber.listOwned(ctx, c, s)
	if err != nil {
		return nil, err
	}
	for _, g := range nat {
		ids = append(ids, aws.ToString(g.NatGatewayId))
	}
	return ids, nil
}

func createRoute(ctx context.Context, c *Client, r *Route) error {
	_, err := c.EC2.CreateRoute(ctx, &ec2.CreateRouteInput{RouteTableId: stringOrNil(r.RouteTable.Text()),
		DestinationCidrBlock: stringOrNil(r.CIDR), DestinationIpv6CidrBlock: stringOrNil(r.IPv6CIDR),
		GatewayId: stringOrNil(r.Gateway.Text()), EgressOnlyInternetGatewayId: stringOrNil(r.EgressOnlyGateway.Text()),
		NatGatewayId: stringOrNil(r.NATGateway.Text()), TransitGatewayId: stringOrNil(r.TransitGateway.Text()),
		VpcPeeringConnectionId: stringOrNil(r.Peering.Text()), NetworkInterfaceId: stringOrNil(r.NetworkInterface.Text()),
		InstanceId: stringOrNil(r.Instance.Text())})
	return err
}

func replaceRoute(ctx context.Context, c *Client, have, want *Route) error {
	_, err := c.EC2.ReplaceRoute(ctx, &ec2.ReplaceRouteInput{RouteTableId: stringOrNil(have.RouteTable.Text()),
		DestinationCidrBlock: stringOrNil(have.CIDR), DestinationIpv6CidrBlock: stringOrNil(have.IPv6CIDR),
		GatewayId: stringOrNil(want.Gateway.Text()), EgressOnlyInternetGatewayId: stringOrNil(want.EgressOnlyGateway.Text()),
		NatGatewayId: stringOrNil(want.NATGateway.Text()), TransitGatewayId: stringOrNil(want.TransitGateway.Text()),
		VpcPeeringConnectionId: stringOrNil(want.Peering.Text()), NetworkInterfaceId: stringOrNil(want.NetworkInterface.Text()),
		InstanceId: stringOrNil(want.Instance.Text())})
	return err
}
