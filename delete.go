package kops

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/exec"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/pipeline"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/clusterstore"
)

// DeleteOptions configure a deletion.
type DeleteOptions struct {
	// Apply deletes; otherwise the deletion is only planned.
	Apply bool
	// Unregister deletes only the cluster's objects, and keeps its resources.
	Unregister bool
	// External deletes the resources of a cluster that is not in the store, on
	// Cloud, which is AWS if it is empty, or local. AWS needs the Region.
	External bool
	Cloud    api.CloudProviderID
	Region   string
	// Wait is how long one resource may take to become deletable; 0 means 10 minutes.
	Wait time.Duration
	// On receives the events of the deletion.
	On On
}

// DeleteCluster plans the deletion of every resource of a cluster and, with
// Apply, applies the plan and removes the cluster from the store.
func (c *Client) DeleteCluster(ctx context.Context, name string, o DeleteOptions) error {
	progress := &reporter{cluster: name, on: o.On}
	if o.External {
		return c.deleteExternal(ctx, progress, o)
	}
	if !o.Apply {
		_, err := c.planDeletion(ctx, progress, o)
		return err
	}
	return c.withLease(ctx, progress, func(ctx context.Context, lease *clusterstore.Lease) error {
		d, err := c.planDeletion(ctx, progress, o)
		if err != nil {
			return err
		}
		if d.Planned != nil && !d.Plan.Empty() {
			if err := progress.phase("delete"); err != nil {
				return err
			}
			if err := execute(ctx, progress, d.Planned, pipeline.ExecuteOptions{Guard: lease.Hold, Patience: o.Wait}); err != nil {
				return err
			}
			// Until its machines were deleted, the control plane may have written more files.
			if d.files, err = c.store.Deletion(ctx, d.cluster.stored()); err != nil {
				return err
			}
		}
		return d.files.Run(ctx, lease)
	})
}

// execute applies a plan, and reports its steps.
func execute(ctx context.Context, progress *reporter, p *pipeline.Planned, o pipeline.ExecuteOptions) error {
	return progress.steps(ctx, func(ctx context.Context, report func(exec.Event)) error {
		o.Report = report
		return p.Execute(ctx, o)
	})
}

// deletion is a cluster that is about to be deleted.
type deletion struct {
	*pipeline.Planned // nil if nothing on the platform is deleted
	cluster           *Cluster
	files             *clusterstore.Deletion
}

// planDeletion plans the deletion of everything that belongs to a cluster except the
// files in its store, which are deleted last and all at once.
func (c *Client) planDeletion(ctx context.Context, progress *reporter, o DeleteOptions) (*deletion, error) {
	cl, err := c.readCluster(ctx, progress)
	if err != nil {
		return nil, err
	}
	d := &deletion{cluster: cl}
	if d.files, err = c.store.Deletion(ctx, cl.stored()); err != nil {
		return nil, err
	}
	u := &Update{Plan: newPlan(&plan.Plan{}), Warnings: slices.Concat(cl.Warnings, d.files.Kept), Objects: d.files.URLs}
	if !o.Unregister {
		if d.Planned, err = c.planRemoval(ctx, progress, cl); err != nil {
			return nil, err
		}
		u.Plan, u.Risks = newPlan(d.Plan), d.RemovalRisks()
	}
	return d, progress.plan(u)
}

// planRemoval observes everything that belongs to the cluster and plans its
// deletion. Resources that the spec shares are kept.
func (c *Client) planRemoval(ctx context.Context, progress *reporter, cl *Cluster) (*pipeline.Planned, error) {
	opened, err := c.world.Open(ctx, cl.stored(), pipeline.OpenOptions{})
	if err != nil {
		return nil, err
	}
	shared, err := opened.Shared()
	if err != nil {
		return nil, err
	}
	if err := progress.phase("observe"); err != nil {
		return nil, err
	}
	have, err := shared.Observe(ctx, true)
	if err != nil {
		return nil, err
	}
	return have.Removal()
}

// deleteExternal deletes the resources of a cluster that is only known by name.
// The state store must not contain it: with its objects, a deletion knows what is shared,
// and where everything is.
func (c *Client) deleteExternal(ctx context.Context, progress *reporter, o DeleteOptions) error {
	name := progress.cluster
	stub := &api.Cluster{}
	stub.Name = name
	on, err := c.world.Provider(string(cmp.Or(o.Cloud, c.world.Clouds[0].Name)))
	if err != nil {
		return err
	}
	if on.Stub == nil {
		return fault.Wrap(fault.Permanent, fmt.Errorf("cannot delete a cluster on %s without its objects", on.Title),
			"use the state store that the cluster was created with")
	}
	on.Stub(stub, o.Region)
	known, err := c.Clusters().Names(ctx)
	if err != nil && !store.IsMissing(err) {
		return err
	}
	if slices.Contains(known, name) {
		return &Refused{fault.Wrap(fault.Conflict, fmt.Errorf("cluster %s is in the state store %s, so it is not external", name, c.store.URL()),
			fmt.Sprintf("delete it with kops delete cluster %s, or forget its objects first: kops delete cluster %[1]s --unregister --yes", name))}
	}
	p, err := c.planRemoval(ctx, progress, &Cluster{Spec: stub})
	if err != nil {
		return err
	}
	if err := progress.plan(&Update{Plan: newPlan(p.Plan), Risks: p.RemovalRisks()}); err != nil || !o.Apply {
		return err
	}
	return execute(ctx, progress, p, pipeline.ExecuteOptions{Patience: o.Wait})
}

// DeleteGroup is DeleteGroups for one group.
func (c *Client) DeleteGroup(ctx context.Context, cluster, group string, o DeleteOptions) error {
	return c.DeleteGroups(ctx, cluster, []string{group}, o)
}

// DeleteGroups deletes the resources that only the machines of some groups need, and then the groups.
// Etcd members leave before their machines are deleted; control plane groups are
// therefore removed from the store first.
func (c *Client) DeleteGroups(ctx context.Context, cluster string, groups []string, o DeleteOptions) error {
	progress := &reporter{cluster: cluster, on: o.On}
	if !o.Apply {
		_, _, err := c.planGroupRemoval(ctx, progress, groups)
		return err
	}
	return c.withLease(ctx, progress, func(ctx context.Context, lease *clusterstore.Lease) error {
		p, now, err := c.planGroupRemoval(ctx, progress, groups)
		if err != nil {
			return err
		}
		was := p.Cluster
		if slices.ContainsFunc(groups, func(g string) bool { return was.Group(g).IsControlPlane() }) {
			if err := c.removeControlPlanes(ctx, progress, lease, was, now); err != nil {
				return err
			}
			return apply(ctx, progress, lease, p, "delete")
		}
		if err := apply(ctx, progress, lease, p, "delete"); err != nil {
			return err
		}
		_, err = c.store.Change(ctx, c.holder(), was, now)
		return err
	})
}

// planGroupRemoval plans the deletion of what only these groups' machines need, and returns the
// cluster without them.
func (c *Client) planGroupRemoval(ctx context.Context, progress *reporter, groups []string) (*pipeline.Planned, *clusterstore.Contents, error) {
	cl, err := c.readCluster(ctx, progress)
	if err != nil {
		return nil, nil, err
	}
	if _, err := c.ownedFolders(ctx, cl); err != nil {
		return nil, nil, err
	}
	gone, err := cl.SelectGroups(groups...)
	if err != nil {
		return nil, nil, err
	}
	now, err := withoutGroups(cl.stored(), groups)
	if err == nil {
		err = checkRenames(c.world.PlatformOf(cl.Spec).Traits.Model.Peers, cl.Spec, now.Spec).Err()
	}
	if err != nil {
		return nil, nil, err
	}
	opened, err := c.world.Open(ctx, cl.stored(), pipeline.OpenOptions{})
	if err != nil {
		return nil, nil, err
	}
	if !slices.ContainsFunc(opened.Provider.Kinds, resource.Any.Grouped) {
		return nil, nil, fmt.Errorf("kops cannot distinguish the machines of one group on %s; set the group's size to 0 and update the cluster", opened.Provider.Title)
	}
	if err := progress.phase("observe"); err != nil {
		return nil, nil, err
	}
	have, err := opened.Nothing().Observe(ctx, false)
	if err != nil {
		return nil, nil, err
	}
	p, err := have.GroupRemoval(gone...)
	if err == nil {
		err = progress.plan(&Update{Plan: newPlan(p.Plan), Warnings: cl.Warnings, Risks: p.RemovalRisks()})
	}
	return p, now, err
}
