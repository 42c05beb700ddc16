package aws

import (
	"context"
	"fmt"
	"slices"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	classic "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	classictypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"golang.org/x/sync/errgroup"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/clock"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/aws/awsapi"
	"kops.local/kops/internal/platform/aws/kinds"
)

// roll describes how instances are replaced: scaling groups start replacements automatically, also
// for detached instances, and refill their warm pools.
func roll() platform.Roll {
	return platform.Roll{Surge: 1, Refills: true, Drift: drift, Detach: detach, Terminate: terminate,
		Deregister: func(ctx context.Context, s *platform.Session, c *api.Cluster, m platform.Machine) error {
			return deregister(ctx, clock.Sleep, s.Client.(*kinds.Client), c, m)
		}}
}

// detach removes an instance from its scaling group, which starts another. It sets the tag first,
// so that a detached instance can always be recognized.
func detach(ctx context.Context, s *platform.Session, _ *api.Cluster, m platform.Machine) error {
	client := s.Client.(*kinds.Client)
	fail := func(err error) error { return fmt.Errorf("detach the instance %s: %w", m.Name, err) }
	out, err := client.AutoScaling.DescribeAutoScalingInstances(ctx, &autoscaling.DescribeAutoScalingInstancesInput{InstanceIds: []string{m.Name}})
	switch {
	case err != nil:
		return fail(err)
	case len(out.AutoScalingInstances) == 0 && m.Detached:
		return nil
	case len(out.AutoScalingInstances) == 0:
		return fail(fault.New(fault.Permanent, "it belongs to no Auto Scaling group that would replace it"))
	}
	in := out.AutoScalingInstances[0]
	state := sdk.ToString(in.LifecycleState)
	if state == string(astypes.LifecycleStateDetaching) {
		return nil
	}
	if state != string(astypes.LifecycleStateInService) && state != string(astypes.LifecycleStateStandby) {
		return fail(fault.New(fault.NotYet, "its state in the group %s is %s", sdk.ToString(in.AutoScalingGroupName), state))
	}
	_, err = client.EC2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{m.Name}, Tags: []ec2types.Tag{{Key: sdk.String(detachedTag), Value: in.AutoScalingGroupName}}})
	if err == nil {
		_, err = client.AutoScaling.DetachInstances(ctx, &autoscaling.DetachInstancesInput{AutoScalingGroupName: in.AutoScalingGroupName,
			InstanceIds: []string{m.Name}, ShouldDecrementDesiredCapacity: sdk.Bool(false)})
	}
	if err != nil {
		return fail(err)
	}
	return nil
}

// terminate terminates an instance, which may also be a spare or detached one.
func terminate(ctx context.Context, s *platform.Session, _ *api.Cluster, m platform.Machine) error {
	_, err := s.Client.(*kinds.Client).EC2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{m.Name}})
	if err != nil && !fault.Is(err, fault.Gone) {
		return fmt.Errorf("terminate the instance %s: %w", m.Name, err)
	}
	return nil
}

const (
	// firstPause and lastLook are the shortest and the longest pause between
	// two polls for the end of draining.
	firstPause, lastLook = time.Second, 10 * time.Second
	// drainTime is the total timeout: the deregistration delay of a target group is 30 s here, and
	// an hour at most (API reference, TargetGroupAttribute).
	drainTime = time.Hour + 5*time.Minute
)

// sleepFunc pauses for a duration, or until the context ends.
type sleepFunc func(context.Context, time.Duration) error

// deregister removes an instance from its scaling group's target groups and classic load balancers,
// as AWS does automatically when an instance is detached. The only machine with an API server
// remains, because no other could answer.
func deregister(ctx context.Context, sleep sleepFunc, c *kinds.Client, cluster *api.Cluster, m platform.Machine) error {
	groups, err := scalingGroups(ctx, c, cluster.Name)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(groups, func(g astypes.AutoScalingGroup) bool {
		return slices.ContainsFunc(g.Instances, func(i astypes.Instance) bool { return sdk.ToString(i.InstanceId) == m.Name })
	})
	if i < 0 || isOnlyServer(groups[i], groups) {
		return nil
	}
	work, ctx := errgroup.WithContext(ctx)
	for _, arn := range groups[i].TargetGroupARNs {
		work.Go(func() error { return deregisterTarget(ctx, sleep, c, arn, m.Name) })
	}
	for _, name := range groups[i].LoadBalancerNames {
		work.Go(func() error { return deregisterClassic(ctx, sleep, c, name, m.Name) })
	}
	if err := work.Wait(); err != nil {
		return fmt.Errorf("deregister the instance %s: %w", m.Name, err)
	}
	return nil
}

// isOnlyServer reports whether a group has the only machine of its role, if
// that role serves the API's clients.
func isOnlyServer(of astypes.AutoScalingGroup, all []astypes.AutoScalingGroup) bool {
	for _, role := range []string{"control-plane", "master", "apiserver"} {
		has := func(g astypes.AutoScalingGroup) bool {
			return slices.ContainsFunc(g.Tags, func(t astypes.TagDescription) bool { return sdk.ToString(t.Key) == roleTag+role })
		}
		if !has(of) {
			continue
		}
		n := 0
		for _, g := range all {
			if has(g) {
				n += len(g.Instances)
			}
		}
		return n == 1
	}
	return false
}

// roleTag is the prefix of the tags that name the role of a group's machines.
const roleTag = "k8s.io/role/"

// deregisterTarget removes an instance from a target group, and waits until it is unused there.
func deregisterTarget(ctx context.Context, sleep sleepFunc, c *kinds.Client, arn, id string) error {
	target := []elbtypes.TargetDescription{{Id: &id}}
	_, err := c.ELB.DeregisterTargets(ctx, &elb.DeregisterTargetsInput{TargetGroupArn: &arn, Targets: target})
	if err != nil {
		return ignoreUnregistered(err)
	}
	return pollUntil(ctx, sleep, "the target group "+arn, func() (bool, error) {
		out, err := c.ELB.DescribeTargetHealth(ctx, &elb.DescribeTargetHealthInput{TargetGroupArn: &arn, Targets: target})
		if err != nil {
			return ignoreUnregistered(err) == nil, ignoreUnregistered(err)
		}
		return !slices.ContainsFunc(out.TargetHealthDescriptions, func(h elbtypes.TargetHealthDescription) bool {
			return h.TargetHealth != nil && h.TargetHealth.State != elbtypes.TargetHealthStateEnumUnused
		}), nil
	})
}

// deregisterClassic removes an instance from a classic load balancer, and waits until it is out of
// service there.
func deregisterClassic(ctx context.Context, sleep sleepFunc, c *kinds.Client, name, id string) error {
	instance := []classictypes.Instance{{InstanceId: &id}}
	_, err := c.ClassicELB.DeregisterInstancesFromLoadBalancer(ctx, &classic.DeregisterInstancesFromLoadBalancerInput{LoadBalancerName: &name, Instances: instance})
	if err != nil {
		return ignoreUnregistered(err)
	}
	return pollUntil(ctx, sleep, "the load balancer "+name, func() (bool, error) {
		out, err := c.ClassicELB.DescribeInstanceHealth(ctx, &classic.DescribeInstanceHealthInput{LoadBalancerName: &name, Instances: instance})
		if err != nil {
			return ignoreUnregistered(err) == nil, ignoreUnregistered(err)
		}
		return !slices.ContainsFunc(out.InstanceStates, func(s classictypes.InstanceState) bool { return sdk.ToString(s.State) != "OutOfService" }), nil
	})
}

// ignoreUnregistered drops errors that mean that there is nothing to deregister: the instance is not registered
// or was terminated (API references, DescribeTargetHealth and DescribeInstanceHealth).
func ignoreUnregistered(err error) error {
	if code := awsapi.Code(err); fault.Is(err, fault.Gone) || code == "InvalidTarget" || code == "InvalidInstance" {
		return nil
	}
	return err
}

// pollUntil polls, with growing pauses, until done returns true. It polls again after an answer that
// was lost or late.
func pollUntil(ctx context.Context, sleep sleepFunc, where string, done func() (bool, error)) error {
	wait, waited := firstPause, time.Duration(0)
	for {
		ok, err := done()
		if ok || err != nil && !fault.Of(err).Retryable() && !fault.Is(err, fault.Lost) {
			return err
		}
		if waited >= drainTime {
			return fault.New(fault.NotYet, "%s is not drained after %s", where, waited.Round(time.Second))
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
		waited += wait
		wait = min(wait*3/2, lastLook)
	}
}
