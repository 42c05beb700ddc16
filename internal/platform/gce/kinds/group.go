package kinds

import "kops.local/kops/internal/engine/resource"

// InstanceGroupManager keeps a number of machines in one zone. Its size is set when it is made, and
// then is the autoscaler's and the user's.
type InstanceGroupManager struct {
	Name     string       `res:"forbid" tf:"name"`
	Zone     string       `res:"forbid" tf:"zone"`
	BaseName string       `res:"forbid" tf:"base_instance_name"`
	Template GroupVersion `tf:"version,block"`
	// TargetSize is how many machines a new group has.
	TargetSize   int              `res:"writeonly" tf:"target_size,zero"`
	UpdatePolicy UpdatePolicy     `res:"forbid" tf:"update_policy,block"`
	ListResults  string           `res:"forbid" tf:"list_managed_instances_results"` // "PAGINATED"
	TargetPools  []resource.Value `tf:"target_pools"`                                // TargetPool.ID
	Lifecycle    GroupLifecycle   `res:"writeonly" tf:"lifecycle,block"`

	ID string `res:"out,id" out:"id" tf:"self_link"`
	// Group is projects/P/zones/Z/instanceGroups/NAME, which backends name.
	Group string `res:"out,id" out:"instance_group"`
}

// GroupVersion names the template of new machines.
type GroupVersion struct {
	Template resource.Value `tf:"instance_template"` // InstanceTemplate.ID
}

// UpdatePolicy says when machines of another template are replaced.
type UpdatePolicy struct {
	MinimalAction string `tf:"minimal_action"` // "REPLACE"
	Type          string `tf:"type"`           // "OPPORTUNISTIC": not before somebody asks
}

// GroupLifecycle is Terraform's own block. The constructor sets it.
type GroupLifecycle struct {
	Ignore []string `tf:"ignore_changes,raw"`
}

// InstanceGroupManagers is the kind of InstanceGroupManager.
var InstanceGroupManagers = resource.Kind[InstanceGroupManager, *Client]{
	Name:  "google_compute_instance_group_manager",
	API:   apiCompute,
	Tasks: []string{"InstanceGroupManager"},
	Key:   func(g *InstanceGroupManager) string { return g.Name },
	Tidy:  func(g *InstanceGroupManager) { g.Lifecycle.Ignore = []string{"target_size"} },
}
