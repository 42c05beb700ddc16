package pipeline

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model/managedfile"
	"kops.local/kops/internal/ops/stale"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/spec/effects"
	"kops.local/kops/internal/store"
)

// askTime limits how long it may take to find out from the API server what machines run.
const askTime = 5 * time.Second

// Effect returns how the running machines will differ from their desired state once the plan is
// applied. The result is empty if nothing changes, before the first update, and if the platform
// reports no machines. The authority issues the certificate with which the API server is queried
// for what machines run; if nil, it is not queried.
func (p *Planned) Effect(ctx context.Context, authority *pki.Keyset) ([]stale.Machine, error) {
	if p.Plan.Empty() || p.Provider.Fleet.Machines == nil || p.World.Offline || p.Places.Base.Store == nil {
		return nil, nil
	}
	listing, err := p.Places.Base.Listing(ctx)
	if err != nil || !slices.ContainsFunc(listing, func(i store.Info) bool { return i.Key == layout.Completed }) {
		return nil, err
	}
	in := stale.In{Groups: p.Cluster.Groups, Effects: p.Provider.Effects, InPlace: p.Provider.Fleet.Roll.InPlace}
	var before appliedObjects
	var groups []string
	all, part := errgroup.WithContext(ctx)
	all.Go(func() (err error) {
		if in.Machines, err = p.Machines(part); err == nil {
			groups, err = p.addMachines(part, &in, authority)
		}
		return err
	})
	all.Go(func() (err error) {
		before, err = p.readAppliedObjects(part)
		return err
	})
	if err := all.Wait(); err != nil {
		return nil, err
	}
	if p.applied = &before; len(groups) == 0 {
		return nil, nil
	}
	if err := p.addRunning(ctx, &in, groups, before); err != nil {
		return nil, err
	}
	p.inUse = in.InUse()
	return p.judge(ctx, in)
}

// addMachines adds what the platform created the machines with, and their nodes, and returns the
// groups that have machines.
func (p *Planned) addMachines(ctx context.Context, in *stale.In, authority *pki.Keyset) (groups []string, err error) {
	var outdated []platform.Machine
	for _, g := range in.Machines {
		for _, m := range g.Machines {
			if !slices.Contains(groups, m.Group) {
				groups = append(groups, m.Group)
			}
			if m.Outdated {
				outdated = append(outdated, m)
			}
		}
	}
	if len(groups) == 0 {
		return nil, nil
	}
	all, part := errgroup.WithContext(ctx)
	all.Go(func() (err error) {
		in.Drifts, err = p.drifts(part, outdated)
		return err
	})
	if authority != nil && (len(outdated) > 0 || !p.reportsAllOutdated()) { // otherwise all of them run what was last applied
		all.Go(func() error {
			in.Nodes = p.reportingNodes(part, authority)
			return nil
		})
	}
	return groups, all.Wait()
}

// reportingNodes returns the nodes, which report what their machines run; nil if they cannot be
// queried.
func (p *Planned) reportingNodes(ctx context.Context, authority *pki.Keyset) []corev1.Node {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	k := &Checkup{Opened: p.Opened, authority: authority, life: CheckupLife}
	nodes, err := k.nodes(ctx)
	if err != nil {
		return nil // the platform's report must suffice
	}
	return nodes
}

// addRunning adds what machines run, if the platform does not report otherwise, and what they
// should run after the plan.
func (p *Planned) addRunning(ctx context.Context, in *stale.In, groups []string, before appliedObjects) error {
	wanted, was, touched := p.wantedFiles(), p.replacedFiles(), p.touchedGroups()
	now, err := p.runningByGroup(ctx, groups, func(ctx context.Context, key string) ([]byte, error) {
		if text, ok := wanted[key]; ok {
			return text, nil
		}
		return p.readApplied(ctx, key) // the plan covers only a part
	})
	if err != nil {
		return err
	}
	in.Applied, err = p.runningByGroup(ctx, groups, func(ctx context.Context, key string) ([]byte, error) {
		old, changed := was[key]
		switch {
		case !changed:
			return wanted[key], nil
		case old == nil:
			return p.readApplied(ctx, key)
		}
		return old, nil
	})
	if err != nil {
		return err
	}
	whole, err := before.ofCluster(p.Provider.Effects, p.Cluster.Spec)
	if err != nil {
		return err
	}
	var marks marking
	if before.cluster != nil { // otherwise no record says which objects concern machines
		if marks, err = p.markingAddons(ctx, wanted, was); err != nil {
			return err
		}
	}
	in.Wanted, in.Kept = map[string]stale.Wanted{}, map[string][]byte{}
	for _, name := range groups {
		changes, err := before.ofGroup(p.Provider.Effects, p.Cluster.Group(name))
		if err != nil {
			return err
		}
		if touched[name] {
			changes = append(changes, whole...)
		}
		a := in.Applied[name]
		if a.Config != nil {
			in.Kept[a.Hash()] = a.Config
		}
		in.Wanted[name] = stale.Wanted{Config: now[name].Config, Files: now[name].Files, Changes: changes, Touched: touched[name], AddOns: marks.of(p.Cluster.Group(name))}
	}
	return nil
}

// fileOf returns the key of a managed file below the cluster's folder, and its text if known.
func (w *Desired) fileOf(obj any) (key string, text []byte, ok bool) {
	f, ok := obj.(*managedfile.File)
	at := w.World.Buckets.Location(w.Places.Base.URL)
	if !ok || f == nil || f.Store != at.Store {
		return "", nil, false
	}
	key, ok = strings.CutPrefix(f.Key, at.Prefix)
	if t, known := f.Content.Value().Known(); known {
		text = []byte(t)
	}
	return key, text, ok
}

// wantedFiles returns the desired files of the cluster's folder, by their keys.
func (w *Desired) wantedFiles() map[string][]byte {
	out := map[string][]byte{}
	for n := range w.Graph.All() {
		if key, text, ok := w.fileOf(n.Want); ok {
			out[key] = text
		}
	}
	return out
}

// replacedFiles returns the current texts of the files that the plan writes or deletes, by key; nil
// if a text was not read.
func (p *Planned) replacedFiles() map[string][]byte {
	out := map[string][]byte{}
	for _, s := range p.Plan.Steps {
		if s.Op == plan.Keep {
			continue
		}
		if key, _, ok := p.fileOf(s.Want); ok {
			out[key] = nil
		}
		if key, text, ok := p.fileOf(s.Have); ok && len(text) > 0 {
			out[key] = text
		}
	}
	return out
}

// touchedGroups returns the groups for which the plan changes what the platform creates machines
// from.
func (p *Planned) touchedGroups() map[string]bool {
	out, decided := map[string]bool{}, p.undecidedValues()
	for _, s := range p.Plan.Steps {
		if s.Op == plan.Keep || s.Have == nil || s.Want == nil {
			continue // existing machines do not depend on objects that are created or deleted
		}
		for _, c := range s.Changes {
			if slices.ContainsFunc(c.Leaves, func(l resource.Leaf) bool { return s.Kind.MakesMachines(l.Path) && !decided[l.Want] }) {
				out[s.Kind.Group(s.Have)] = true
			}
		}
	}
	delete(out, "")
	return out
}

// undecidedValues returns the values that are only known after the update of a group's object, such
// as the version of a launch template: the changes of that object decide whether machines change.
func (p *Planned) undecidedValues() map[string]bool {
	out := map[string]bool{}
	for _, s := range p.Plan.Steps {
		if s.Op != plan.Update || s.Kind.Group(s.Have) == "" {
			continue
		}
		for _, f := range s.Kind.Schema().Fields {
			if f.Volatile {
				out[resource.Out(s.Address, f.Output).String()] = true
			}
		}
	}
	return out
}

// appliedObjects are the objects as they were last applied.
type appliedObjects struct {
	cluster *api.Cluster
	groups  map[string]*api.InstanceGroup
}

// readAppliedObjects reads the newest applied revision; the result is empty if there is none.
func (o *Opened) readAppliedObjects(ctx context.Context) (appliedObjects, error) {
	out := appliedObjects{groups: map[string]*api.InstanceGroup{}}
	name := o.Cluster.Spec.Name
	numbers, err := o.World.Store.Revisions(ctx, name)
	if err != nil {
		return out, err
	}
	r, _, err := o.World.Store.LastApplied(ctx, name, numbers)
	if err != nil || r == nil {
		return out, err
	}
	objects, _, err := compat.Decode([]byte(r.Spec), compat.Options{Lenient: true})
	if err != nil {
		return out, fmt.Errorf("read revision %d of cluster %s: %w", r.Number, name, err)
	}
	for _, obj := range objects {
		switch x := obj.(type) {
		case *api.Cluster:
			out.cluster = x
		case *api.InstanceGroup:
			out.groups[x.Name] = x
		}
	}
	return out, nil
}

// ofGroup returns the fields of a group that differ from what was last applied. What is in the
// configuration of its machines is compared there, and not here.
func (r appliedObjects) ofGroup(t effects.Table, g *api.InstanceGroup) ([]platform.Change, error) {
	if g == nil || r.groups[g.Name] == nil {
		return nil, nil
	}
	return changedFields(t, api.KindInstanceGroup, r.groups[g.Name].Spec, g.Spec)
}

// ofCluster returns the fields of the cluster that differ from what was last applied, and that may
// affect how machines are created.
func (r appliedObjects) ofCluster(t effects.Table, c *api.Cluster) ([]platform.Change, error) {
	if r.cluster == nil {
		return nil, nil
	}
	all, err := changedFields(t, api.KindCluster, r.cluster.Spec, c.Spec)
	was, now := members(r.cluster), members(c)
	return slices.DeleteFunc(all, func(c platform.Change) bool {
		at := member.FindString(c.Field)
		return at != "" && was[at] != now[at] // a member was added or removed, which does not affect the others' machines
	}), err
}

// member matches the path of an etcd member.
var member = regexp.MustCompile(`^spec\.etcdClusters\[[^]]*\]\.etcdMembers\[[^]]*\]`)

// members returns the paths of all members of a cluster's etcds.
func members(c *api.Cluster) map[string]bool {
	out := map[string]bool{}
	for _, e := range c.Spec.EtcdClusters {
		for _, m := range e.EtcdMembers {
			out[fmt.Sprintf("spec.etcdClusters[%s].etcdMembers[%s]", e.Name, m.Name)] = true
		}
	}
	return out
}

// changedFields returns the fields in which two specs of a kind differ, except for those in the
// machines' configuration, which is compared for each group: workers may get a new version of
// Kubernetes later than others.
func changedFields(t effects.Table, kind string, was, now any) ([]platform.Change, error) {
	all, err := stale.Changes(t, was, now)
	return slices.DeleteFunc(all, func(c platform.Change) bool {
		e, known := t.Of(kind, c.Field)
		return known && e == effects.Restart || c.Field == "spec.kubernetesVersion"
	}), err
}

// keepConfigs keeps the node configurations that the plan writes, and those that it replaces:
// machines may still run them.
func (p *Planned) keepConfigs(ctx context.Context) error {
	wanted, was := p.wantedFiles(), p.replacedFiles()
	var texts [][]byte
	for _, g := range p.Cluster.Groups {
		key := layout.NodeConfig(string(g.Spec.Role), g.Name)
		old, changed := was[key]
		if !changed {
			continue
		}
		for _, text := range [][]byte{old, wanted[key]} {
			if len(text) > 0 {
				texts = append(texts, text)
			}
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return p.World.Store.KeepNodeConfigs(ctx, p.Cluster.Spec.Name, texts, p.inUse)
}

// KeepConfigs keeps the node configurations of all groups, if another tool writes them.
func (m *Modelled) KeepConfigs(ctx context.Context) error {
	wanted := m.wantedFiles()
	var texts [][]byte
	for _, g := range m.Cluster.Groups {
		if text := wanted[layout.NodeConfig(string(g.Spec.Role), g.Name)]; len(text) > 0 {
			texts = append(texts, text)
		}
	}
	return m.World.Store.KeepNodeConfigs(ctx, m.Cluster.Spec.Name, texts, nil)
}
