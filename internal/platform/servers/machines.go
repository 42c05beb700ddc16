package servers

import (
	"context"
	"maps"
	"slices"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform"
)

// Fleet returns the operations on the machines of running clusters. It has no Roll.Deregister and no
// Room, which clouds add where they can.
func (f *Fleet[T, C]) Fleet() platform.Fleet {
	return platform.Fleet{Machines: f.machines, Roll: platform.Roll{Surge: 1, Drift: f.drift, Detach: f.detach, Terminate: f.terminate}}
}

// servers returns the servers of a cluster that exist.
func (f *Fleet[T, C]) servers(ctx context.Context, s *platform.Session, c *api.Cluster) ([]Server, error) {
	all, err := f.List(ctx, s.Client.(C), c.Name, "")
	return choose(all, func(one Server) bool { return !one.Ending }), err
}

// machines lists the servers by group. Those of no group, or of one that no longer exists, are listed,
// too.
func (f *Fleet[T, C]) machines(ctx context.Context, s *platform.Session, c *api.Cluster, groups []*api.InstanceGroup) ([]platform.MachineGroup, error) {
	all, err := f.servers(ctx, s, c)
	if err != nil {
		return nil, err
	}
	var out platform.Grouping
	for _, g := range groups {
		if g.Spec.MinSize != nil {
			out.Group(g.Name).Target = int(*g.Spec.MinSize)
		}
	}
	counted := map[string]int{}
	for _, one := range all {
		if one.isCounted() {
			counted[one.Group]++
		}
		g := out.Group(one.Group)
		g.Target = max(g.Target, counted[one.Group]) // an autoscaler may have started more
		g.Machines = append(g.Machines, platform.Machine{Name: one.Name, Group: one.Group, Node: one.Name, Addresses: one.Addresses, Zone: one.Zone,
			Type: one.Made["spec.machineType"], State: one.State, Running: one.Running, Detached: one.IsDetached(), Outdated: one.IsOutdated(), Created: one.Created})
	}
	return slices.DeleteFunc(out.Groups(), func(g platform.MachineGroup) bool { return len(g.Machines) == 0 && g.Target == 0 }), nil
}

// drift returns what servers were made of, according to their labels.
func (f *Fleet[T, C]) drift(ctx context.Context, s *platform.Session, c *api.Cluster, _ []*api.InstanceGroup, asked []platform.Machine) (map[string]platform.Drift, error) {
	all, err := f.servers(ctx, s, c)
	if err != nil {
		return nil, err
	}
	out := map[string]platform.Drift{}
	for _, one := range all {
		if !slices.ContainsFunc(asked, func(m platform.Machine) bool { return m.Name == one.Name }) {
			continue
		}
		made, want := one.made(), one.wanted()
		d := platform.Drift{Config: decodeHash(made.config), Wanted: decodeHash(want.config)}
		for _, field := range slices.Sorted(maps.Keys(want.made)) {
			d.Add(field, made.made[field], want.made[field])
		}
		if made.config == want.config || made.config == "" {
			d.Add("boot script", short(made.userData), short(want.userData))
		}
		out[one.Name] = d
	}
	return out, nil
}

// short returns the beginning of the digest in a label value.
func short(label string) string {
	digest := decodeDigest(label)
	return digest[:min(8, len(digest))]
}

// find returns a server, or an error of class fault.Gone. One that is ending has the name only if no
// other has it.
func (f *Fleet[T, C]) find(ctx context.Context, s *platform.Session, c *api.Cluster, m platform.Machine) (Server, error) {
	all, err := f.List(ctx, s.Client.(C), c.Name, "")
	if err != nil {
		return Server{}, err
	}
	all = choose(all, func(one Server) bool { return one.Name == m.Name })
	i := slices.IndexFunc(all, func(one Server) bool { return !one.Ending })
	switch {
	case len(all) == 0:
		return Server{}, fault.New(fault.Gone, "the server %s does not exist", m.Name)
	case i < 0:
		return all[0], nil
	}
	return all[i], nil
}

// detach labels a server, so that its group no longer counts it, and the next update starts another one.
func (f *Fleet[T, C]) detach(ctx context.Context, s *platform.Session, c *api.Cluster, m platform.Machine) error {
	one, err := f.find(ctx, s, c, m)
	if err != nil || !one.isCounted() {
		return err
	}
	l := map[string]string{detachedLabel: ""}
	maps.Copy(l, one.Labels)
	return f.Label(ctx, s.Client.(C), one, l)
}

// terminate ends a server. An interrupted roll calls it again, so that it also waits for one that is
// ending.
func (f *Fleet[T, C]) terminate(ctx context.Context, s *platform.Session, c *api.Cluster, m platform.Machine) error {
	one, err := f.find(ctx, s, c, m)
	if err != nil {
		return fault.IgnoreGone(err)
	}
	return fault.IgnoreGone(f.End(ctx, s.Client.(C), one))
}
