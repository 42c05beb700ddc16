package kinds

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
)

// RouteTable contains the routes of the subnets that are associated with it.
type RouteTable struct {
	VPC  resource.Value `res:"replace" tf:"vpc_id"`
	Tags Tags           `tf:"tags"`
	// SharedNATGateway is the id, "nat-…", of a NAT gateway outside of the cluster that the table
	// routes to. It is stored as a tag, which tells kOps not to delete the gateway with the
	// cluster; kOps never writes it for Terraform.
	SharedNATGateway string

	ID string `res:"out,id" out:"id"`
}

// sharedNATTag is the key of the tag that stores SharedNATGateway.
const sharedNATTag = "AssociatedNatgateway"

// sharedNAT returns the tag that stores SharedNATGateway.
func (r *RouteTable) sharedNAT() map[string]string {
	if r.SharedNATGateway == "" {
		return nil
	}
	return map[string]string{sharedNATTag: r.SharedNATGateway}
}

// allTags returns the tags of a new table.
func (r *RouteTable) allTags() map[string]string {
	tags := maps.Clone(r.Tags)
	maps.Copy(tags, r.sharedNAT())
	return tags
}

// RouteTables is the kind of RouteTable. Its tag Name must be the node's name, which is used to
// find its routes.
var RouteTables = resource.Kind[RouteTable, *Client]{
	Name:  "aws_route_table",
	API:   apiEC2,
	Phase: resource.Network,
	Tasks: []string{"RouteTable"},
	Early: true,
	Key:   func(r *RouteTable) string { return r.Tags[TagName] },
	List: func(ctx context.Context, c *Client, s resource.Scope) ([]*RouteTable, error) {
		list, err := routeTableDescriber.listAll(ctx, c, s)
		return convert(list, err, func(d ec2types.RouteTable) *RouteTable {
			tags := tagMap(d.Tags)
			r := &RouteTable{VPC: text(d.VpcId), Tags: tags, SharedNATGateway: tags[sharedNATTag], ID: aws.ToString(d.RouteTableId)}
			maps.DeleteFunc(tags, func(k, _ string) bool { // tags of routes and of other fields
				return strings.HasPrefix(k, routeTagPrefix) || k == sharedNATTag
			})
			return r
		})
	},
	Create: func(ctx context.Context, c *Client, r *RouteTable) error {
		o, err := c.EC2.CreateRouteTable(ctx, &ec2.CreateRouteTableInput{
			VpcId: aws.String(r.VPC.Text()), TagSpecifications: tagSpec(ec2types.ResourceTypeRouteTable, r.allTags())})
		if err == nil {
			r.ID = aws.ToString(o.RouteTable.RouteTableId)
		}
		return err
	},
	Update: []resource.Setter[RouteTable, *Client]{
		tagSetter(func(r *RouteTable) (string, map[string]string) { return r.ID, r.Tags }),
		{Fields: []string{"SharedNATGateway"}, Set: setSharedNAT},
	},
	Delete: func(ctx context.Context, c *Client, r *RouteTable) error {
		_, err := c.EC2.DeleteRouteTable(ctx, &ec2.DeleteRouteTableInput{RouteTableId: &r.ID})
		return fault.IgnoreGone(err)
	},
}

func setSharedNAT(ctx context.Context, c *Client, have, want *RouteTable) error {
	if tag := ec2Tags(want.sharedNAT()); len(tag) > 0 {
		_, err := c.EC2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{have.ID}, Tags: tag})
		return err
	}
	_, err := c.EC2.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: []string{have.ID}, Tags: []ec2types.Tag{{Key: aws.String(sharedNATTag)}}})
	return err
}

// routeTableDescriber describes route tables with their associations and their routes.
var routeTableDescriber = describer[ec2types.RouteTable]{
	what: "route tables", id: "route-table-id",
	tags: func(r ec2types.RouteTable) []ec2types.Tag { return r.Tags },
	describe: func(ctx context.Context, c *Client, f []ec2types.Filter) ([]ec2types.RouteTable, error) {
		return pages(ctx, ec2.NewDescribeRouteTablesPaginator(c.EC2, &ec2.DescribeRouteTablesInput{Filters: f}),
			func(o *ec2.DescribeRouteTablesOutput) []ec2types.RouteTable { return o.RouteTables })
	},
}

// isMain reports whether the table is its VPC's main table, which is
// created and deleted with the VPC.
func isMain(d ec2types.RouteTable) bool {
	return slices.ContainsFunc(d.Associations, func(a ec2types.RouteTableAssociation) bool { return aws.ToBool(a.Main) })
}

// RouteTableAssociation makes a subnet use a route table.
type RouteTableAssociation struct {
	Subnet     resource.Value `res:"replace" tf:"subnet_id"`
	RouteTable resource.Value `tf:"route_table_id"`

	ID string `res:"out,volatile" out:"id"` // changing the table assigns a new ID
}

// RouteTableAssociations is the kind of RouteTableAssociation.
var RouteTableAssociations = resource.Kind[RouteTableAssociation, *Client]{
	Name:  "aws_route_table_association",
	API:   apiEC2,
	Phase: resource.Network,
	Tasks: []string{"RouteTableAssociation"},
	Key:   func(r *RouteTableAssociation) string { return r.Subnet.String() },
	List:  listRouteTableAssociations,
	Create: func(ctx context.Context, c *Client, r *RouteTableAssociation) error {
		o, err := c.EC2.AssociateRouteTable(ctx, &ec2.AssociateRouteTableInput{
			RouteTableId: aws.String(r.RouteTable.Text()), SubnetId: aws.String(r.Subnet.Text())})
		if err == nil {
			r.ID = aws.ToString(o.AssociationId)
		}
		return err
	},
	Update: []resource.Setter[RouteTableAssociation, *Client]{{
		Fields: []string{"RouteTable"},
		Set: func(ctx context.Context, c *Client, have, want *RouteTableAssociation) error {
			o, err := c.EC2.ReplaceRouteTableAssociation(ctx, &ec2.ReplaceRouteTableAssociationInput{
				AssociationId: &have.ID, RouteTableId: aws.String(want.RouteTable.Text())})
			if err == nil {
				have.ID = aws.ToString(o.NewAssociationId)
			}
			return err
		},
	}},
	Delete: func(ctx context.Context, c *Client, r *RouteTableAssociation) error {
		_, err := c.EC2.DisassociateRouteTable(ctx, &ec2.DisassociateRouteTableInput{AssociationId: &r.ID})
		return fault.IgnoreGone(err)
	},
}

// listRouteTableAssociations lists the cluster's subnets that use one of the cluster's tables.
// Other subnets that users associated with one matter only when the tables are deleted.
func listRouteTableAssociations(ctx context.Context, c *Client, s resource.Scope) ([]*RouteTableAssociation, error) {
	tables, err := routeTableDescriber.listOwned(ctx, c, s)
	if err != nil {
		return nil, err
	}
	ours, err := subnetDescriber.listOwned(ctx, c, s)
	if err != nil {
		return nil, err
	}
	var out []*RouteTableAssociation
	for _, t := range tables {
		for _, a := range t.Associations {
			id := aws.ToString(a.SubnetId)
			if id == "" || a.AssociationState != nil && a.AssociationState.State == ec2types.RouteTableAssociationStateCodeDisassociated {
				continue
			}
			if s.All || slices.ContainsFunc(ours, func(n ec2types.Subnet) bool { return aws.ToString(n.SubnetId) == id }) {
				out = append(out, &RouteTableAssociation{Subnet: resource.Lit(id), RouteTable: text(t.RouteTableId),
					ID: aws.ToString(a.RouteTableAssociationId)})
			}
		}
	}
	return out, nil
}
