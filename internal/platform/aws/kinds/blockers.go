package kinds

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"kops.local/kops/internal/engine/fault"
)

// AWS reports that something is in use, but not by what. The functions here look it up after a
// deletion was rejected; if they find nothing, they return the original error.

// explainBlockedVPC adds to the error what keeps a VPC from being deleted. Resources outside of the
// cluster will not go away, so they make the error permanent.
func explainBlockedVPC(ctx context.Context, c *Client, v *VPC, refused error) error {
	cluster := v.Tags[TagCluster]
	in := []ec2types.Filter{filter("vpc-id", v.ID)}
	var others, ours []string
	note := func(what string, id *string, tags []ec2types.Tag) {
		item := what + " " + aws.ToString(id)
		if isOwned(tagMap(tags), cluster) {
			ours = append(ours, item)
		} else {
			others = append(others, item)
		}
	}
	if list, err := subnetDescriber.describe(ctx, c, in); err == nil {
		for _, d := range list {
			note("subnet", d.SubnetId, d.Tags)
		}
	}
	if list, err := securityGroupDescriber.describe(ctx, c, in); err == nil {
		for _, d := range list {
			if aws.ToString(d.GroupName) != "default" {
				note("security group", d.GroupId, d.Tags)
			}
		}
	}
	if list, err := routeTableDescriber.describe(ctx, c, in); err == nil {
		for _, d := range list {
			if !isMain(d) {
				note("route table", d.RouteTableId, d.Tags)
			}
		}
	}
	if list, err := internetGatewayDescriber.describe(ctx, c, []ec2types.Filter{filter("attachment.vpc-id", v.ID)}); err == nil {
		for _, d := range list {
			note("internet gateway", d.InternetGatewayId, d.Tags)
		}
	}
	if len(others) > 0 {
		return fault.Wrap(fault.Permanent, fmt.Errorf("VPC %s is in use by %s, outside this cluster: %w", v.ID, strings.Join(others, ", "), refused),
			"delete what uses the VPC and run the command again")
	}
	ours = append(ours, interfacesOf(ctx, c, "vpc-id", v.ID)...)
	return inUseError("VPC "+v.ID, ours, refused)
}

// interfacesOf describes the network interfaces that use a resource.
func interfacesOf(ctx context.Context, c *Client, by, id string) []string {
	o, err := c.EC2.DescribeNetworkInterfaces(ctx, &ec2.DescribeNetworkInterfacesInput{Filters: []ec2types.Filter{filter(by, id)}})
	if err != nil {
		return nil
	}
	var out []string
	for _, n := range o.NetworkInterfaces {
		item := "network interface " + aws.ToString(n.NetworkInterfaceId)
		if a := n.Attachment; a != nil && a.InstanceId != nil {
			item += " of machine " + *a.InstanceId
		} else if text := aws.ToString(n.Description); text != "" {
			item += " (" + text + ")"
		}
		out = append(out, item)
	}
	return out
}

// groupUsers describes what uses a security group: network interfaces,
// and groups whose rules refer to it.
func groupUsers(ctx context.Context, c *Client, id string) []string {
	out := interfacesOf(ctx, c, "group-id", id)
	for _, by := range []string{"ip-permission.group-id", "egress.ip-permission.group-id"} {
		list, err := securityGroupDescriber.describe(ctx, c, []ec2types.Filter{filter(by, id)})
		if err != nil {
			continue
		}
		for _, d := range list {
			if aws.ToString(d.GroupId) != id {
				out = append(out, "a rule of security group "+aws.ToString(d.GroupId))
			}
		}
	}
	return out
}

// inUseError adds a resource's users to the error that rejected its deletion.
func inUseError(what string, users []string, refused error) error {
	if len(users) == 0 {
		return fmt.Errorf("delete %s: %w", what, refused)
	}
	return fmt.Errorf("%s is in use by %s: %w", what, strings.Join(users, ", "), refused)
}
