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

// SecurityGroup is a set of network interfaces that share firewall rules.
type SecurityGroup struct {
	Name string `res:"forbid" tf:"name"`
	// Description is set when the group is created; AWS cannot change it.
	Description string         `res:"writeonly" tf:"description"`
	VPC         resource.Value `res:"forbid" tf:"vpc_id"`
	Tags        Tags           `tf:"tags"`

	ID string `res:"out,id" out:"id"`
}

// SecurityGroups is the kind of SecurityGroup. For the cluster's own groups, the tag Name and the
// node's name must both be the group's name: the tag distinguishes them from groups that
// controllers in the cluster create, and the node's name is used to find their rules. The node's
// name of a shared group must be the id, a hyphen and any text.
var SecurityGroups = resource.Kind[SecurityGroup, *Client]{
	Name:  "aws_security_group",
	API:   apiEC2,
	Phase: resource.Security,
	Tasks: []string{"SecurityGroup"},
	Early: true,
	Key:   func(g *SecurityGroup) string { return g.Name },
	List:  listSecurityGroups,
	Create: func(ctx context.Context, c *Client, g *SecurityGroup) error {
		o, err := c.EC2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{
			GroupName: &g.Name, Description: &g.Description, VpcId: aws.String(g.VPC.Text()),
			TagSpecifications: tagSpec(ec2types.ResourceTypeSecurityGroup, g.Tags)})
		if err == nil {
			g.ID = aws.ToString(o.GroupId)
		}
		return err
	},
	Update: []resource.Setter[SecurityGroup, *Client]{
		tagSetter(func(g *SecurityGroup) (string, map[string]string) { return g.ID, g.Tags }),
	},
	Delete: func(ctx context.Context, c *Client, g *SecurityGroup) error {
		_, err := c.EC2.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: &g.ID})
		if fault.Is(err, fault.Conflict) {
			return inUseError("security group "+g.ID, groupUsers(ctx, c, g.ID), err)
		}
		return fault.IgnoreGone(err)
	},
}

// securityGroupDescriber describes the groups.
var securityGroupDescriber = describer[ec2types.SecurityGroup]{
	what: "security groups", id: "group-id",
	tags: func(g ec2types.SecurityGroup) []ec2types.Tag { return g.Tags },
	describe: func(ctx context.Context, c *Client, f []ec2types.Filter) ([]ec2types.SecurityGroup, error) {
		return pages(ctx, ec2.NewDescribeSecurityGroupsPaginator(c.EC2, &ec2.DescribeSecurityGroupsInput{Filters: f}),
			func(o *ec2.DescribeSecurityGroupsOutput) []ec2types.SecurityGroup { return o.SecurityGroups })
	},
}

func listSecurityGroups(ctx context.Context, c *Client, s resource.Scope) ([]*SecurityGroup, error) {
	list, err := ownSecurityGroups(ctx, c, s)
	if err == nil && len(s.Adopted) > 0 {
		var shared []ec2types.SecurityGroup
		shared, err = securityGroupDescriber.describe(ctx, c, []ec2types.Filter{filter("group-id", s.Adopted...)})
		list = append(list, shared...)
	}
	return convert(list, err, func(d ec2types.SecurityGroup) *SecurityGroup {
		return &SecurityGroup{Name: aws.ToString(d.GroupName), Description: aws.ToString(d.Description),
			VPC: text(d.VpcId), Tags: tagMap(d.Tags), ID: aws.ToString(d.GroupId)}
	})
}

// ownSecurityGroups leaves out groups of controllers in the cluster, unless s.All is set.
func ownSecurityGroups(ctx context.Context, c *Client, s resource.Scope) ([]ec2types.SecurityGroup, error) {
	list, err := securityGroupDescriber.listOwned(ctx, c, s)
	return slices.DeleteFunc(slices.Clone(list), func(d ec2types.SecurityGroup) bool {
		return !s.All && tagMap(d.Tags)[TagName] != aws.ToString(d.GroupName)
	}), err
}
