package aws

import (
	"context"
	"fmt"
	"slices"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/aws/kinds"
)

// room returns how many more machines of each group the free addresses and vCPUs allow.
func room(ctx context.Context, s *platform.Session, c *api.Cluster, groups []*api.InstanceGroup) ([]platform.Room, error) {
	client := s.Client.(*kinds.Client)
	addresses, err := addressRoom(ctx, client, c, groups)
	if err != nil {
		return nil, err
	}
	cpus, err := cpuRoom(ctx, client, groups)
	return append(addresses, cpus...), err
}

// addressRoom returns how many addresses are free in the subnets of each group. IPv6-only subnets
// have no limit.
func addressRoom(ctx context.Context, client *kinds.Client, c *api.Cluster, groups []*api.InstanceGroup) ([]platform.Room, error) {
	free := map[string]int{} // by name in the spec
	pages := ec2.NewDescribeSubnetsPaginator(client.EC2, &ec2.DescribeSubnetsInput{Filters: []ec2types.Filter{
		{Name: sdk.String("tag-key"), Values: []string{kinds.TagOwnerPrefix + c.Name}}}})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("describe the subnets of %s: %w", c.Name, err)
		}
		for _, found := range page.Subnets {
			if name := subnetNamed(c, found); name != "" && !sdk.ToBool(found.Ipv6Native) {
				free[name] = int(sdk.ToInt32(found.AvailableIpAddressCount))
			}
		}
	}
	var out []platform.Room
	for _, g := range groups {
		r := platform.Room{Group: g.Name}
		known := len(g.Spec.Subnets) > 0
		for _, name := range g.Spec.Subnets {
			n, ok := free[name]
			known = known && ok
			r.Machines += n
			if r.Why != "" {
				r.Why += ", "
			}
			r.Why += fmt.Sprintf("the subnet %s has %d free addresses", name, n)
		}
		r.Remedy = "give the group another subnet, or free addresses in these"
		if known {
			out = append(out, r)
		}
	}
	return out, nil
}

// subnetNamed returns a subnet's name in the spec, or "".
func subnetNamed(c *api.Cluster, found ec2types.Subnet) string {
	for _, s := range c.Spec.Networking.Subnets {
		named := func(t ec2types.Tag) bool {
			return sdk.ToString(t.Key) == kinds.TagName && sdk.ToString(t.Value) == s.Name+"."+c.Name
		}
		if s.ID != "" && s.ID == sdk.ToString(found.SubnetId) || s.ID == "" && slices.ContainsFunc(found.Tags, named) {
			return s.Name
		}
	}
	return ""
}
