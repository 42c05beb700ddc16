package kinds

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
)

// InternetGateway connects a VPC to the internet.
type InternetGateway struct {
	VPC  resource.Value `res:",post" tf:"vpc_id"`
	Tags Tags           `tf:"tags"`

	ID string `res:"out,id" out:"id"`
}

// InternetGateways is the kind of InternetGateway.
var InternetGateways = resource.Kind[InternetGateway, *Client]{
	Name:  "aws_internet_gateway",
	API:   apiEC2,
	Phase: resource.Network,
	Tasks: []string{"InternetGateway"},
	Early: true,
	Key:   func(g *InternetGateway) string { return g.Tags[TagName] },
	List: func(ctx context.Context, c *Client, s resource.Scope) ([]*InternetGateway, error) {
		list, err := internetGatewayDescriber.listAll(ctx, c, s)
		return convert(list, err, internetGatewayOf)
	},
	Create: func(ctx context.Context, c *Client, g *InternetGateway) error {
		o, err := c.EC2.CreateInternetGateway(ctx, &ec2.CreateInternetGatewayInput{
			TagSpecifications: tagSpec(ec2types.ResourceTypeInternetGateway, g.Tags)})
		if err == nil {
			g.ID = aws.ToString(o.InternetGateway.InternetGatewayId)
		}
		return err
	},
	Update: []resource.Setter[InternetGateway, *Client]{
		{Fields: []string{"VPC"}, Set: func(ctx context.Context, c *Client, have, want *InternetGateway) error {
			if err := detach(ctx, c, have); err != nil {
				return err
			}
			_, err := c.EC2.AttachInternetGateway(ctx, &ec2.AttachInternetGatewayInput{
				InternetGatewayId: &have.ID, VpcId: aws.String(want.VPC.Text())})
			if hasCode(err, "Resource.AlreadyAssociated") {
				return ignoreIfAttached(ctx, c, have.ID, want.VPC.Text(), err)
			}
			return err
		}},
		tagSetter(func(g *InternetGateway) (string, map[string]string) { return g.ID, g.Tags }),
	},
	Delete: func(ctx context.Context, c *Client, g *InternetGateway) error {
		if err := detach(ctx, c, g); err != nil {
			return err
		}
		_, err := c.EC2.DeleteInternetGateway(ctx, &ec2.DeleteInternetGatewayInput{InternetGatewayId: &g.ID})
		return fault.IgnoreGone(err)
	},
}

var internetGatewayDescriber = describer[ec2types.InternetGateway]{
	what: "internet gateways", id: "internet-gateway-id",
	tags: func(g ec2types.InternetGateway) []ec2types.Tag { return g.Tags },
	describe: func(ctx context.Context, c *Client, f []ec2types.Filter) ([]ec2types.InternetGateway, error) {
		return pages(ctx, ec2.NewDescribeInternetGatewaysPaginator(c.EC2, &ec2.DescribeInternetGatewaysInput{Filters: f}),
			func(o *ec2.DescribeInternetGatewaysOutput) []ec2types.InternetGateway { return o.InternetGateways })
	},
}

func internetGatewayOf(d ec2types.InternetGateway) *InternetGateway {
	g := &InternetGateway{Tags: tagMap(d.Tags), ID: aws.ToString(d.InternetGatewayId)}
	if len(d.Attachments) > 0 { // at most one
		g.VPC = text(d.Attachments[0].VpcId)
	}
	return g
}

func detach(ctx context.Context, c *Client, g *InternetGateway) error {
	if g.VPC.IsZero() {
		return nil
	}
	_, err := c.EC2.DetachInternetGateway(ctx, &ec2.DetachInternetGatewayInput{
		InternetGatewayId: &g.ID, VpcId: aws.String(g.VPC.Text())})
	return fault.IgnoreGone(err)
}

// ignoreIfAttached ignores a rejected attachment if the gateway is attached already, by an earlier
// attempt whose response was lost.
func ignoreIfAttached(ctx context.Context, c *Client, id, vpc string, refused error) error {
	list, err := internetGatewayDescriber.describe(ctx, c, []ec2types.Filter{filter("internet-gateway-id", id)})
	if err == nil && len(list) == 1 && internetGatewayOf(list[0]).VPC.Text() == vpc {
		return nil
	}
	return refused
}

// EgressOnlyGateway lets IPv6 traffic out of a VPC, but not in.
type EgressOnlyGateway struct {
	VPC  resource.Value `res:"replace" tf:"vpc_id"`
	Tags Tags           `tf:"tags"`

	ID string `res:"out,id" out:"id"`
}

// EgressOnlyGateways is the kind of EgressOnlyGateway.
var EgressOnlyGateways = resource.Kind[EgressOnlyGateway, *Client]{
	Name:  "aws_egress_only_internet_gateway",
	API:   apiEC2,
	Phase: resource.Network,
	Tasks: []string{"EgressOnlyInternetGateway"},
	Key:   func(g *EgressOnlyGateway) string { return g.Tags[TagName] },
	List: func(ctx context.Context, c *Client, s resource.Scope) ([]*EgressOnlyGateway, error) {
		list, err := egressOnlyDescriber.listAll(ctx, c, s)
		return convert(list, err, egressOnlyGatewayOf)
	},
	Create: func(ctx context.Context, c *Client, g *EgressOnlyGateway) error {
		o, err := c.EC2.CreateEgressOnlyInternetGateway(ctx, &ec2.CreateEgressOnlyInternetGatewayInput{
			VpcId:             aws.String(g.VPC.Text()),
			TagSpecifications: tagSpec(ec2types.ResourceTypeEgressOnlyInternetGateway, g.Tags)})
		if err == nil {
			g.ID = aws.ToString(o.EgressOnlyInternetGateway.EgressOnlyInternetGatewayId)
		}
		return err
	},
	Update: []resource.Setter[EgressOnlyGateway, *Client]{
		tagSetter(func(g *EgressOnlyGateway) (string, map[string]string) { return g.ID, g.Tags }),
	},
	Delete: func(ctx context.Context, c *Client, g *EgressOnlyGateway) error {
		_, err := c.EC2.DeleteEgressOnlyInternetGateway(ctx, &ec2.DeleteEgressOnlyInternetGatewayInput{EgressOnlyInternetGatewayId: &g.ID})
		return fault.IgnoreGone(err)
	},
}

var egressOnlyDescriber = describer[ec2types.EgressOnlyInternetGateway]{
	what: "egress-only gateways",
	tags: func(g ec2types.EgressOnlyInternetGateway) []ec2types.Tag { return g.Tags },
	id:   "egress-only-internet-gateway-id",
	describe: func(ctx context.Context, c *Client, f []ec2types.Filter) ([]ec2types.EgressOnlyInternetGateway, error) {
		return pages(ctx, ec2.NewDescribeEgressOnlyInternetGatewaysPaginator(c.EC2, &ec2.DescribeEgressOnlyInternetGatewaysInput{Filters: f}),
			func(o *ec2.DescribeEgressOnlyInternetGatewaysOutput) []ec2types.EgressOnlyInternetGateway {
				return o.EgressOnlyInternetGateways
			})
	},
}

func egressOnlyGatewayOf(d ec2types.EgressOnlyInternetGateway) *EgressOnlyGateway {
	g := &EgressOnlyGateway{Tags: tagMap(d.Tags), ID: aws.ToString(d.EgressOnlyInternetGatewayId)}
	if len(d.Attachments) > 0 { // exactly one
		g.VPC = text(d.Attachments[0].VpcId)
	}
	return g
}
