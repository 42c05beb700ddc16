package rehearsal

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	scalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"golang.org/x/sync/errgroup"

	"kops.local/kops/internal/platform/rehearsal"
)

// instance is a running or pending instance.
type instance struct {
	types.Instance
	Address netip.Addr
	VPC     netip.Prefix
	Subnet  netip.Prefix
	Group   string // its Auto Scaling group, or ""
	// Template is the launch template of its group.
	Template *scalingtypes.LaunchTemplateSpecification
}

// volume is a volume attached to an instance, except the root volume.
type volume struct {
	id, instance, device string
	gib                  int
}

// snapshot is the observed state of the emulator.
type snapshot struct {
	instances map[string]*instance
	// ended maps the instances that the emulator still lists, but that do
	// not run, to their root devices.
	ended     map[string]string
	attached  []volume
	volumes   map[string]bool // all existing volumes
	subnets   map[string]types.Subnet
	routes    map[string]string // range → instance
	balancers []balancer
	zones     []rehearsal.Zone
	groups    []scalingtypes.AutoScalingGroup
	spares    map[string][]string // instances in warm pools, by group
}

// ownAddresses returns the private addresses of an instance's network interfaces: with a
// source/destination check, packets from and to other addresses are dropped (EC2 user guide, Elastic
// network interfaces).
func (i *instance) ownAddresses() []netip.Prefix {
	own := map[netip.Prefix]bool{netip.PrefixFrom(i.Address, i.Address.BitLen()): true}
	for _, n := range i.NetworkInterfaces {
		for _, a := range n.PrivateIpAddresses {
			if a, err := netip.ParseAddr(aws.ToString(a.PrivateIpAddress)); err == nil {
				own[netip.PrefixFrom(a, a.BitLen())] = true
			}
		}
		for _, r := range n.Ipv4Prefixes {
			if r, err := netip.ParsePrefix(aws.ToString(r.Ipv4Prefix)); err == nil {
				own[r] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(own), netip.Prefix.Compare)
}

// pager requests a response page by page.
type pager[P, O any] interface {
	HasMorePages() bool
	NextPage(context.Context, ...func(*O)) (P, error)
}

// list returns the items of all pages of a response.
func list[P, O, T any](ctx context.Context, pages pager[P, O], held func(P) []T) (out []T, err error) {
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, held(page)...)
	}
	return out, nil
}

// answers are the emulator's responses, before they are combined.
type answers struct {
	reservations []types.Reservation
	vpcs         []types.Vpc
	subnets      []types.Subnet
	volumes      []types.Volume
	tables       []types.RouteTable
	groups       []scalingtypes.AutoScalingGroup
	balancers    []balancer
	zones        []rehearsal.Zone
}

// observe reads everything that is emulated from the emulator.
func (p *play) observe(ctx context.Context) (snapshot, error) {
	a, err := p.fetch(ctx)
	if err != nil {
		return snapshot{}, fmt.Errorf("list the emulator's resources: %w", err)
	}
	return a.combine(), nil
}

// fetch sends all requests concurrently.
func (p *play) fetch(ctx context.Context) (a answers, err error) {
	work, ctx := errgroup.WithContext(ctx)
	api := p.clients.EC2
	work.Go(func() (err error) {
		a.reservations, err = list(ctx, ec2.NewDescribeInstancesPaginator(api, &ec2.DescribeInstancesInput{}), func(o *ec2.DescribeInstancesOutput) []types.Reservation { return o.Reservations })
		return err
	})
	work.Go(func() (err error) {
		a.vpcs, err = list(ctx, ec2.NewDescribeVpcsPaginator(api, &ec2.DescribeVpcsInput{}), func(o *ec2.DescribeVpcsOutput) []types.Vpc { return o.Vpcs })
		return err
	})
	work.Go(func() (err error) {
		a.subnets, err = list(ctx, ec2.NewDescribeSubnetsPaginator(api, &ec2.DescribeSubnetsInput{}), func(o *ec2.DescribeSubnetsOutput) []types.Subnet { return o.Subnets })
		return err
	})
	work.Go(func() (err error) {
		a.volumes, err = list(ctx, ec2.NewDescribeVolumesPaginator(api, &ec2.DescribeVolumesInput{}), func(o *ec2.DescribeVolumesOutput) []types.Volume { return o.Volumes })
		return err
	})
	work.Go(func() (err error) {
		a.tables, err = list(ctx, ec2.NewDescribeRouteTablesPaginator(api, &ec2.DescribeRouteTablesInput{}), func(o *ec2.DescribeRouteTablesOutput) []types.RouteTable { return o.RouteTables })
		return err
	})
	work.Go(func() (err error) {
		a.groups, err = list(ctx, autoscaling.NewDescribeAutoScalingGroupsPaginator(p.clients.AutoScaling, &autoscaling.DescribeAutoScalingGroupsInput{}),
			func(o *autoscaling.DescribeAutoScalingGroupsOutput) []scalingtypes.AutoScalingGroup {
				return o.AutoScalingGroups
			})
		return err
	})
	work.Go(func() (err error) {
		a.balancers, err = p.observeBalancers(ctx)
		return err
	})
	work.Go(func() (err error) {
		a.zones, err = p.observeZones(ctx)
		return err
	})
	return a, work.Wait()
}

// combine combines the responses.
func (a answers) combine() snapshot {
	s := snapshot{instances: map[string]*instance{}, ended: map[string]string{}, volumes: map[string]bool{},
		subnets: map[string]types.Subnet{}, routes: map[string]string{}, balancers: a.balancers, zones: a.zones, groups: a.groups}
	for _, n := range a.subnets {
		s.subnets[aws.ToString(n.SubnetId)] = n
	}
	ranges := map[string]netip.Prefix{}
	for _, v := range a.vpcs {
		ranges[aws.ToString(v.VpcId)], _ = netip.ParsePrefix(aws.ToString(v.CidrBlock)) // the emulator's ranges are valid
	}
	groups, targets := a.members()
	s.addInstances(a.reservations, ranges, groups)
	s.addSpares(a.reservations)
	s.addVolumes(a.volumes)
	s.addRoutes(a.tables)
	for i, b := range s.balancers {
		for j, f := range b.fronts {
			s.balancers[i].fronts[j].instances = slices.Compact(slices.Sorted(slices.Values(slices.Concat(f.instances, targets[f.group]))))
		}
	}
	return s
}

// members returns the Auto Scaling group of each instance, and the instances that groups register
// in each target group.
func (a answers) members() (groups map[string]scalingtypes.AutoScalingGroup, targets map[string][]string) {
	groups, targets = map[string]scalingtypes.AutoScalingGroup{}, map[string][]string{}
	for _, g := range a.groups {
		for _, i := range g.Instances {
			groups[aws.ToString(i.InstanceId)] = g
			for _, t := range g.TargetGroupARNs {
				targets[t] = append(targets[t], aws.ToString(i.InstanceId))
			}
		}
	}
	return groups, targets
}

func (s *snapshot) addInstances(reservations []types.Reservation, vpcs map[string]netip.Prefix, groups map[string]scalingtypes.AutoScalingGroup) {
	for _, r := range reservations {
		for _, i := range r.Instances {
			id := aws.ToString(i.InstanceId)
			if i.State.Name != types.InstanceStateNameRunning && i.State.Name != types.InstanceStateNamePending || poolOf(i) != "" {
				s.ended[id] = aws.ToString(i.RootDeviceName)
				continue
			}
			a, err := netip.ParseAddr(aws.ToString(i.PrivateIpAddress))
			vpc := vpcs[aws.ToString(i.VpcId)]
			if err != nil || !vpc.Contains(a) {
				continue // it is not in its network yet
			}
			subnet, _ := netip.ParsePrefix(aws.ToString(s.subnets[aws.ToString(i.SubnetId)].CidrBlock)) // the emulator's ranges are valid
			m := &instance{Instance: i, Address: a, VPC: vpc, Subnet: subnet, Group: aws.ToString(groups[id].AutoScalingGroupName), Template: templateOf(groups[id])}
			s.instances[id] = m
		}
	}
}

func (s *snapshot) addVolumes(volumes []types.Volume) {
	for _, v := range volumes {
		id := aws.ToString(v.VolumeId)
		s.volumes[id] = true
		for _, a := range v.Attachments {
			root, known := s.ended[aws.ToString(a.InstanceId)]
			if i := s.instances[aws.ToString(a.InstanceId)]; i != nil {
				root, known = aws.ToString(i.RootDeviceName), true
			}
			if device := aws.ToString(a.Device); known && device != root {
				s.attached = append(s.attached, volume{id, aws.ToString(a.InstanceId), device, int(aws.ToInt32(v.Size))})
			}
		}
	}
	slices.SortFunc(s.attached, func(a, b volume) int {
		return cmp.Or(cmp.Compare(a.instance, b.instance), cmp.Compare(a.device, b.device))
	})
}

func (s *snapshot) addRoutes(tables []types.RouteTable) {
	for _, t := range tables {
		for _, r := range t.Routes {
			if id := aws.ToString(r.InstanceId); s.instances[id] != nil && aws.ToString(r.DestinationCidrBlock) != "" {
				s.routes[aws.ToString(r.DestinationCidrBlock)] = id
			}
		}
	}
}

// templateOf returns the launch template of a group; nil if it has none.
func templateOf(g scalingtypes.AutoScalingGroup) *scalingtypes.LaunchTemplateSpecification {
	if m := g.MixedInstancesPolicy; m != nil && m.LaunchTemplate != nil {
		return m.LaunchTemplate.LaunchTemplateSpecification
	}
	return g.LaunchTemplate
}

// observeBalancers reads the load balancers, their listeners and registered instances.
func (p *play) observeBalancers(ctx context.Context) ([]balancer, error) {
	api := p.clients.ELB
	all, err := list(ctx, elb.NewDescribeLoadBalancersPaginator(api, &elb.DescribeLoadBalancersInput{}), func(o *elb.DescribeLoadBalancersOutput) []elbtypes.LoadBalancer { return o.LoadBalancers })
	if err != nil || len(all) == 0 {
		return nil, err
	}
	targets, err := p.observeTargets(ctx)
	if err != nil {
		return nil, err
	}
	var out []balancer
	for _, l := range all {
		b := balancer{name: aws.ToString(l.LoadBalancerName), host: aws.ToString(l.DNSName), created: aws.ToTime(l.CreatedTime)}
		for _, z := range l.AvailabilityZones {
			b.subnets = append(b.subnets, aws.ToString(z.SubnetId))
		}
		listeners, err := list(ctx, elb.NewDescribeListenersPaginator(api, &elb.DescribeListenersInput{LoadBalancerArn: l.LoadBalancerArn}), func(o *elb.DescribeListenersOutput) []elbtypes.Listener { return o.Listeners })
		if err != nil {
			return nil, err
		}
		for _, x := range listeners {
			for _, a := range x.DefaultActions {
				if f, ok := targets[aws.ToString(a.TargetGroupArn)]; ok {
					f.port = int(aws.ToInt32(x.Port))
					b.fronts = append(b.fronts, f)
				}
			}
		}
		out = append(out, b)
	}
	slices.SortFunc(out, func(a, b balancer) int { return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.name, b.name)) })
	return out, nil
}

// observeTargets reads the target groups, by ARN, and the instances registered in each.
func (p *play) observeTargets(ctx context.Context) (map[string]front, error) {
	api := p.clients.ELB
	groups, err := list(ctx, elb.NewDescribeTargetGroupsPaginator(api, &elb.DescribeTargetGroupsInput{}), func(o *elb.DescribeTargetGroupsOutput) []elbtypes.TargetGroup { return o.TargetGroups })
	if err != nil {
		return nil, err
	}
	out := map[string]front{}
	for _, g := range groups {
		f := front{target: int(aws.ToInt32(g.Port)), group: aws.ToString(g.TargetGroupArn)}
		health, err := api.DescribeTargetHealth(ctx, &elb.DescribeTargetHealthInput{TargetGroupArn: g.TargetGroupArn})
		if err != nil {
			return nil, err
		}
		for _, t := range health.TargetHealthDescriptions {
			f.instances = append(f.instances, aws.ToString(t.Target.Id))
		}
		out[f.group] = f
	}
	return out, nil
}

// userData returns an instance's user data.
func (p *play) userData(ctx context.Context, id string) (string, error) {
	out, err := p.clients.EC2.DescribeInstanceAttribute(ctx, &ec2.DescribeInstanceAttributeInput{InstanceId: aws.String(id), Attribute: types.InstanceAttributeNameUserData})
	if err != nil {
		return "", fmt.Errorf("get the user data of %s: %w", id, err)
	}
	if out.UserData == nil || out.UserData.Value == nil {
		return "", nil
	}
	text, err := base64.StdEncoding.DecodeString(*out.UserData.Value)
	if err != nil {
		return "", fmt.Errorf("read the user data of %s: %w", id, err)
	}
	return string(text), nil
}

// balancer is a load balancer in the emulator.
type balancer struct {
	name, host string
	created    time.Time
	subnets    []string
	fronts     []front
}

type front struct {
	port, target int
	group        string // its target group's ARN
	instances    []string
}
