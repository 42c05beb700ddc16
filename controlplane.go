package kops

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/api"
	"kops.local/kops/finding"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/pipeline"
	"kops.local/kops/internal/spec/newcluster"
	"kops.local/kops/internal/store/clusterstore"
)

// addMembers adds a member of each etcd cluster, copied from its first one, for every control plane
// group without one, if their number is then odd. It reports whether it has changed the spec.
func addMembers(c *clusterstore.Contents) bool {
	changed := false
	for i := range c.Spec.Spec.EtcdClusters {
		e := &c.Spec.Spec.EtcdClusters[i]
		var without []string
		for _, g := range c.Groups {
			if g.IsControlPlane() && !hasMember(e, g.Name) {
				without = append(without, g.Name)
			}
		}
		if len(without) == 0 || len(e.EtcdMembers) == 0 || (len(e.EtcdMembers)+len(without))%2 == 0 {
			continue
		}
		for _, g := range without {
			m := e.EtcdMembers[0]
			m.Name, m.InstanceGroup = newcluster.MemberName(g, e.EtcdMembers), &g
			e.EtcdMembers = append(e.EtcdMembers, m)
		}
		changed = true
	}
	return changed
}

func hasMember(e *api.EtcdClusterSpec, group string) bool {
	return slices.ContainsFunc(e.EtcdMembers, func(m api.EtcdMemberSpec) bool { return m.InstanceGroup != nil && *m.InstanceGroup == group })
}

// MoveGroup stores a new control plane group that replaces another: it copies that group's
// spec, except its name, subnets and zones, and has its etcd members under new names. An
// update creates its machine, and a pruning update deletes the other group's machine when no
// etcd member needs it.
func (s Clusters) MoveGroup(ctx context.Context, cl *Cluster, from string, to NewGroupRequest) (Written, error) {
	was := cl.Group(from)
	switch {
	case was == nil:
		return Written{}, fault.New(fault.Gone, "instancegroup %q does not exist", from)
	case !was.IsControlPlane():
		return Written{}, fault.New(fault.Permanent, "instancegroup %q is not a control plane group; other groups need no replacement: create the new group and delete the old one", from)
	case cl.Group(to.Name) != nil:
		return Written{}, fault.New(fault.Conflict, "instancegroup %q already exists; change it with kops edit instancegroup", to.Name)
	case len(to.Subnets) == 0:
		return Written{}, finding.List{{Path: "option:Subnets", Rule: "option", Message: "a control plane needs a subnet", Remedy: "specify it with option:Subnets"}}
	}
	now, g := inPlaceOf(cl.stored(), was, to)
	on := s.c.world.PlatformOf(cl.Spec)
	if err := checkSeats(on.Traits.Model.Peers, on.Title, cl.Spec, now.Spec); err != nil {
		return Written{}, err
	}
	w, err := s.c.keep(ctx, &change{stored: cl, now: now}, g, now.Spec)
	w.Created = true
	return w, err
}

// inPlaceOf returns the cluster in which a new group replaces another.
func inPlaceOf(was *clusterstore.Contents, from *api.InstanceGroup, to NewGroupRequest) (*clusterstore.Contents, *api.InstanceGroup) {
	g := from.DeepCopy()
	g.ObjectMeta = metav1.ObjectMeta{Name: to.Name, Labels: g.Labels, Annotations: g.Annotations}
	g.Spec.Subnets, g.Spec.Zones = to.Subnets, to.Zones
	if g.Spec.NodeLabels[api.LabelInstanceGroup] == from.Name {
		g.Spec.NodeLabels[api.LabelInstanceGroup] = g.Name
	}
	now := was.Clone()
	now.Groups = append(slices.DeleteFunc(now.Groups, func(o *api.InstanceGroup) bool { return o.Name == from.Name }), g)
	for i := range now.Spec.Spec.EtcdClusters {
		all := now.Spec.Spec.EtcdClusters[i].EtcdMembers
		for j, m := range all {
			if m.InstanceGroup != nil && *m.InstanceGroup == from.Name {
				all[j].Name, all[j].InstanceGroup = newcluster.MemberName(g.Name, all), &g.Name
			}
		}
	}
	return now, g
}

// checkSeats refuses a move that cannot be communicated to etcd's managers: one of the future members
// must have a name that no current member has.
func checkSeats(peers func(api.EtcdClusterSpec) []string, platform string, was, now *api.Cluster) error {
	for i, e := range now.Spec.EtcdClusters {
		if peers == nil || !slices.ContainsFunc(peers(e), func(name string) bool { return !slices.Contains(peers(was.Spec.EtcdClusters[i]), name) }) {
			return fault.New(fault.Permanent, "etcd members have no names of their own on %s, so a new member cannot replace another; create two more groups, and delete two old ones when the new members are healthy", platform)
		}
	}
	return nil
}

// groupsWithoutMember lists the control plane groups without a member of some etcd cluster.
func groupsWithoutMember(c *clusterstore.Contents) []string {
	var out []string
	for _, g := range c.Groups {
		if g.IsControlPlane() && slices.ContainsFunc(c.Spec.Spec.EtcdClusters, func(e api.EtcdClusterSpec) bool { return !hasMember(&e, g.Name) }) {
			out = append(out, g.Name)
		}
	}
	return out
}

// withoutGroups returns a cluster without some groups and their etcd members. It is an error if
// the rest is not a valid control plane.
func withoutGroups(was *clusterstore.Contents, groups []string) (*clusterstore.Contents, error) {
	now := was.Clone()
	gone := func(name string) bool { return slices.Contains(groups, name) }
	now.Groups = slices.DeleteFunc(now.Groups, func(g *api.InstanceGroup) bool { return gone(g.Name) })
	if !slices.ContainsFunc(now.Groups, (*api.InstanceGroup).IsControlPlane) && slices.ContainsFunc(was.Groups, (*api.InstanceGroup).IsControlPlane) {
		return nil, fmt.Errorf("%s is the last group of the control plane; to delete the cluster, run `kops delete cluster %s`", strings.Join(groups, ", "), was.Spec.Name)
	}
	for i := range now.Spec.Spec.EtcdClusters {
		e := &now.Spec.Spec.EtcdClusters[i]
		had := len(e.EtcdMembers)
		e.EtcdMembers = slices.DeleteFunc(e.EtcdMembers, func(m api.EtcdMemberSpec) bool { return m.InstanceGroup != nil && gone(*m.InstanceGroup) })
		if n := len(e.EtcdMembers); n != had && n%2 == 0 {
			return nil, fmt.Errorf("without %s, etcd %s would have %d members, which tolerates no more failures than %d; delete two control plane groups at once",
				strings.Join(groups, ", "), e.Name, n, max(n-1, 0))
		}
	}
	return now, nil
}

// checkRenames refuses a change that would rename a remaining member for etcd's managers and its
// machine: where members are numbered, only the last one can be removed.
func checkRenames(peers func(api.EtcdClusterSpec) []string, was, now *api.Cluster) finding.List {
	var out finding.List
	if peers == nil {
		return nil
	}
	for i, e := range now.Spec.EtcdClusters {
		k := slices.IndexFunc(was.Spec.EtcdClusters, func(o api.EtcdClusterSpec) bool { return o.Name == e.Name })
		if k < 0 {
			continue
		}
		before, old := peers(was.Spec.EtcdClusters[k]), was.Spec.EtcdClusters[k].EtcdMembers
		for j, name := range peers(e) {
			n := slices.IndexFunc(old, func(m api.EtcdMemberSpec) bool {
				return m.InstanceGroup != nil && e.EtcdMembers[j].InstanceGroup != nil && *m.InstanceGroup == *e.EtcdMembers[j].InstanceGroup
			})
			if n >= 0 && before[n] != name {
				out = append(out, finding.Finding{Object: api.Name(now), Path: fmt.Sprintf("spec.etcdClusters[%d].etcdMembers[%d]", i, j), Value: *old[n].InstanceGroup, Rule: "etcd-member-change",
					Message: "is the member " + before[n] + ", and this change would rename it to " + name, Remedy: "keep its name and position in the list: remove members from the end, and add members at the end"})
			}
		}
	}
	return out
}

// removeControlPlanes removes control plane groups from a cluster: first from the store, then
// their members from etcd. It returns when no member needs their machines.
func (c *Client) removeControlPlanes(ctx context.Context, progress *reporter, lease *clusterstore.Lease, was, now *clusterstore.Contents) error {
	if _, err := c.store.Change(ctx, c.holder(), was, now); err != nil {
		return err
	}
	m, err := c.model(ctx, progress, UpdateOptions{Apply: true})
	if err != nil {
		return err
	}
	if err := c.writeSeats(ctx, m, UpdateOptions{}); err != nil {
		return err
	}
	have, err := m.Observe(ctx, false)
	if err != nil {
		return err
	}
	p, err := have.Plan(false)
	if err == nil { // its steps are not part of the deletion, which was shown
		err = apply(ctx, &reporter{cluster: progress.cluster}, lease, p, "apply")
	}
	if err != nil {
		return err
	}
	return c.awaitMembers(ctx, progress, m)
}

// awaitMembers waits until the etcd members match the spec.
func (c *Client) awaitMembers(ctx context.Context, progress *reporter, m *pipeline.Modelled) error {
	if err := progress.phase("members"); err != nil {
		return err
	}
	for start := c.cfg.World.Now(); ; {
		left, err := c.memberMoves(ctx, m)
		if err != nil || len(left) == 0 {
			return err
		}
		if c.cfg.World.Now().Sub(start) >= memberTime {
			return unsettledError(progress.cluster, left)
		}
		if err := c.cfg.World.Sleep(ctx, etcdPause); err != nil {
			return err
		}
	}
}
