package laws

import (
	"slices"
	"testing"

	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/providers"
)

// inPlaceFields returns, for each kind that serves the machines of one group, the fields whose change
// does not affect running machines: sizes, and what the platform does with machines. A fleet of single
// machines knows its own.
func inPlaceFields() map[string][]string {
	return map[string][]string{
		"aws_autoscaling_group": {"Name", "MinSize", "MaxSize", "MixedInstances", "MixedInstances.Distribution", "MixedInstances.Distribution.OnDemandBaseCapacity",
			"Subnets", "MaxInstanceLifetime", "ProtectFromScaleIn", "CapacityRebalance", "LoadBalancers", "TargetGroups", "Tags",
			"Metrics", "Granularity", "SuspendedProcesses", "WarmPool"},
		"aws_autoscaling_lifecycle_hook":        {"Name", "Group", "DefaultResult", "HeartbeatTimeout", "Transition"},
		"aws_launch_template":                   {"Name", "Tags"},
		"google_compute_instance_group_manager": {"Name", "Zone", "BaseName", "UpdatePolicy", "ListResults", "TargetPools"},
		// Different content is a different template, from which its group then creates machines.
		"google_compute_instance_template": {"Prefix", "CanIPForward", "Disks", "Labels", "MachineType", "Metadata", "Interfaces",
			"Scheduling", "Account", "Tags", "Accelerators", "Shielded", "Confidential"},
		"local_machine_group": {"Cluster", "Name", "Network", "Size"},
		"metal_host":          {"Cluster", "Name", "Peers", "Home"},
	}
}

// TestWhatMachinesAreMadeOf checks that each field of a kind that serves machines is either one
// that machines are created from, or listed here: a change of a listed field does not replace them.
func TestWhatMachinesAreMadeOf(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range providers.All(platform.World{}) {
		for _, k := range p.Kinds {
			if !k.Grouped() {
				continue
			}
			seen[k.KindName()] = true
			spared := slices.Clone(inPlaceFields()[k.KindName()])
			for _, f := range k.Schema().Fields {
				if k.SparesMachines(f.Name) {
					spared = append(spared, f.Name)
				}
			}
			for _, path := range spared {
				if k.MakesMachines(path) {
					t.Errorf("a change of %s of %s is said to replace machines", path, k.KindName())
				}
			}
			for _, f := range k.Schema().Fields {
				if f.Mode != resource.Output && f.Mode != resource.WriteOnly && k.MakesMachines(f.Name) == slices.Contains(spared, f.Name) {
					t.Errorf("what a change of %s of %s does to machines is left open", f.Name, k.KindName())
				}
			}
		}
	}
	for kind := range inPlaceFields() {
		if !seen[kind] {
			t.Errorf("no kind %s serves machines", kind)
		}
	}
	for _, path := range []string{"LaunchTemplate.Version", "MixedInstances.Template.Specification.Version", "MixedInstances.Template.Overrides"} {
		for _, p := range providers.All(platform.World{}) {
			for _, k := range p.Kinds {
				if k.KindName() == "aws_autoscaling_group" && !k.MakesMachines(path) {
					t.Errorf("machines are not made of %s", path)
				}
			}
		}
	}
}
