package aws

import (
	"context"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/route53"
	r53types "github.com/aws/aws-sdk-go-v2/service/route53/types"
	"golang.org/x/sync/errgroup"

	"kops.local/kops/internal/engine/clock"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/aws/awsapi"
)

// inventory lists the contents of the account, each as "kind: identity".
func (a *account) inventory(t testing.TB) []string {
	t.Helper()
	ctx, c := t.Context(), a.api
	questions := slices.Concat(networkQuestions(c), machineQuestions(c), accountQuestions(c))
	answers := make([][]string, len(questions))
	var g errgroup.Group
	for i, q := range questions {
		g.Go(func() (err error) {
			var ids []string
			err = fault.Retry(ctx, clock.Sleep, func() (err error) { ids, err = q.ask(ctx); return err }) // a server that has just started sometimes fails
			for _, id := range ids {
				answers[i] = append(answers[i], q.kind+": "+id)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	all := slices.Concat(answers...)
	slices.Sort(all)
	return all
}

// question is a query for the identities of one kind.
type question struct {
	kind string
	ask  func(context.Context) ([]string, error)
}

// ask builds a question from an API call, the list in its response, and the identity of
// an item, which is empty for an item that no longer exists.
func ask[In, Opt, Out, Item any](kind string, call func(context.Context, *In, ...Opt) (*Out, error), list func(*Out) []Item, id func(Item) string) question {
	return question{kind, func(ctx context.Context) ([]string, error) {
		out, err := call(ctx, new(In))
		if err != nil {
			return nil, err
		}
		var ids []string
		for _, i := range list(out) {
			if s := id(i); s != "" {
				ids = append(ids, s)
			}
		}
		return ids, nil
	}}
}

func networkQuestions(c *awsapi.Clients) []question {
	return []question{
		ask("vpc", c.EC2.DescribeVpcs, func(o *ec2.DescribeVpcsOutput) []ec2types.Vpc { return o.Vpcs }, func(v ec2types.Vpc) string { return *v.VpcId }),
		ask("subnet", c.EC2.DescribeSubnets, func(o *ec2.DescribeSubnetsOutput) []ec2types.Subnet { return o.Subnets }, func(s ec2types.Subnet) string { return *s.SubnetId }),
		ask("route table", c.EC2.DescribeRouteTables, func(o *ec2.DescribeRouteTablesOutput) []ec2types.RouteTable { return o.RouteTables }, func(r ec2types.RouteTable) string { return *r.RouteTableId }),
		ask("internet gateway", c.EC2.DescribeInternetGateways, func(o *ec2.DescribeInternetGatewaysOutput) []ec2types.InternetGateway { return o.InternetGateways }, func(g ec2types.InternetGateway) string { return *g.InternetGatewayId }),
		ask("dhcp options", c.EC2.DescribeDhcpOptions, func(o *ec2.DescribeDhcpOptionsOutput) []ec2types.DhcpOptions { return o.DhcpOptions }, func(d ec2types.DhcpOptions) string {
			if len(d.Tags) == 0 {
				return "" // the emulator ignores the tags of the creating call, so a cut leaves untagged ones
			}
			return *d.DhcpOptionsId
		}),
		ask("security group", c.EC2.DescribeSecurityGroups, func(o *ec2.DescribeSecurityGroupsOutput) []ec2types.SecurityGroup { return o.SecurityGroups }, func(g ec2types.SecurityGroup) string { return *g.GroupId }),
		ask("address", c.EC2.DescribeAddresses, func(o *ec2.DescribeAddressesOutput) []ec2types.Address { return o.Addresses }, func(a ec2types.Address) string { return *a.AllocationId }),
		ask("nat gateway", c.EC2.DescribeNatGateways, func(o *ec2.DescribeNatGatewaysOutput) []ec2types.NatGateway { return o.NatGateways }, func(n ec2types.NatGateway) string {
			if n.State == ec2types.NatGatewayStateDeleted {
				return ""
			}
			return *n.NatGatewayId
		}),
		{"network interface", func(ctx context.Context) ([]string, error) {
			return networkInterfaces(ctx, c.EC2)
		}},
	}
}

// networkInterfaces omits interfaces that the emulator forgets to delete with
// their machine or NAT gateway: the untagged ones whose subnet is gone.
func networkInterfaces(ctx context.Context, c *ec2.Client) ([]string, error) {
	all, err := c.DescribeNetworkInterfaces(ctx, &ec2.DescribeNetworkInterfacesInput{})
	if err != nil {
		return nil, err
	}
	subnets, err := c.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{})
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, n := range all.NetworkInterfaces {
		exists := slices.ContainsFunc(subnets.Subnets, func(s ec2types.Subnet) bool { return *s.SubnetId == *n.SubnetId })
		machine := n.Attachment != nil && n.Attachment.InstanceId != nil
		if len(n.TagSet) > 0 || exists && !machine {
			ids = append(ids, *n.NetworkInterfaceId)
		}
	}
	return ids, nil
}

func machineQuestions(c *awsapi.Clients) []question {
	return []question{
		ask("volume", c.EC2.DescribeVolumes, func(o *ec2.DescribeVolumesOutput) []ec2types.Volume { return o.Volumes }, func(v ec2types.Volume) string {
			if len(v.Attachments) > 0 && len(v.Tags) == 0 {
				return "" // a root volume: as with network interfaces
			}
			return *v.VolumeId
		}),
		ask("key pair", c.EC2.DescribeKeyPairs, func(o *ec2.DescribeKeyPairsOutput) []ec2types.KeyPairInfo { return o.KeyPairs }, func(k ec2types.KeyPairInfo) string { return *k.KeyName }),
		ask("launch template", c.EC2.DescribeLaunchTemplates, func(o *ec2.DescribeLaunchTemplatesOutput) []ec2types.LaunchTemplate { return o.LaunchTemplates }, func(l ec2types.LaunchTemplate) string { return *l.LaunchTemplateId }),
		ask("instances", c.EC2.DescribeInstances, func(o *ec2.DescribeInstancesOutput) []ec2types.Reservation { return o.Reservations }, func(r ec2types.Reservation) string {
			for _, i := range r.Instances {
				if i.State.Name != ec2types.InstanceStateNameTerminated {
					return *i.InstanceId
				}
			}
			return ""
		}),
		{"scaling group", func(ctx context.Context) ([]string, error) {
			out, err := c.AutoScaling.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{})
			if err != nil {
				return nil, err
			}
			var ids []string
			for _, g := range out.AutoScalingGroups {
				ids = append(ids, *g.AutoScalingGroupName)
				hooks, err := c.AutoScaling.DescribeLifecycleHooks(ctx, &autoscaling.DescribeLifecycleHooksInput{AutoScalingGroupName: g.AutoScalingGroupName})
				if err != nil {
					return nil, err
				}
				for _, h := range hooks.LifecycleHooks {
					ids = append(ids, "hook "+*h.LifecycleHookName)
				}
			}
			return ids, nil
		}},
		{"load balancer", func(ctx context.Context) ([]string, error) {
			out, err := c.ELB.DescribeLoadBalancers(ctx, &elb.DescribeLoadBalancersInput{})
			if err != nil {
				return nil, err
			}
			var ids []string
			for _, l := range out.LoadBalancers {
				ids = append(ids, *l.LoadBalancerName)
			}
			return ids, nil
		}},
		{"target group", func(ctx context.Context) ([]string, error) {
			out, err := c.ELB.DescribeTargetGroups(ctx, &elb.DescribeTargetGroupsInput{})
			if err != nil {
				return nil, err
			}
			var ids []string
			for _, g := range out.TargetGroups {
				ids = append(ids, *g.TargetGroupName)
			}
			return ids, nil
		}},
	}
}

// records lists the records of all zones, except the zones' own.
func records(ctx context.Context, c *route53.Client) ([]string, error) {
	zones, err := c.ListHostedZones(ctx, &route53.ListHostedZonesInput{})
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, z := range zones.HostedZones {
		list, err := c.ListResourceRecordSets(ctx, &route53.ListResourceRecordSetsInput{HostedZoneId: z.Id})
		if err != nil {
			return nil, err
		}
		for _, r := range list.ResourceRecordSets {
			if r.Type != r53types.RRTypeNs && r.Type != r53types.RRTypeSoa {
				ids = append(ids, *z.Id+" "+*r.Name+" "+string(r.Type))
			}
		}
	}
	return ids, nil
}

func accountQuestions(c *awsapi.Clients) []question {
	return []question{
		{"record", func(ctx context.Context) ([]string, error) { return records(ctx, c.Route53) }},
		{"role", func(ctx context.Context) ([]string, error) {
			out, err := c.IAM.ListRoles(ctx, &iam.ListRolesInput{})
			if err != nil {
				return nil, err
			}
			var ids []string
			for _, r := range out.Roles {
				ids = append(ids, *r.RoleName)
			}
			return ids, nil
		}},
		{"instance profile", func(ctx context.Context) ([]string, error) {
			out, err := c.IAM.ListInstanceProfiles(ctx, &iam.ListInstanceProfilesInput{})
			if err != nil {
				return nil, err
			}
			var ids []string
			for _, p := range out.InstanceProfiles {
				ids = append(ids, *p.InstanceProfileName)
			}
			return ids, nil
		}},
		{"queue", func(ctx context.Context) ([]string, error) {
			return awsapi.List[string](ctx, c.SQS, "ListQueues", "QueueUrls", awsapi.Fields{})
		}},
		{"rule", func(ctx context.Context) ([]string, error) {
			rules, err := awsapi.List[struct{ Name string }](ctx, c.Events, "ListRules", "Rules", awsapi.Fields{})
			var ids []string
			for _, r := range rules {
				ids = append(ids, r.Name)
			}
			return ids, err
		}},
	}
}
