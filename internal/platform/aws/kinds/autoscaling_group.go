package kinds

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/past"
	"kops.local/kops/internal/engine/resource"
)

// AutoScalingGroup keeps a number of instances running. Its node must be named
// by the group's name: lifecycle hooks are keyed by it.
type AutoScalingGroup struct {
	Name    string `res:"forbid" tf:"name"`
	MinSize int    `tf:"min_size,zero"`
	MaxSize int    `tf:"max_size,zero"`
	// LaunchTemplate or MixedInstances is set, never both.
	LaunchTemplate *GroupTemplate   `tf:"launch_template,block"`
	MixedInstances *MixedInstances  `tf:"mixed_instances_policy,block"`
	Subnets        []resource.Value `tf:"vpc_zone_identifier"`
	// MaxInstanceLifetime is in seconds; 0 for no limit.
	MaxInstanceLifetime int  `tf:"max_instance_lifetime,zero"`
	ProtectFromScaleIn  bool `tf:"protect_from_scale_in,zero"`
	CapacityRebalance   bool `tf:"capacity_rebalance"`
	// LoadBalancers are names of classic load balancers.
	LoadBalancers []string         `tf:"load_balancers"`
	TargetGroups  []resource.Value `tf:"target_group_arns"`
	Tags          []GroupTag       `tf:"tag,block"`

	// Metrics are the group metrics that are collected, each every Granularity.
	Metrics            []string  `res:",post" tf:"enabled_metrics"`
	Granularity        string    `res:",post" tf:"metrics_granularity"` // "1Minute", the only one
	SuspendedProcesses []string  `res:",post" tf:"suspended_processes"`
	WarmPool           *WarmPool `res:",post" tf:"warm_pool,block"`

	// ARN is empty in a group that was just made, as the call does not tell it;
	// so nothing can refer to it.
	ARN string `res:"out,id"`
	// ID is the name, as in Terraform. Roles and templates may have the same.
	ID string `res:"out" out:"id"`
}

// GroupTemplate says which launch template, and which version of it, makes instances.
type GroupTemplate struct {
	ID      resource.Value `tf:"id"`
	Version resource.Value `tf:"version"`
}

// GroupTag is a tag of a group.
type GroupTag struct {
	Key   string `tf:"key"`
	Value string `tf:"value,zero"`
	// Propagate also tags the instances that the group starts.
	Propagate bool `tf:"propagate_at_launch,zero"`
}

// WarmPool keeps stopped instances that have started once.
type WarmPool struct {
	// MaxPrepared bounds running and warm instances together; nil for the group's largest size.
	MaxPrepared *int `tf:"max_group_prepared_capacity"`
	MinSize     int  `tf:"min_size,zero"`
}

// machinesOf says how many machines a group runs.
func machinesOf(g *AutoScalingGroup) string {
	switch {
	case g.MaxSize == 0:
		return ""
	case g.MinSize == 1 && g.MaxSize == 1:
		return "1 machine"
	case g.MinSize == g.MaxSize:
		return fmt.Sprintf("%d machines", g.MaxSize)
	}
	return fmt.Sprintf("%d to %d machines", g.MinSize, g.MaxSize)
}

// AutoScalingGroups is the kind of AutoScalingGroup.
var AutoScalingGroups = resource.Kind[AutoScalingGroup, *Client]{
	Name:   "aws_autoscaling_group",
	API:    apiAutoScaling,
	Tasks:  []string{"AutoscalingGroup"},
	Early:  true,
	Group:  instanceGroup,
	MadeOf: []string{"LaunchTemplate", "MixedInstances.Template"},
	Key:    func(g *AutoScalingGroup) string { return g.Name },
	List:   listGroups,
	Holds:  machinesOf,
	Create: createGroup,
	Update: []resource.Setter[AutoScalingGroup, *Client]{
		{Fields: []string{"MinSize", "MaxSize", "LaunchTemplate", "MixedInstances", "Subnets", "MaxInstanceLifetime",
			"ProtectFromScaleIn", "CapacityRebalance"}, Set: updateGroup},
		{Fields: []string{"LoadBalancers"}, Set: setGroupLoadBalancers},
		{Fields: []string{"TargetGroups"}, Set: setGroupTargets},
		{Fields: []string{"Tags"}, Set: setGroupTags},
		{Fields: []string{"Metrics", "Granularity"}, Set: setGroupMetrics},
		{Fields: []string{"SuspendedProcesses"}, Set: setSuspended},
		{Fields: []string{"WarmPool"}, Set: setWarmPool},
	},
	Delete: deleteGroup,
}

// instanceGroup is the one whose machines a group keeps, by its tag.
func instanceGroup(g *AutoScalingGroup) string {
	if i := slices.IndexFunc(g.Tags, func(t GroupTag) bool { return t.Key == api.LabelInstanceGroup }); i >= 0 {
		return g.Tags[i].Value
	}
	return ""
}

func createGroup(ctx context.Context, c *Client, g *AutoScalingGroup) error {
	in := &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName:             &g.Name,
		MinSize:                          number(g.MinSize),
		MaxSize:                          number(g.MaxSize),
		LaunchTemplate:                   g.LaunchTemplate.request(),
		MixedInstancesPolicy:             g.MixedInstances.request(),
		VPCZoneIdentifier:                zoneIdentifier(g.Subnets),
		NewInstancesProtectedFromScaleIn: &g.ProtectFromScaleIn,
		CapacityRebalance:                &g.CapacityRebalance,
		LoadBalancerNames:                g.LoadBalancers,
		TargetGroupARNs:                  resource.Texts(g.TargetGroups),
		Tags:                             groupTags(g.Name, g.Tags),
	}
	if g.MaxInstanceLifetime > 0 {
		in.MaxInstanceLifetime = number(g.MaxInstanceLifetime)
	}
	past.Forget(c.Past, memoKey(c, g.Name))
	_, err := c.AutoScaling.CreateAutoScalingGroup(ctx, in)
	if hasCode(err, "AlreadyExists") && beingDeleted(ctx, c, g.Name) {
		return fault.Wrap(fault.NotYet, err, "wait until the group of the same name is gone")
	}
	if err == nil {
		past.Remember(c.Past, memoKey(c, g.Name), groupHooks{Made: time.Now()})
	}
	g.ID = g.Name
	return err
}

// beingDeleted reports whether a group is on its way out, which takes as long
// as its instances need to end.
func beingDeleted(ctx context.Context, c *Client, name string) bool {
	out, err := c.AutoScaling.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{name}})
	return err == nil && len(out.AutoScalingGroups) == 1 && out.AutoScalingGroups[0].Status != nil
}

// updateGroup does not name a desired capacity: AWS moves the one there is
// between the bounds, and leaves it to the autoscaler otherwise.
func updateGroup(ctx context.Context, c *Client, have, want *AutoScalingGroup) error {
	_, err := c.AutoScaling.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{
		AutoScalingGroupName:             &have.Name,
		MinSize:                          number(want.MinSize),
		MaxSize:                          number(want.MaxSize),
		LaunchTemplate:                   want.LaunchTemplate.request(),
		MixedInstancesPolicy:             want.MixedInstances.request(),
		VPCZoneIdentifier:                zoneIdentifier(want.Subnets),
		MaxInstanceLifetime:              number(want.MaxInstanceLifetime), // 0 lifts the limit
		NewInstancesProtectedFromScaleIn: &want.ProtectFromScaleIn,
		CapacityRebalance:                &want.CapacityRebalance,
	})
	return err
}

func setGroupLoadBalancers(ctx context.Context, c *Client, have, want *AutoScalingGroup) error {
	add, drop := listChange(have.LoadBalancers, want.LoadBalancers)
	for names := range slices.Chunk(add, attachLimit) {
		_, err := c.AutoScaling.AttachLoadBalancers(ctx, &autoscaling.AttachLoadBalancersInput{
			AutoScalingGroupName: &have.Name, LoadBalancerNames: names})
		if err != nil {
			return err
		}
	}
	for names := range slices.Chunk(drop, attachLimit) {
		_, err := c.AutoScaling.DetachLoadBalancers(ctx, &autoscaling.DetachLoadBalancersInput{
			AutoScalingGroupName: &have.Name, LoadBalancerNames: names})
		if err != nil {
			return err
		}
	}
	return nil
}

// attachLimit is the most load balancers or target groups that one call
// attaches (API reference, AttachLoadBalancers and AttachLoadBalancerTargetGroups).
const attachLimit = 10

// setGroupTargets adds before it removes, so that a machine is never without both.
func setGroupTargets(ctx context.Context, c *Client, have, want *AutoScalingGroup) error {
	add, drop := listChange(resource.Texts(have.TargetGroups), resource.Texts(want.TargetGroups))
	for arns := range slices.Chunk(add, attachLimit) {
		_, err := c.AutoScaling.AttachLoadBalancerTargetGroups(ctx, &autoscaling.AttachLoadBalancerTargetGroupsInput{
			AutoScalingGroupName: &have.Name, TargetGroupARNs: arns})
		if err != nil {
			return err
		}
	}
	for arns := range slices.Chunk(drop, attachLimit) {
		_, err := c.AutoScaling.DetachLoadBalancerTargetGroups(ctx, &autoscaling.DetachLoadBalancerTargetGroupsInput{
			AutoScalingGroupName: &have.Name, TargetGroupARNs: arns})
		if err != nil {
			return err
		}
	}
	return nil
}

func setGroupTags(ctx context.Context, c *Client, have, want *AutoScalingGroup) error {
	changed := slices.DeleteFunc(slices.Clone(want.Tags), func(t GroupTag) bool { return slices.Contains(have.Tags, t) })
	if len(changed) > 0 {
		_, err := c.AutoScaling.CreateOrUpdateTags(ctx, &autoscaling.CreateOrUpdateTagsInput{Tags: groupTags(have.Name, changed)})
		if err != nil {
			return err
		}
	}
	stale := slices.DeleteFunc(slices.Clone(have.Tags), func(t GroupTag) bool {
		return slices.ContainsFunc(want.Tags, func(w GroupTag) bool { return w.Key == t.Key })
	})
	if len(stale) == 0 {
		return nil
	}
	_, err := c.AutoScaling.DeleteTags(ctx, &autoscaling.DeleteTagsInput{Tags: groupTags(have.Name, stale)})
	return err
}

func setGroupMetrics(ctx context.Context, c *Client, have, want *AutoScalingGroup) error {
	if len(want.Metrics) > 0 {
		_, err := c.AutoScaling.EnableMetricsCollection(ctx, &autoscaling.EnableMetricsCollectionInput{
			AutoScalingGroupName: &have.Name, Metrics: want.Metrics, Granularity: &want.Granularity})
		if err != nil {
			return err
		}
	}
	_, drop := listChange(have.Metrics, want.Metrics)
	if len(drop) == 0 {
		return nil
	}
	_, err := c.AutoScaling.DisableMetricsCollection(ctx, &autoscaling.DisableMetricsCollectionInput{
		AutoScalingGroupName: &have.Name, Metrics: drop})
	return err
}

func setSuspended(ctx context.Context, c *Client, have, want *AutoScalingGroup) error {
	add, drop := listChange(have.SuspendedProcesses, want.SuspendedProcesses)
	if len(add) > 0 {
		_, err := c.AutoScaling.SuspendProcesses(ctx, &autoscaling.SuspendProcessesInput{AutoScalingGroupName: &have.Name, ScalingProcesses: add})
		if err != nil {
			return err
		}
	}
	if len(drop) == 0 { // no names would mean all
		return nil
	}
	_, err := c.AutoScaling.ResumeProcesses(ctx, &autoscaling.ResumeProcessesInput{AutoScalingGroupName: &have.Name, ScalingProcesses: drop})
	return err
}

func setWarmPool(ctx context.Context, c *Client, have, want *AutoScalingGroup) error {
	if want.WarmPool == nil {
		_, err := c.AutoScaling.DeleteWarmPool(ctx, &autoscaling.DeleteWarmPoolInput{AutoScalingGroupName: &have.Name, ForceDelete: new(true)})
		return err
	}
	largest := noLimit
	if m := want.WarmPool.MaxPrepared; m != nil {
		largest = *m
	}
	_, err := c.AutoScaling.PutWarmPool(ctx, &autoscaling.PutWarmPoolInput{AutoScalingGroupName: &have.Name,
		MinSize: number(want.WarmPool.MinSize), MaxGroupPreparedCapacity: number(largest)})
	return err
}

// noLimit takes the bound off a warm pool (API reference, PutWarmPool).
const noLimit = -1

// deleteGroup also ends the group's instances, and does not wait for them. A
// group that does not exist is a validation error, which the two parameters of
// the call can cause in no other way.
func deleteGroup(ctx context.Context, c *Client, g *AutoScalingGroup) error {
	_, err := c.AutoScaling.DeleteAutoScalingGroup(ctx, &autoscaling.DeleteAutoScalingGroupInput{
		AutoScalingGroupName: &g.Name, ForceDelete: new(true)})
	if hasCode(err, "ValidationError") {
		return nil
	}
	return err
}
