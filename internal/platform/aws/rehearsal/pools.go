package rehearsal

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	scalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// poolTag names the Auto Scaling group of an instance in a warm pool.
const poolTag = "kops.k8s.io/rehearsal-pool"

// poolOf returns the group whose warm pool an instance is in; "" for all others.
func poolOf(i types.Instance) string {
	for _, t := range i.Tags {
		if aws.ToString(t.Key) == poolTag {
			return aws.ToString(t.Value)
		}
	}
	return ""
}

// reconcilePools fills the groups' warm pools, which the emulator leaves empty, and terminates the
// spares of groups that no longer have a pool. A spare is stopped immediately.
func (p *play) reconcilePools(ctx context.Context, now snapshot) error {
	var errs []error
	wanted := map[string]int{}
	for _, g := range now.groups {
		name := aws.ToString(g.AutoScalingGroupName)
		wanted[name] = poolSize(g)
		for n := len(now.spares[name]); n < wanted[name]; n++ {
			if err := p.addSpare(ctx, g); err != nil {
				errs = append(errs, fmt.Errorf("fill the warm pool of %s: %w", name, err))
				break
			}
			p.keeper.Trigger()
		}
	}
	for name, spares := range now.spares {
		if surplus := spares[min(wanted[name], len(spares)):]; len(surplus) > 0 {
			_, err := p.clients.EC2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: surplus})
			errs = append(errs, err)
			p.keeper.Trigger()
		}
	}
	return errors.Join(errs...)
}

// poolSize returns how many spares a group has: the group's maximum size, or the limit of its pool,
// minus its desired capacity, but at least the pool's minimum (User Guide, Warm pools).
func poolSize(g scalingtypes.AutoScalingGroup) int {
	c := g.WarmPoolConfiguration
	if c == nil {
		return 0
	}
	most := aws.ToInt32(g.MaxSize)
	if c.MaxGroupPreparedCapacity != nil && *c.MaxGroupPreparedCapacity >= 0 {
		most = *c.MaxGroupPreparedCapacity
	}
	return int(max(most-aws.ToInt32(g.DesiredCapacity), aws.ToInt32(c.MinSize), 0))
}

func (p *play) addSpare(ctx context.Context, g scalingtypes.AutoScalingGroup) error {
	t := templateOf(g)
	if t == nil {
		return nil
	}
	v, err := p.templateVersion(ctx, t)
	if err != nil || v == nil {
		return err
	}
	tags := []types.Tag{{Key: aws.String(poolTag), Value: g.AutoScalingGroupName}}
	for _, x := range g.Tags {
		if aws.ToBool(x.PropagateAtLaunch) {
			tags = append(tags, types.Tag{Key: x.Key, Value: x.Value})
		}
	}
	subnet, _, _ := strings.Cut(aws.ToString(g.VPCZoneIdentifier), ",")
	out, err := p.clients.EC2.RunInstances(ctx, &ec2.RunInstancesInput{MinCount: aws.Int32(1), MaxCount: aws.Int32(1), ImageId: v.LaunchTemplateData.ImageId, InstanceType: v.LaunchTemplateData.InstanceType,
		SubnetId: &subnet, TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeInstance, Tags: tags}}})
	if err != nil {
		return err
	}
	id := aws.ToString(out.Instances[0].InstanceId)
	p.rememberVersion(id, v)
	_, err = p.clients.EC2.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{id}})
	return err
}

// addSpares adds the instances in warm pools.
func (s *snapshot) addSpares(reservations []types.Reservation) {
	s.spares = map[string][]string{}
	for _, r := range reservations {
		for _, i := range r.Instances {
			if pool := poolOf(i); pool != "" && i.State.Name != types.InstanceStateNameTerminated && i.State.Name != types.InstanceStateNameShuttingDown {
				s.spares[pool] = append(s.spares[pool], aws.ToString(i.InstanceId))
			}
		}
	}
	for _, ids := range s.spares {
		slices.Sort(ids)
	}
}

// spare is an instance in a warm pool, as reported to clients.
type spare struct {
	ID         string `xml:"InstanceId"`
	State      string `xml:"LifecycleState"`
	Health     string `xml:"HealthStatus"`
	TemplateID string `xml:"LaunchTemplate>LaunchTemplateId"`
	Version    string `xml:"LaunchTemplate>Version"`
}

// warmPool answers DescribeWarmPool.
func (p *play) warmPool(w http.ResponseWriter, group string) {
	now := p.lastSnapshot()
	out := struct {
		XMLName xml.Name `xml:"http://autoscaling.amazonaws.com/doc/2011-01-01/ DescribeWarmPoolResponse"`
		Spares  []spare  `xml:"DescribeWarmPoolResult>Instances>member"`
	}{}
	template := ""
	for _, g := range now.groups {
		if t := templateOf(g); aws.ToString(g.AutoScalingGroupName) == group && t != nil {
			template = aws.ToString(t.LaunchTemplateId)
		}
	}
	p.mu.Lock()
	for _, id := range now.spares[group] {
		out.Spares = append(out.Spares, spare{ID: id, State: string(scalingtypes.LifecycleStateWarmedStopped), Health: "Healthy", TemplateID: template, Version: p.versions[id]})
	}
	p.mu.Unlock()
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	_ = xml.NewEncoder(w).Encode(out) // the client may be gone
}
