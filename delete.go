package kops

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model/managedfile"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/clusterstore"
)

// DeleteOptions say what a deletion does.
type DeleteOptions struct {
	// Apply deletes; otherwise the plan is only made.
	Apply bool
	// Unregister deletes the cluster's objects only, and keeps its resources.
	Unregister bool
	// External deletes the resources of a cluster that the store does not hold, of
	// Cloud, which is AWS when it is empty, or local. AWS needs the Region.
	External bool
	Cloud    api.CloudProviderID
	Region   string
	// Wait is how long one resource may take to become deletable; 0 means 10 minutes.
	Wait time.Duration
	// Planned is called with the plan before anything is done; an error stops the deletion.
	Planned func(*Update) error
}

// DeleteCluster plans the deletion of every resource of a cluster and, with
// Apply, carries it out and removes the cluster from the store.
func (c *Client) DeleteCluster(ctx context.Context, name string, o DeleteOptions) error {
	if o.External {
		return c.deleteExternal(ctx, name, o)
	}
	if !o.Apply {
		_, err := c.planDeletion(ctx, name, o)
		return err
	}
	return c.leased(ctx, name, func(ctx context.Context, lease *clusterstore.Lease) error {
		d, err := c.planDeletion(ctx, name, o)
		if err != nil {
			return err
		}
		if !d.plan.Empty() {
			c.cfg.Phase("delete")
			d.patience = o.Wait
			if err := c.execute(ctx, lease.Hold, d.prepared, d.plan); err != nil {
				return err
			}
			// Until its machines were gone, the control plane may have written more.
			if d.files, err = c.store.Deletion(ctx, d.cluster.Contents); err != nil {
				return err
			}
		}
		return d.files.Run(ctx, lease)
	})
}

// deletion is a cluster that is about to be deleted.
type deletion struct {
	*prepared
	plan  *plan.Plan
	files *clusterstore.Deletion
}

// planDeletion plans the deletion of everything that belongs to a cluster but the
// files of its store, which go last and all at once.
func (c *Client) planDeletion(ctx context.Context, name string, o DeleteOptions) (*deletion, error) {
	c.cfg.Phase("read")
	cl, err := c.Cluster(ctx, name)
	if err != nil {
		return nil, err
	}
	d := &deletion{prepared: &prepared{cluster: cl, client: c, warnings: cl.Warnings}, plan: &plan.Plan{}}
	if d.files, err = c.store.Deletion(ctx, cl.Contents); err != nil {
		return nil, err
	}
	if !o.Unregister {
		if err := c.connect(ctx, d.prepared, UpdateOptions{}); err != nil {
			return nil, err
		}
		if d.plan, err = c.planRemoval(ctx, d.prepared); err != nil {
			return nil, err
		}
	}
	if o.Planned != nil {
		return d, o.Planned(&Update{Plan: d.plan, Warnings: d.warnings, Objects: d.files.URLs})
	}
	return d, nil
}

// planRemoval observes everything that belongs to the cluster and plans to
// remove it. What the spec shares is kept.
func (c *Client) planRemoval(ctx context.Context, p *prepared) (*plan.Plan, error) {
	p.kinds, p.graph = p.provider.Kinds, &graph.Graph{}
	if p.provider.Shared != nil {
		shared, err := p.provider.Shared(p.cluster.Spec)
		if err != nil {
			return nil, err
		}
		if err := p.graph.Add(shared...); err != nil {
			return nil, err
		}
	}
	c.cfg.Phase("observe")
	have, err := p.snapshot(ctx, true)
	if err != nil {
		return nil, err
	}
	there := p.graph.Select(func(n resource.Node) bool { return exists(n, have) })
	return plan.Make(there, have, p.kinds, plan.Options{Prune: true})
}

// exists reports whether a shared object was observed; one that is gone is nothing to keep.
func exists(n resource.Node, have plan.Snapshot) bool {
	found := false
	for _, o := range have[n.Address.Kind] {
		n.Kind.Schema().Identities(o.Got, func(id string) { found = found || id == n.Adopt })
	}
	return found
}

// deleteExternal deletes the resources of a cluster of which only the name is known.
// The store at hand must not hold it: with its objects, a deletion knows what is shared,
// and where all of it is.
func (c *Client) deleteExternal(ctx context.Context, name string, o DeleteOptions) error {
	stub := &api.Cluster{}
	stub.Name = name
	switch o.Cloud {
	case "", api.CloudAWS:
		stub.Spec.CloudProvider.AWS = &api.AWSSpec{}
		stub.Spec.Networking.Subnets = []api.ClusterSubnetSpec{{Name: o.Region, Zone: o.Region + "a"}}
	case api.CloudLocal:
		stub.Spec.CloudProvider.Local = &api.LocalSpec{}
	default:
		return fault.Wrap(fault.Permanent, fmt.Errorf("cannot delete a cluster of the cloud %q without its objects", o.Cloud),
			fmt.Sprintf("name %s or %s", api.CloudAWS, api.CloudLocal))
	}
	known, err := c.ClusterNames(ctx)
	if err != nil && !store.IsMissing(err) {
		return err
	}
	if slices.Contains(known, name) {
		return &Refused{fault.Wrap(fault.Conflict, fmt.Errorf("cluster %s is in the state store %s, so it is not external", name, c.store.URL()),
			fmt.Sprintf("delete it with kops delete cluster %s, or forget its objects first: kops delete cluster %[1]s --unregister --yes", name))}
	}
	p := &prepared{cluster: &Cluster{&clusterstore.Contents{Spec: stub}}, client: c, patience: o.Wait}
	if err := c.connect(ctx, p, UpdateOptions{}); err != nil {
		return err
	}
	made, err := c.planRemoval(ctx, p)
	if err != nil {
		return err
	}
	if o.Planned != nil {
		if err := o.Planned(&Update{Plan: made}); err != nil {
			return err
		}
	}
	if !o.Apply {
		return nil
	}
	return c.execute(ctx, nil, p, made)
}

// DeleteGroup plans the deletion of the resources of an instance group and,
// with Apply, carries it out and removes the group from the store.
func (c *Client) DeleteGroup(ctx context.Context, cluster, group string, o DeleteOptions) error {
	if !o.Apply {
		_, err := c.planGroupRemoval(ctx, cluster, group, o)
		return err
	}
	return c.leased(ctx, cluster, func(ctx context.Context, lease *clusterstore.Lease) error {
		d, err := c.planGroupRemoval(ctx, cluster, group, o)
		if err != nil {
			return err
		}
		if err := c.apply(ctx, lease, d.prepared, d.plan, "delete"); err != nil {
			return err
		}
		now := d.cluster.Clone()
		now.Groups = without(now.Groups, group)
		_, err = c.store.Save(ctx, d.cluster.Contents, now)
		return err
	})
}

// planGroupRemoval plans to remove what only this group's machines need. It goes by
// what is there, so that a group can be deleted whose machines could not be made.
func (c *Client) planGroupRemoval(ctx context.Context, cluster, group string, o DeleteOptions) (*deletion, error) {
	c.cfg.Phase("read")
	cl, err := c.Cluster(ctx, cluster)
	if err != nil {
		return nil, err
	}
	p := &prepared{cluster: cl, client: c, warnings: cl.Warnings, graph: &graph.Graph{}}
	if _, err := cl.SelectGroups(group); err != nil {
		return nil, err
	}
	if err := p.removable(group); err != nil {
		return nil, err
	}
	if err := c.connect(ctx, p, UpdateOptions{}); err != nil {
		return nil, err
	}
	if p.provider.GroupOf == nil {
		return nil, fmt.Errorf("the machines of one group cannot be told from others on %s; give it the size 0 and update the cluster", p.provider.Title)
	}
	p.kinds = slices.Concat(managedfile.Kinds(), p.provider.Kinds)
	c.cfg.Phase("observe")
	have, err := p.snapshot(ctx, false)
	if err != nil {
		return nil, err
	}
	files := p.folderOf(cl.Group(group))
	mine := plan.Snapshot{}
	for kind, objects := range have {
		for _, obj := range objects {
			n := resource.Node{Address: resource.Address{Kind: kind, Name: obj.Key}, Want: obj.Got}
			if f, ok := obj.Got.(*managedfile.File); p.provider.GroupOf(n) == group || ok && f.Store == files.Store && strings.HasPrefix(f.Key, files.Prefix) {
				mine[kind] = append(mine[kind], obj)
			}
		}
	}
	d := &deletion{prepared: p}
	if d.plan, err = plan.Make(&graph.Graph{}, mine, p.kinds, plan.Options{Prune: true}); err != nil {
		return nil, err
	}
	if o.Planned != nil {
		return d, o.Planned(&Update{Plan: d.plan, Warnings: p.warnings})
	}
	return d, nil
}

// folderOf is where the files of a group's machines are.
func (p *prepared) folderOf(g *api.InstanceGroup) managedfile.Location {
	l := managedfile.LocationOf(p.places.Base.URL)
	l.Prefix += layout.GroupFolder(string(g.Spec.Role), g.Name)
	return l
}

// removable refuses to remove the last group of the control plane, and one that has etcd members.
func (p *prepared) removable(group string) error {
	for _, e := range p.cluster.Spec.Spec.EtcdClusters {
		for _, m := range e.EtcdMembers {
			if m.InstanceGroup != nil && *m.InstanceGroup == group {
				return fmt.Errorf("instancegroup %q runs member %s of etcd cluster %s, and etcd keeps its members: a control plane can get more groups, and not fewer",
					group, m.Name, e.Name)
			}
		}
	}
	others := 0
	for _, g := range p.cluster.Groups {
		if g.Name != group && g.IsControlPlane() {
			others++
		}
	}
	if g := p.cluster.Group(group); g.IsControlPlane() && others == 0 {
		return fmt.Errorf("instancegroup %q is the only one of the control plane; to delete the cluster, run `kops delete cluster %s`", group, p.cluster.Spec.Name)
	}
	return nil
}

func without(groups []*api.InstanceGroup, name string) []*api.InstanceGroup {
	var out []*api.InstanceGroup
	for _, g := range groups {
		if g.Name != name {
			out = append(out, g)
		}
	}
	return out
}
