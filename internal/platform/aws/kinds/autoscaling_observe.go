package kinds

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"kops.local/kops/internal/engine/resource"
)

// groupPage is the maximum number of groups in one response (API reference, DescribeAutoScalingGroups).
const groupPage int32 = 100

// describeGroups returns the cluster's groups, except those that are being deleted, and without
// their instances, which would be most of the response for a large cluster.
func describeGroups(ctx context.Context, c *Client, s resource.Scope) ([]astypes.AutoScalingGroup, error) {
	key := fmt.Sprint("auto-scaling groups of ", s.Cluster, " ", s.All)
	return oncePerSnapshot(ctx, c, key, func(ctx context.Context) ([]astypes.AutoScalingGroup, error) {
		groups, err := pages(ctx, autoscaling.NewDescribeAutoScalingGroupsPaginator(c.AutoScaling, &autoscaling.DescribeAutoScalingGroupsInput{
			Filters:    []astypes.Filter{{Name: new("tag:" + TagOwnerPrefix + s.Cluster), Values: []string{Owned}}},
			MaxRecords: new(groupPage), IncludeInstances: new(false),
		}), func(p *autoscaling.DescribeAutoScalingGroupsOutput) []astypes.AutoScalingGroup {
			return p.AutoScalingGroups
		})
		if err != nil {
			return nil, fmt.Errorf("describe auto-scaling groups: %w", err)
		}
		return slices.DeleteFunc(groups, func(g astypes.AutoScalingGroup) bool {
			return g.Status != nil || !isInScope(s, groupTagMap(g.Tags))
		}), nil
	})
}

func listGroups(ctx context.Context, c *Client, s resource.Scope) ([]*AutoScalingGroup, error) {
	found, err := describeGroups(ctx, c, s)
	if err != nil {
		return nil, err
	}
	out := make([]*AutoScalingGroup, len(found))
	for i, g := range found {
		out[i] = observedGroup(g)
	}
	return out, nil
}

func observedGroup(g astypes.AutoScalingGroup) *AutoScalingGroup {
	name := *g.AutoScalingGroupName
	out := &AutoScalingGroup{
		Name:                name,
		MinSize:             int(deref(g.MinSize)),
		MaxSize:             int(deref(g.MaxSize)),
		MixedInstances:      observedMixed(g.MixedInstancesPolicy),
		Subnets:             resource.Lits(distinct(strings.Split(deref(g.VPCZoneIdentifier), ","))...),
		MaxInstanceLifetime: int(deref(g.MaxInstanceLifetime)),
		ProtectFromScaleIn:  deref(g.NewInstancesProtectedFromScaleIn),
		CapacityRebalance:   deref(g.CapacityRebalance),
		LoadBalancers:       g.LoadBalancerNames,
		TargetGroups:        resource.Lits(g.TargetGroupARNs...),
		ARN:                 deref(g.AutoScalingGroupARN),
		ID:                  name,
	}
	if t := g.LaunchTemplate; t != nil && out.MixedInstances == nil {
		out.LaunchTemplate = &GroupTemplate{ID: resource.Lit(deref(t.LaunchTemplateId)), Version: resource.Lit(deref(t.Version))}
	}
	for _, t := range g.Tags {
		if k := *t.Key; !isReserved(k) {
			out.Tags = append(out.Tags, GroupTag{Key: k, Value: deref(t.Value), Propagate: deref(t.PropagateAtLaunch)})
		}
	}
	for _, m := range g.EnabledMetrics {
		out.Metrics = append(out.Metrics, deref(m.Metric))
		out.Granularity = deref(m.Granularity)
	}
	for _, p := range g.SuspendedProcesses {
		out.SuspendedProcesses = append(out.SuspendedProcesses, deref(p.ProcessName))
	}
	if w := g.WarmPoolConfiguration; w != nil && w.Status != astypes.WarmPoolStatusPendingDelete {
		out.WarmPool = &WarmPool{MinSize: int(deref(w.MinSize))}
		if m := w.MaxGroupPreparedCapacity; m != nil && *m != noLimit {
			out.WarmPool.MaxPrepared = new(int(*m))
		}
	}
	return out
}

func (t *GroupTemplate) request() *astypes.LaunchTemplateSpecification {
	if t == nil {
		return nil
	}
	return &astypes.LaunchTemplateSpecification{LaunchTemplateId: new(t.ID.Text()), Version: stringOrNil(t.Version.Text())}
}

func groupTags(group string, tags []GroupTag) []astypes.Tag {
	out := make([]astypes.Tag, len(tags))
	for i, t := range tags {
		out[i] = astypes.Tag{ResourceId: &group, ResourceType: new("auto-scaling-group"),
			Key: new(t.Key), Value: new(t.Value), PropagateAtLaunch: new(t.Propagate)}
	}
	return out
}

func groupTagMap(tags []astypes.TagDescription) map[string]string {
	return tagsOf(tags, func(t astypes.TagDescription) (*string, *string) { return t.Key, t.Value })
}

func zoneIdentifier(subnets []resource.Value) *string {
	ids := resource.Texts(subnets)
	slices.Sort(ids)
	return stringOrNil(strings.Join(ids, ","))
}

// number converts an integer for the SDK.
func number(n int) *int32 { return new(int32(n)) }
