package model

import (
	"fmt"
	"maps"
	"slices"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/aws/awscloud"
	"kops.local/kops/internal/platform/aws/kinds"
	"kops.local/kops/internal/spec/fill"
)

// scalingGroups returns the scaling groups, which keep the number of each group's machines.
func (m *model) scalingGroups() ([]resource.Node, error) {
	var nodes []resource.Node
	for _, g := range m.scaledGroups() {
		w, err := m.scalingGroup(g)
		if err != nil {
			return nil, fmt.Errorf("group %s: %w", g.Name, err)
		}
		group := kinds.AutoScalingGroups.New(w.Name, w)
		nodes = append(nodes, group)
		if p := warmPool(g); p != nil && p.EnableLifecycleHook {
			nodes = append(nodes, kinds.LifecycleHooks.New("kops-warmpool-"+g.Name, kinds.LifecycleHook{
				Name: awscloud.LifecycleHook, InstanceGroup: g.Name, Group: group.Out("id"), DefaultResult: "ABANDON",
				HeartbeatTimeout: int(fill.Or(p.LifecycleHookTimeout, 600)), Transition: "autoscaling:EC2_INSTANCE_LAUNCHING"}))
		}
	}
	return nodes, nil
}

func (m *model) scalingGroup(g *api.InstanceGroup) (kinds.AutoScalingGroup, error) {
	name := m.groupName(g)
	subnets, err := m.subnetsOf(g)
	if err != nil {
		return kinds.AutoScalingGroup{}, err
	}
	w := kinds.AutoScalingGroup{
		Name: name, MinSize: int(fill.Or(g.Spec.MinSize, 0)), MaxSize: int(fill.Or(g.Spec.MaxSize, 0)),
		ProtectFromScaleIn: fill.Or(g.Spec.InstanceProtection, false), CapacityRebalance: fill.Or(g.Spec.CapacityRebalance, false),
		SuspendedProcesses: g.Spec.SuspendProcesses, LoadBalancers: classicBalancers(g), TargetGroups: m.targetGroups(g),
		Metrics: groupMetrics(g), Granularity: "1Minute",
	}
	if g.Spec.MaxInstanceLifetime != nil {
		w.MaxInstanceLifetime = int(g.Spec.MaxInstanceLifetime.Seconds())
	}
	for _, s := range subnets {
		w.Subnets = append(w.Subnets, m.subnetID(s))
	}
	tags := m.groupTags(g)
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		w.Tags = append(w.Tags, kinds.GroupTag{Key: k, Value: tags[k], Propagate: true})
	}
	id, version := kinds.LaunchTemplates.Out(name, "id"), kinds.LaunchTemplates.Out(name, "version")
	if g.Spec.MixedInstancesPolicy != nil {
		w.MixedInstances = mixedInstances(g, kinds.MixedSpecification{ID: id, Version: version})
	} else {
		w.LaunchTemplate = &kinds.GroupTemplate{ID: id, Version: version}
	}
	if p := warmPool(g); p != nil {
		w.WarmPool = &kinds.WarmPool{MinSize: int(p.MinSize), MaxPrepared: number(p.MaxSize)}
	}
	return w, nil
}

// number converts an optional number for the kinds.
func number(p *int64) *int {
	if p == nil {
		return nil
	}
	n := int(*p)
	return &n
}

// classicBalancers returns the names of existing load balancers that machines join, sorted.
func classicBalancers(g *api.InstanceGroup) []string {
	var names []string
	for _, e := range g.Spec.ExternalLoadBalancers {
		if name := fill.Or(e.LoadBalancerName, ""); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// groupMetrics returns the metrics that the group reports, sorted.
func groupMetrics(g *api.InstanceGroup) []string {
	names := withPrefix("Group", "DesiredCapacity", "InServiceInstances", "MaxSize", "MinSize", "PendingInstances",
		"StandbyInstances", "TerminatingInstances", "TotalInstances")
	if warmPool(g) != nil {
		names = append(names, withPrefix("GroupAndWarmPool", "DesiredCapacity", "TotalCapacity")...)
		names = append(names, withPrefix("WarmPool", "DesiredCapacity", "MinSize", "PendingCapacity", "TerminatingCapacity",
			"TotalCapacity", "WarmedCapacity")...)
	}
	slices.Sort(names)
	return names
}

// warmPool returns a group's pool of stopped machines; nil if it has none.
func warmPool(g *api.InstanceGroup) *api.WarmPoolSpec {
	if p := g.Spec.WarmPool; p != nil && fill.Or(p.MaxSize, 1) != 0 {
		return p
	}
	return nil
}

// mixedInstances returns the policy of a group with several types of machines, on-demand and spot.
func mixedInstances(g *api.InstanceGroup, t kinds.MixedSpecification) *kinds.MixedInstances {
	p := g.Spec.MixedInstancesPolicy
	w := &kinds.MixedInstances{
		Distribution: kinds.InstancesDistribution{
			OnDemandAllocationStrategy: fill.Or(p.OnDemandAllocationStrategy, ""), OnDemandBaseCapacity: number(p.OnDemandBase),
			OnDemandPercentage: number(p.OnDemandAboveBase), SpotAllocationStrategy: fill.Or(p.SpotAllocationStrategy, ""),
			SpotInstancePools: number(p.SpotInstancePools), SpotMaxPrice: fill.Or(g.Spec.MaxPrice, ""),
		},
		Template: kinds.MixedTemplate{Specification: t},
	}
	for _, kind := range p.Instances {
		w.Template.Overrides = append(w.Template.Overrides, kinds.InstanceOverride{InstanceType: kind})
	}
	if r := p.InstanceRequirements; r != nil {
		w.Template.Overrides = append(w.Template.Overrides, kinds.InstanceOverride{Requirements: instanceRequirements(r)})
	}
	return w
}

// instanceRequirements selects instance types by attributes. It includes burstable types, which AWS
// excludes by default.
func instanceRequirements(r *api.InstanceRequirementsSpec) *kinds.InstanceRequirements {
	const mebi = 1 << 20
	bounds := func(s *api.MinMaxSpec, unit int64) kinds.Range {
		var b kinds.Range
		if s != nil && s.Min != nil {
			b.Min = int(s.Min.Value() / unit)
		}
		if s != nil && s.Max != nil {
			n := int(s.Max.Value() / unit)
			b.Max = &n
		}
		return b
	}
	return &kinds.InstanceRequirements{
		BurstablePerformance: "included", ExcludedTypes: r.ExcludedInstanceTypes,
		VCPUs: bounds(r.CPU, 1), MemoryMiB: bounds(r.Memory, mebi)}
}
