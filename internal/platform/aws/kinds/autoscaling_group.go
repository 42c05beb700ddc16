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

// AutoScalingGroup keeps a number of instances running. Its node must have the group's name,
// because lifecycle hooks are keyed by it.
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

	// Metrics are the group metrics to collect, one value each per Granularity.
	Metrics            []string  `res:",post" tf:"enabled_metrics"`
	Granularity        string    `res:",post" tf:"metrics_granularity"` // "1Minute" is the only value
	SuspendedProcesses []string  `res:",post" tf:"suspended_processes"`
	WarmPool           *WarmPool `res:",post" tf:"warm_pool,block"`

	// ARN is empty in a newly created group, because the call does not
	// return it; so nothing can refer to it.
	ARN string `res:"out,id"`
	// ID is the name, as in Terraform. Roles and templates may have the same name.
	ID string `res:"out" out:"id"`
}

// GroupTemplate specifies the launch template, and its version, that instances are created from.
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

// WarmPool is a pool of stopped instances that have already been started once.
type WarmPool struct {
	// MaxPrepared limits running and warm instances together; nil for the group's maximum size.
	MaxPrepared *int `tf:"max_group_prepared_capacity"`
	MinSize     int  `tf:"min_size,zero"`
}

// machineCount returns how many machines a group runs, as text.
func machineCount(g *AutoScalingGroup) string {
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
	Holds:  machineCount,
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

// instanceGroup returns the instance group that a group belongs to, by its tag.
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
	if hasCode(err, "AlreadyExists") && isBeingDeleted(ctx, c, g.Name) {
		return fault.Wrap(fault.NotYet, err, "wait until the group with the same name is deleted")
	}
	if err == nil {
		past.Remember(c.Past, memoKey(c, g.Name), groupHooks{Made: time.Now()})
	}
	g.ID = g.Name
	return err
}

// isBeingDeleted reports whether a group is being deleted, which takes
// until its instances are terminated.
func isBeingDeleted(ctx context.Context, c *Client, name string) bool {
	out, err := c.AutoScaling.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{name}})
	return err == nil && len(out.AutoScalingGroups) == 1 && out.AutoScalingGroups[0].Status != nil
}

// updateGroup does not set the desired capacity: AWS adjusts it only if it is outside of the
// bounds, and otherwise leaves it to the autoscaler.
func updateGroup(ctx context.Context, c *Client, have, want *AutoScalingGroup) error {
	_, err := c.AutoScaling.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{
		AutoScalingGroupName:             &have.Name,
		MinSize:                          number(want.MinSize),
		MaxSize:                          number(want.MaxSize),
		LaunchTemplate:                   want.LaunchTemplate.request(),
		MixedInstancesPolicy:             want.MixedInstances.request(),
		VPCZoneIdentifier:                zoneIdentifier(want.Subnets),
		MaxInstanceLifetime:              number(want.MaxInstanceLifetime), // 0 removes the limit
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

// attachLimit is the maximum number of load balancers or target groups in one call (API reference,
// AttachLoadBalancers and AttachLoadBalancerTargetGroups).
const attachLimit = 10

// setGroupTargets adds before it removes, so that a machine always has a target group.
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
	if len(drop) == 0 { // an empty list would mean all
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

// noLimit removes the limit of a warm pool (API reference, PutWarmPool).
const noLimit = -1

// deleteGroup also terminates the group's instances, and does not wait
// for them. For a group that does not exist, AWS returns a validation
// error; with the call's two parameters it has no other cause.
func deleteGroup(ctx context.Context, c *Client, g *AutoScalingGroup) error {
	_, err := c.AutoScaling.DeleteAutoScalingGroup(ctx, &autoscaling.DeleteAutoScalingGroupInput{
		AutoScalingGroupName: &g.Name, ForceDelete: new(true)})
	if hasCode(err, "ValidationError") {
		return nil
	}
	return err
}
