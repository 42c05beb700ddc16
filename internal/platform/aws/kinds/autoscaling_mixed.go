package kinds

import (
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"kops.local/kops/internal/engine/resource"
)

// MixedInstances runs instances of several types, on-demand and spot, in one group.
type MixedInstances struct {
	Distribution InstancesDistribution `tf:"instances_distribution,block"`
	Template     MixedTemplate         `tf:"launch_template,block"`
}

// InstancesDistribution divides a group into on-demand and spot instances. AWS chooses the values
// that are not set.
type InstancesDistribution struct {
	OnDemandAllocationStrategy string `res:"default" tf:"on_demand_allocation_strategy"`
	OnDemandBaseCapacity       *int   `res:"default" tf:"on_demand_base_capacity"`
	// OnDemandPercentage applies to the instances above the base capacity.
	OnDemandPercentage     *int   `res:"default" tf:"on_demand_percentage_above_base_capacity"`
	SpotAllocationStrategy string `res:"default" tf:"spot_allocation_strategy"`
	SpotInstancePools      *int   `res:"default" tf:"spot_instance_pools"`
	// SpotMaxPrice is in US dollars per hour; empty for the on-demand price.
	SpotMaxPrice string `tf:"spot_max_price,zero"`
}

// MixedTemplate is a launch template and the instance types to use it with.
type MixedTemplate struct {
	Specification MixedSpecification `tf:"launch_template_specification,block"`
	// Overrides are in order of preference.
	Overrides []InstanceOverride `res:",ordered" tf:"override,block"`
}

// MixedSpecification is GroupTemplate as mixed groups spell it.
type MixedSpecification struct {
	ID      resource.Value `tf:"launch_template_id"`
	Version resource.Value `tf:"version"`
}

// InstanceOverride is an instance type, or the requirements for one.
type InstanceOverride struct {
	InstanceType string                `tf:"instance_type"`
	Requirements *InstanceRequirements `tf:"instance_requirements,block"`
}

// InstanceRequirements select instance types by attributes.
type InstanceRequirements struct {
	// BurstablePerformance is "included" or "required"; empty excludes such types.
	BurstablePerformance string `tf:"burstable_performance"`
	// ExcludedTypes are types, or patterns such as "m5.*", that are never chosen.
	ExcludedTypes []string `tf:"excluded_instance_types"`
	// InstanceGenerations contains "current", "previous", or both; empty for both.
	InstanceGenerations []string `tf:"instance_generations"`
	MemoryMiB           Range    `tf:"memory_mib,block"`
	VCPUs               Range    `tf:"vcpu_count,block"`
}

// Range is a number's bounds, both inclusive.
type Range struct {
	Min int  `tf:"min,zero"`
	Max *int `tf:"max"` // nil for no limit
}

func (m *MixedInstances) request() *astypes.MixedInstancesPolicy {
	if m == nil {
		return nil
	}
	spec := GroupTemplate{ID: m.Template.Specification.ID, Version: m.Template.Specification.Version}
	out := &astypes.MixedInstancesPolicy{
		InstancesDistribution: &astypes.InstancesDistribution{
			OnDemandAllocationStrategy:          stringOrNil(m.Distribution.OnDemandAllocationStrategy),
			OnDemandBaseCapacity:                toInt32(m.Distribution.OnDemandBaseCapacity),
			OnDemandPercentageAboveBaseCapacity: toInt32(m.Distribution.OnDemandPercentage),
			SpotAllocationStrategy:              stringOrNil(m.Distribution.SpotAllocationStrategy),
			SpotInstancePools:                   toInt32(m.Distribution.SpotInstancePools),
			SpotMaxPrice:                        &m.Distribution.SpotMaxPrice, // empty removes a previous price
		},
		LaunchTemplate: &astypes.LaunchTemplate{LaunchTemplateSpecification: spec.request()},
	}
	for _, o := range m.Template.Overrides {
		out.LaunchTemplate.Overrides = append(out.LaunchTemplate.Overrides,
			astypes.LaunchTemplateOverrides{InstanceType: stringOrNil(o.InstanceType), InstanceRequirements: o.Requirements.request()})
	}
	return out
}

func (r *InstanceRequirements) request() *astypes.InstanceRequirements {
	if r == nil {
		return nil
	}
	out := &astypes.InstanceRequirements{
		BurstablePerformance:  astypes.BurstablePerformance(r.BurstablePerformance),
		ExcludedInstanceTypes: r.ExcludedTypes,
		MemoryMiB:             &astypes.MemoryMiBRequest{Min: number(r.MemoryMiB.Min), Max: toInt32(r.MemoryMiB.Max)},
		VCpuCount:             &astypes.VCpuCountRequest{Min: number(r.VCPUs.Min), Max: toInt32(r.VCPUs.Max)},
	}
	for _, g := range r.InstanceGenerations {
		out.InstanceGenerations = append(out.InstanceGenerations, astypes.InstanceGeneration(g))
	}
	return out
}

func observedMixed(m *astypes.MixedInstancesPolicy) *MixedInstances {
	if m == nil {
		return nil
	}
	out := &MixedInstances{}
	if d := m.InstancesDistribution; d != nil {
		out.Distribution = InstancesDistribution{
			OnDemandAllocationStrategy: deref(d.OnDemandAllocationStrategy),
			OnDemandBaseCapacity:       toInt(d.OnDemandBaseCapacity),
			OnDemandPercentage:         toInt(d.OnDemandPercentageAboveBaseCapacity),
			SpotAllocationStrategy:     deref(d.SpotAllocationStrategy),
			SpotInstancePools:          toInt(d.SpotInstancePools),
			SpotMaxPrice:               deref(d.SpotMaxPrice),
		}
	}
	if t := m.LaunchTemplate; t != nil {
		if s := t.LaunchTemplateSpecification; s != nil {
			out.Template.Specification = MixedSpecification{
				ID: resource.Lit(deref(s.LaunchTemplateId)), Version: resource.Lit(deref(s.Version))}
		}
		for _, o := range t.Overrides {
			out.Template.Overrides = append(out.Template.Overrides,
				InstanceOverride{InstanceType: deref(o.InstanceType), Requirements: observedRequirements(o.InstanceRequirements)})
		}
	}
	return out
}

func observedRequirements(r *astypes.InstanceRequirements) *InstanceRequirements {
	if r == nil {
		return nil
	}
	out := &InstanceRequirements{BurstablePerformance: string(r.BurstablePerformance), ExcludedTypes: r.ExcludedInstanceTypes}
	if m := r.MemoryMiB; m != nil {
		out.MemoryMiB = Range{Min: int(deref(m.Min)), Max: toInt(m.Max)}
	}
	if v := r.VCpuCount; v != nil {
		out.VCPUs = Range{Min: int(deref(v.Min)), Max: toInt(v.Max)}
	}
	for _, g := range r.InstanceGenerations {
		out.InstanceGenerations = append(out.InstanceGenerations, string(g))
	}
	return out
}

// toInt32 converts an optional number for the SDK.
func toInt32(n *int) *int32 {
	if n == nil {
		return nil
	}
	return number(*n)
}

// toInt converts an optional number from the SDK.
func toInt(n *int32) *int {
	if n == nil {
		return nil
	}
	return new(int(*n))
}
