package kinds

import (
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"kops.local/kops/internal/engine/resource"
)

// MixedInstances makes a group's instances of several types, on demand and spot.
type MixedInstances struct {
	Distribution InstancesDistribution `tf:"instances_distribution,block"`
	Template     MixedTemplate         `tf:"launch_template,block"`
}

// InstancesDistribution divides a group into on-demand and spot instances. AWS chooses the values
// left out.
type InstancesDistribution struct {
	OnDemandAllocationStrategy string `res:"default" tf:"on_demand_allocation_strategy"`
	OnDemandBaseCapacity       *int   `res:"default" tf:"on_demand_base_capacity"`
	// OnDemandPercentage is of the instances above the base capacity.
	OnDemandPercentage     *int   `res:"default" tf:"on_demand_percentage_above_base_capacity"`
	SpotAllocationStrategy string `res:"default" tf:"spot_allocation_strategy"`
	SpotInstancePools      *int   `res:"default" tf:"spot_instance_pools"`
	// SpotMaxPrice is in US dollars an hour; empty for the on-demand price.
	SpotMaxPrice string `tf:"spot_max_price,zero"`
}

// MixedTemplate is a launch template and the types that it is used with.
type MixedTemplate struct {
	Specification MixedSpecification `tf:"launch_template_specification,block"`
	// Overrides are in order of preference.
	Overrides []InstanceOverride `res:",ordered" tf:"override,block"`
}

// MixedSpecification is GroupTemplate in the spelling of a mixed group.
type MixedSpecification struct {
	ID      resource.Value `tf:"launch_template_id"`
	Version resource.Value `tf:"version"`
}

// InstanceOverride is a type of instance, or what a type must have.
type InstanceOverride struct {
	InstanceType string                `tf:"instance_type"`
	Requirements *InstanceRequirements `tf:"instance_requirements,block"`
}

// InstanceRequirements choose types by what they have.
type InstanceRequirements struct {
	// BurstablePerformance is "included" or "required"; empty excludes such types.
	BurstablePerformance string `tf:"burstable_performance"`
	// ExcludedTypes are types, or patterns such as "m5.*", that are never chosen.
	ExcludedTypes []string `tf:"excluded_instance_types"`
	// InstanceGenerations are of "current" and "previous"; none for both.
	InstanceGenerations []string `tf:"instance_generations"`
	MemoryMiB           Range    `tf:"memory_mib,block"`
	VCPUs               Range    `tf:"vcpu_count,block"`
}

// Range is bounds of a number, both included.
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
			OnDemandAllocationStrategy:          orNil(m.Distribution.OnDemandAllocationStrategy),
			OnDemandBaseCapacity:                maybeNumber(m.Distribution.OnDemandBaseCapacity),
			OnDemandPercentageAboveBaseCapacity: maybeNumber(m.Distribution.OnDemandPercentage),
			SpotAllocationStrategy:              orNil(m.Distribution.SpotAllocationStrategy),
			SpotInstancePools:                   maybeNumber(m.Distribution.SpotInstancePools),
			SpotMaxPrice:                        &m.Distribution.SpotMaxPrice, // empty takes an old price away
		},
		LaunchTemplate: &astypes.LaunchTemplate{LaunchTemplateSpecification: spec.request()},
	}
	for _, o := range m.Template.Overrides {
		out.LaunchTemplate.Overrides = append(out.LaunchTemplate.Overrides,
			astypes.LaunchTemplateOverrides{InstanceType: orNil(o.InstanceType), InstanceRequirements: o.Requirements.request()})
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
		MemoryMiB:             &astypes.MemoryMiBRequest{Min: number(r.MemoryMiB.Min), Max: maybeNumber(r.MemoryMiB.Max)},
		VCpuCount:             &astypes.VCpuCountRequest{Min: number(r.VCPUs.Min), Max: maybeNumber(r.VCPUs.Max)},
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
			OnDemandBaseCapacity:       maybeInt(d.OnDemandBaseCapacity),
			OnDemandPercentage:         maybeInt(d.OnDemandPercentageAboveBaseCapacity),
			SpotAllocationStrategy:     deref(d.SpotAllocationStrategy),
			SpotInstancePools:          maybeInt(d.SpotInstancePools),
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
		out.MemoryMiB = Range{Min: int(deref(m.Min)), Max: maybeInt(m.Max)}
	}
	if v := r.VCpuCount; v != nil {
		out.VCPUs = Range{Min: int(deref(v.Min)), Max: maybeInt(v.Max)}
	}
	for _, g := range r.InstanceGenerations {
		out.InstanceGenerations = append(out.InstanceGenerations, string(g))
	}
	return out
}

// maybeNumber is a number as the SDK takes it, where there is one.
func maybeNumber(n *int) *int32 {
	if n == nil {
		return nil
	}
	return number(*n)
}

// maybeInt is a number of the SDK's, where there is one.
func maybeInt(n *int32) *int {
	if n == nil {
		return nil
	}
	return new(int(*n))
}
