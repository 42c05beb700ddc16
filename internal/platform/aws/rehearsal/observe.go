package rehearsal

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	scalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"golang.org/x/sync/errgroup"
)

// instance is an instance that runs, or is about to.
type instance struct {
	types.Instance
	Address netip.Addr
	VPC     netip.Prefix
	Subnet  netip.Prefix
	Group   string // its Auto Scaling group, if it is of one
	// Template is the launch template of its group.
	Template *scalingtypes.LaunchTemplateSpecification
}

// volume is a volume that an instance has besides its root.
type volume struct {
	id, instance, device string
	gib                  int
}

// snapshot is what the emulator says.
type snapshot struct {
	instances map[string]*instance
	byAddress map[netip.Addr]*instance
	// ended are instances that the emulator still knows, and that run no longer.
	ended     map[string]bool
	attached  []volume
	volumes   map[string]bool // all that exist
	subnets   map[string]types.Subnet
	routes    map[string]string // range → the address of an instance
	balancers []balancer
	zones     []zone
}

// gateways are the addresses of this host in the networks of instances: the first of each.
func (s snapshot) gateways() []netip.Prefix {
	out := map[netip.Prefix]bool{}
	for _, i := range s.instances {
		out[gateway(i.VPC)] = true
	}
	list := make([]netip.Prefix, 0, len(out))
	for p := range out {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
	return list
}

// gateway is the router of a VPC, with the length of its range.
func gateway(vpc netip.Prefix) netip.Prefix {
	return netip.PrefixFrom(vpc.Masked().Addr().Next(), vpc.Bits())
}

// observe asks the emulator for all that is played.
func (p *play) observe(ctx context.Context) (snapshot, error) {
	s := snapshot{instances: map[string]*instance{}, byAddress: map[netip.Addr]*instance{}, ended: map[string]bool{}, volumes: map[string]bool{},
		subnets: map[string]types.Subnet{}, routes: map[string]string{}}
	var reservations []types.Reservation
	var vpcs []types.Vpc
	var subnets []types.Subnet
	var volumes []types.Volume
	var tables []types.RouteTable
	groups := map[string]scalingtypes.AutoScalingGroup{}
	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error {
		out, err := p.clients.EC2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{})
		if err == nil {
			reservations = out.Reservations
		}
		return err
	})
	work.Go(func() error {
		out, err := p.clients.EC2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{})
		if err == nil {
			vpcs = out.Vpcs
		}
		return err
	})
	work.Go(func() error {
		out, err := p.clients.EC2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{})
		if err == nil {
			subnets = out.Subnets
		}
		return err
	})
	work.Go(func() error {
		out, err := p.clients.EC2.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{})
		if err == nil {
			volumes = out.Volumes
		}
		return err
	})
	work.Go(func() error {
		out, err := p.clients.EC2.DescribeRouteTables(ctx, &ec2.DescribeRouteTablesInput{})
		if err == nil {
			tables = out.RouteTables
		}
		return err
	})
	var targets map[string][]string
	work.Go(func() (err error) {
		targets, err = p.groupTargets(ctx, groups)
		return err
	})
	work.Go(func() (err error) {
		s.balancers, err = p.observeBalancers(ctx)
		return err
	})
	work.Go(func() (err error) {
		s.zones, err = p.observeZones(ctx)
		return err
	})
	if err := work.Wait(); err != nil {
		return s, fmt.Errorf("ask the emulator what there is: %w", err)
	}
	for _, n := range subnets {
		s.subnets[aws.ToString(n.SubnetId)] = n
	}
	ranges := map[string]netip.Prefix{}
	for _, v := range vpcs {
		ranges[aws.ToString(v.VpcId)], _ = netip.ParsePrefix(aws.ToString(v.CidrBlock)) // a range of the emulator's
	}
	s.addInstances(reservations, ranges, groups)
	s.addVolumes(volumes)
	s.addRoutes(tables)
	for i, b := range s.balancers {
		for j, f := range b.fronts {
			s.balancers[i].fronts[j].instances = slices.Compact(slices.Sorted(slices.Values(append(f.instances, targets[f.group]...))))
		}
	}
	return s, nil
}

func (s *snapshot) addInstances(reservations []types.Reservation, vpcs map[string]netip.Prefix, groups map[string]scalingtypes.AutoScalingGroup) {
	for _, r := range reservations {
		for _, i := range r.Instances {
			id := aws.ToString(i.InstanceId)
			if i.State.Name != types.InstanceStateNameRunning && i.State.Name != types.InstanceStateNamePending {
				s.ended[id] = true
				continue
			}
			a, err := netip.ParseAddr(aws.ToString(i.PrivateIpAddress))
			vpc := vpcs[aws.ToString(i.VpcId)]
			if err != nil || !vpc.Contains(a) {
				continue // it is not yet in its network
			}
			subnet, _ := netip.ParsePrefix(aws.ToString(s.subnets[aws.ToString(i.SubnetId)].CidrBlock)) // a range of the emulator's
			m := &instance{Instance: i, Address: a, VPC: vpc, Subnet: subnet, Group: aws.ToString(groups[id].AutoScalingGroupName), Template: templateOf(groups[id])}
			s.instances[id], s.byAddress[a] = m, m
		}
	}
}

func (s *snapshot) addVolumes(list []types.Volume) {
	for _, v := range list {
		id := aws.ToString(v.VolumeId)
		s.volumes[id] = true
		for _, a := range v.Attachments {
			i, device := s.instances[aws.ToString(a.InstanceId)], aws.ToString(a.Device)
			if s.ended[aws.ToString(a.InstanceId)] || i != nil && device != aws.ToString(i.RootDeviceName) {
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
			if i := s.instances[aws.ToString(r.InstanceId)]; i != nil && aws.ToString(r.DestinationCidrBlock) != "" {
				s.routes[aws.ToString(r.DestinationCidrBlock)] = i.Address.String()
			}
		}
	}
}

// templateOf is the launch template of a group; nil where it has none.
func templateOf(g scalingtypes.AutoScalingGroup) *scalingtypes.LaunchTemplateSpecification {
	if m := g.MixedInstancesPolicy; m != nil && m.LaunchTemplate != nil {
		return m.LaunchTemplate.LaunchTemplateSpecification
	}
	return g.LaunchTemplate
}

// groupTargets returns the instances that Auto Scaling groups register in each target
// group, and fills in the group of each instance.
func (p *play) groupTargets(ctx context.Context, groups map[string]scalingtypes.AutoScalingGroup) (map[string][]string, error) {
	out, err := p.clients.AutoScaling.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{})
	if err != nil {
		return nil, err
	}
	targets := map[string][]string{}
	for _, g := range out.AutoScalingGroups {
		for _, i := range g.Instances {
			groups[aws.ToString(i.InstanceId)] = g
			for _, t := range g.TargetGroupARNs {
				targets[t] = append(targets[t], aws.ToString(i.InstanceId))
			}
		}
	}
	return targets, nil
}

// observeBalancers asks for the load balancers, their listeners and what is registered.
func (p *play) observeBalancers(ctx context.Context) ([]balancer, error) {
	all, err := p.clients.ELB.DescribeLoadBalancers(ctx, &elb.DescribeLoadBalancersInput{})
	if err != nil || len(all.LoadBalancers) == 0 {
		return nil, err
	}
	found, err := p.clients.ELB.DescribeTargetGroups(ctx, &elb.DescribeTargetGroupsInput{})
	if err != nil {
		return nil, err
	}
	ports, registered := map[string]int{}, map[string][]string{}
	for _, g := range found.TargetGroups {
		arn := aws.ToString(g.TargetGroupArn)
		ports[arn] = int(aws.ToInt32(g.Port))
		health, err := p.clients.ELB.DescribeTargetHealth(ctx, &elb.DescribeTargetHealthInput{TargetGroupArn: g.TargetGroupArn})
		if err != nil {
			return nil, err
		}
		for _, t := range health.TargetHealthDescriptions {
			registered[arn] = append(registered[arn], aws.ToString(t.Target.Id))
		}
	}
	var out []balancer
	for _, l := range all.LoadBalancers {
		b := balancer{name: aws.ToString(l.LoadBalancerName), host: aws.ToString(l.DNSName), created: aws.ToTime(l.CreatedTime)}
		for _, z := range l.AvailabilityZones {
			b.subnets = append(b.subnets, aws.ToString(z.SubnetId))
		}
		listeners, err := p.clients.ELB.DescribeListeners(ctx, &elb.DescribeListenersInput{LoadBalancerArn: l.LoadBalancerArn})
		if err != nil {
			return nil, err
		}
		for _, x := range listeners.Listeners {
			for _, a := range x.DefaultActions {
				if arn := aws.ToString(a.TargetGroupArn); arn != "" {
					b.fronts = append(b.fronts, front{port: int(aws.ToInt32(x.Port)), target: ports[arn], group: arn, instances: registered[arn]})
				}
			}
		}
		out = append(out, b)
	}
	slices.SortFunc(out, func(a, b balancer) int { return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.name, b.name)) })
	return out, nil
}

// userData is what an instance starts with.
func (p *play) userData(ctx context.Context, id string) (string, error) {
	out, err := p.clients.EC2.DescribeInstanceAttribute(ctx, &ec2.DescribeInstanceAttributeInput{InstanceId: aws.String(id), Attribute: types.InstanceAttributeNameUserData})
	if err != nil {
		return "", fmt.Errorf("ask for the user data of %s: %w", id, err)
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

// balancer is a load balancer of the emulator's.
type balancer struct {
	name, host string
	created    time.Time
	subnets    []string
	fronts     []front
}

type front struct {
	port, target int
	group        string // its target group
	instances    []string
}
