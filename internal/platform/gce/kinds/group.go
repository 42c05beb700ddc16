package kinds

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"google.golang.org/api/compute/v1"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/gceapi"
	"kops.local/kops/internal/platform/gce/gcecloud"
)

// InstanceGroupManager maintains a number of machines in one zone. kops sets its size only on
// creation; after that, the autoscaler and the user change it.
type InstanceGroupManager struct {
	Name     string       `res:"forbid" tf:"name"`
	Zone     string       `res:"forbid" tf:"zone"`
	BaseName string       `res:"forbid" tf:"base_instance_name"`
	Template GroupVersion `tf:"version,block"`
	// TargetSize is the initial number of machines.
	TargetSize   int              `res:"writeonly" tf:"target_size,zero"`
	UpdatePolicy UpdatePolicy     `tf:"update_policy,block"`
	ListResults  string           `tf:"list_managed_instances_results"` // "PAGINATED"
	TargetPools  []resource.Value `tf:"target_pools"`                   // TargetPool.ID
	Lifecycle    GroupLifecycle   `res:"writeonly" tf:"lifecycle,block"`

	ID string `res:"out,id" out:"id" tf:"self_link"`
	// Group is projects/P/zones/Z/instanceGroups/NAME, to which backends refer.
	Group string `res:"out,id" out:"instance_group"`
	// Disks are the disks that are attached to machines of the group and outlive them; only set in
	// a deletion.
	Disks []resource.Value `res:"out"`
}

// GroupVersion names the template of new machines.
type GroupVersion struct {
	Template resource.Value `tf:"instance_template"` // InstanceTemplate.ID
}

// UpdatePolicy says when machines made from another template are replaced.
type UpdatePolicy struct {
	MinimalAction string `tf:"minimal_action"` // "REPLACE"
	Type          string `tf:"type"`           // "OPPORTUNISTIC": not before a request
}

// GroupLifecycle is Terraform's lifecycle block. The constructor sets it.
type GroupLifecycle struct {
	Ignore []string `tf:"ignore_changes,raw"`
}

// InstanceGroupManagers is the kind of InstanceGroupManager.
var InstanceGroupManagers = resource.Kind[InstanceGroupManager, *Client]{
	Name:   "google_compute_instance_group_manager",
	API:    apiCompute,
	Tasks:  []string{"InstanceGroupManager"},
	Early:  true,
	Group:  func(g *InstanceGroupManager) string { return g.BaseName },
	MadeOf: []string{"Template"},
	Key:    func(g *InstanceGroupManager) string { return g.Name },
	Holds:  machineCount,
	Tidy:   func(g *InstanceGroupManager) { g.Lifecycle.Ignore = []string{"target_size"} },
	List:   listManagers,
	Create: createManager,
	Update: []resource.Setter[InstanceGroupManager, *Client]{
		{Fields: []string{"Template"}, Set: func(ctx context.Context, c *Client, have, want *InstanceGroupManager) error {
			return c.Await(ctx)(c.Compute.InstanceGroupManagers.SetInstanceTemplate(c.Project, have.Zone, have.Name,
				&compute.InstanceGroupManagersSetInstanceTemplateRequest{InstanceTemplate: url(want.Template.Template)}).Context(ctx).Do())
		}},
		{Fields: []string{"UpdatePolicy", "ListResults"}, Set: func(ctx context.Context, c *Client, have, want *InstanceGroupManager) error { // a group may predate these settings
			return c.Await(ctx)(c.Compute.InstanceGroupManagers.Patch(c.Project, have.Zone, have.Name, &compute.InstanceGroupManager{
				ListManagedInstancesResults: want.ListResults, UpdatePolicy: want.policy()}).Context(ctx).Do())
		}},
		{Fields: []string{"TargetPools"}, Set: func(ctx context.Context, c *Client, have, want *InstanceGroupManager) error {
			return c.Await(ctx)(c.Compute.InstanceGroupManagers.SetTargetPools(c.Project, have.Zone, have.Name,
				&compute.InstanceGroupManagersSetTargetPoolsRequest{TargetPools: urls(want.TargetPools), ForceSendFields: []string{"TargetPools"}}).Context(ctx).Do())
		}},
	},
	Delete: func(ctx context.Context, c *Client, g *InstanceGroupManager) error { // and its machines; the operation waits for their deletion
		return fault.IgnoreGone(c.Await(ctx)(c.Compute.InstanceGroupManagers.Delete(c.Project, g.Zone, g.Name).Context(ctx).Do()))
	},
}

// machineCount describes the number of machines that a group maintains.
func machineCount(g *InstanceGroupManager) string {
	switch g.TargetSize {
	case 0:
		return ""
	case 1:
		return "1 machine"
	}
	return fmt.Sprintf("%d machines", g.TargetSize)
}

// listManagers finds the groups whose template is one of the cluster's. With Scope.All, it also
// returns the disks attached to their machines, because those can be deleted only after the
// machines.
func listManagers(ctx context.Context, c *Client, s resource.Scope) ([]*InstanceGroupManager, error) {
	w, err := newWorld(ctx, c, s)
	if err != nil {
		return nil, err
	}
	list, err := w.managers(ctx, c)
	out, err := selectObjects(list, err, func(*compute.InstanceGroupManager) bool { return true }, observedManager)
	if err != nil || !s.All {
		return out, err
	}
	machines, _, err := w.machines(ctx, c, list)
	for m := range out {
		for _, i := range machines[out[m].ID] {
			for _, d := range i.Disks {
				if !d.AutoDelete {
					out[m].Disks = append(out[m].Disks, link(d.Source))
				}
			}
		}
	}
	return out, err
}

// machines returns the cluster's machines by the link of the group that maintains them, and those
// that belong to no group. A machine's metadata always names the group that created it, so if more
// machines name a group than its target size, the group's members are listed.
func (w *world) machines(ctx context.Context, c *Client, groups []*compute.InstanceGroupManager) (of map[string][]*compute.Instance, free []*compute.Instance, err error) {
	all, err := c.allInstances(ctx, w.cluster)
	of = map[string][]*compute.Instance{}
	for _, i := range all {
		if m := slices.IndexFunc(groups, func(m *compute.InstanceGroupManager) bool { return isCreatedBy(m, i) }); m >= 0 {
			of[gceapi.Link(groups[m].SelfLink)] = append(of[gceapi.Link(groups[m].SelfLink)], i)
		} else {
			free = append(free, i)
		}
	}
	for _, m := range groups {
		id := gceapi.Link(m.SelfLink)
		if err != nil || len(of[id]) <= int(m.TargetSize) {
			continue
		}
		var kept map[string]bool
		kept, err = c.memberLinks(ctx, m)
		of[id] = slices.DeleteFunc(of[id], func(i *compute.Instance) bool {
			if let := !kept[gceapi.Link(i.SelfLink)]; let {
				free = append(free, i)
				return true
			}
			return false
		})
	}
	return of, free, err
}

// isCreatedBy reports whether a group created a machine. The machine refers to the group by the
// project's number.
func isCreatedBy(m *compute.InstanceGroupManager, i *compute.Instance) bool {
	by := gceapi.Metadata(i.Metadata, gcecloud.MetadataCreatedBy)
	return gceapi.Name(by) == m.Name && gceapi.Place(by, "zones") == gceapi.Name(m.Zone)
}

// memberLinks returns the links of the machines that a group maintains.
func (c *Client) memberLinks(ctx context.Context, m *compute.InstanceGroupManager) (map[string]bool, error) {
	list, err := c.Members(ctx, m)
	out := map[string]bool{}
	for _, i := range list {
		out[gceapi.Link(i.Instance)] = true
	}
	return out, err
}

// Members returns the machines that a group has, or is about to have; only the group's name and
// zone are used.
func (c *Client) Members(ctx context.Context, m *compute.InstanceGroupManager) ([]*compute.ManagedInstance, error) {
	return listAll(ctx, c, "machines of the group "+m.Name, func(ctx context.Context, add func(...*compute.ManagedInstance)) error {
		return c.Compute.InstanceGroupManagers.ListManagedInstances(c.Project, gceapi.Name(m.Zone), m.Name).MaxResults(perPage).Pages(ctx,
			func(p *compute.InstanceGroupManagersListManagedInstancesResponse) error {
				add(p.ManagedInstances...)
				return nil
			})
	})
}

// Machines returns all managed groups of the region and the cluster's instances, both sorted by
// link.
func (c *Client) Machines(ctx context.Context, cluster string) (groups []*compute.InstanceGroupManager, instances []*compute.Instance, err error) {
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error {
		all, err := c.allManagers(ctx)
		groups = slices.DeleteFunc(slices.Clone(all), func(m *compute.InstanceGroupManager) bool { return m.Zone == "" || !c.inRegion(m.Zone) })
		slices.SortFunc(groups, func(a, b *compute.InstanceGroupManager) int { return strings.Compare(a.SelfLink, b.SelfLink) })
		return err
	})
	both.Go(func() error {
		all, err := c.allInstances(ctx, cluster)
		instances = slices.Clone(all)
		slices.SortFunc(instances, func(a, b *compute.Instance) int { return strings.Compare(a.SelfLink, b.SelfLink) })
		return err
	})
	return groups, instances, both.Wait()
}

func observedManager(d *compute.InstanceGroupManager) *InstanceGroupManager {
	g := &InstanceGroupManager{Name: d.Name, Zone: gceapi.Name(d.Zone), BaseName: d.BaseInstanceName, Template: GroupVersion{link(templateOf(d))}, TargetSize: int(d.TargetSize),
		ListResults: d.ListManagedInstancesResults, TargetPools: links(d.TargetPools), ID: gceapi.Link(d.SelfLink), Group: gceapi.Link(d.InstanceGroup)}
	if p := d.UpdatePolicy; p != nil {
		g.UpdatePolicy = UpdatePolicy{MinimalAction: p.MinimalAction, Type: p.Type}
	}
	return g
}

func createManager(ctx context.Context, c *Client, g *InstanceGroupManager) error {
	base := "projects/" + c.Project + "/zones/" + g.Zone
	g.ID, g.Group = base+"/instanceGroupManagers/"+g.Name, base+"/instanceGroups/"+g.Name
	return c.Await(ctx)(c.Compute.InstanceGroupManagers.Insert(c.Project, g.Zone, &compute.InstanceGroupManager{Name: g.Name, BaseInstanceName: g.BaseName,
		InstanceTemplate: url(g.Template.Template), TargetSize: int64(g.TargetSize), TargetPools: urls(g.TargetPools), ListManagedInstancesResults: g.ListResults,
		UpdatePolicy:    g.policy(),
		ForceSendFields: []string{"TargetSize"}}).Context(ctx).Do()) // the API rejects a group without a size
}

func (g *InstanceGroupManager) policy() *compute.InstanceGroupManagerUpdatePolicy {
	return &compute.InstanceGroupManagerUpdatePolicy{MinimalAction: g.UpdatePolicy.MinimalAction, Type: g.UpdatePolicy.Type}
}
