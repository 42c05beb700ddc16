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

// askTime bounds how long the API server is asked what machines run.
const askTime = 5 * time.Second

// Effect says what the machines that run will be behind in once the plan is carried out.
// There are none where nothing changes, before the first update, and where the platform
// shows no machines. The authority issues the certificate with which the API server is
// asked what machines run; nil: it is not asked.
func (p *Planned) Effect(ctx context.Context, authority *pki.Keyset) ([]stale.Machine, error) {
	if p.Plan.Empty() || p.Provider.Machines == nil || p.World.Offline || p.Places.Base.Store == nil {
		return nil, nil
	}
	listing, err := p.Places.Base.Listing(ctx)
	if err != nil || !slices.ContainsFunc(listing, func(i store.Info) bool { return i.Key == layout.Completed }) {
		return nil, err
	}
	in := stale.In{Groups: p.Cluster.Groups, InPlace: p.Provider.Roll.InPlace}
	var before revised
	var groups []string
	all, part := errgroup.WithContext(ctx)
	all.Go(func() (err error) {
		if in.Machines, err = p.Machines(part); err == nil {
			groups, err = p.running(part, &in, authority)
		}
		return err
	})
	all.Go(func() (err error) {
		before, err = p.revised(part)
		return err
	})
	if err := all.Wait(); err != nil {
		return nil, err
	}
	if p.before = &before; len(groups) == 0 {
		return nil, nil
	}
	if err := p.held(ctx, &in, groups, before); err != nil {
		return nil, err
	}
	p.inUse = in.InUse()
	return p.judged(ctx, in)
}

// running adds what the platform made the machines of, and what their nodes tell, and
// returns the groups of those that there are.
func (p *Planned) running(ctx context.Context, in *stale.In, authority *pki.Keyset) (groups []string, err error) {
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
		in.Made, err = p.made(part, outdated)
		return err
	})
	if authority != nil && (len(outdated) > 0 || !p.sure()) { // else all run what was applied last
		all.Go(func() error {
			in.Nodes = p.tellingNodes(part, authority)
			return nil
		})
	}
	return groups, all.Wait()
}

// tellingNodes are the nodes, whose machines tell what they run; none where they cannot be asked.
func (p *Planned) tellingNodes(ctx context.Context, authority *pki.Keyset) []corev1.Node {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	k := &Checkup{Opened: p.Opened, authority: authority, life: CheckupLife}
	nodes, err := k.nodes(ctx)
	if err != nil {
		return nil // then what the platform tells has to do
	}
	return nodes
}

// held adds what machines run, where the platform does not make them otherwise, and what
// they are to run after the plan.
func (p *Planned) held(ctx context.Context, in *stale.In, groups []string, before revised) error {
	wanted, was, touched := p.wantedFiles(), p.replaced(), p.touched()
	now, err := p.runsOf(ctx, groups, func(ctx context.Context, key string) ([]byte, error) {
		if text, ok := wanted[key]; ok {
			return text, nil
		}
		return p.applied(ctx, key) // the plan is of a part
	})
	if err != nil {
		return err
	}
	in.Applied, err = p.runsOf(ctx, groups, func(ctx context.Context, key string) ([]byte, error) {
		old, changed := was[key]
		switch {
		case !changed:
			return wanted[key], nil
		case old == nil:
			return p.applied(ctx, key)
		}
		return old, nil
	})
	if err != nil {
		return err
	}
	whole, err := before.ofCluster(p.Cluster.Spec)
	if err != nil {
		return err
	}
	in.Wanted, in.Kept = map[string]stale.Wanted{}, map[string][]byte{}
	for _, name := range groups {
		changes, err := before.ofGroup(p.Cluster.Group(name))
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
		in.Wanted[name] = stale.Wanted{Config: now[name].Config, Files: now[name].Files, Changes: changes, Touched: touched[name]}
	}
	return nil
}

// fileOf is the key below the cluster's folder of a managed file, and its text as far as it is known.
func (w *Wanted) fileOf(obj any) (key string, text []byte, ok bool) {
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
func (w *Wanted) wantedFiles() map[string][]byte {
	out := map[string][]byte{}
	for n := range w.Graph.All() {
		if key, text, ok := w.fileOf(n.Want); ok {
			out[key] = text
		}
	}
	return out
}

// replaced are the files that the plan writes or deletes, as they are, by their keys; nil
// is one whose text was not read.
func (p *Planned) replaced() map[string][]byte {
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

// touched are the groups of which the plan changes what the platform makes their machines of.
func (p *Planned) touched() map[string]bool {
	out, decided := map[string]bool{}, p.decided()
	for _, s := range p.Plan.Steps {
		if s.Op == plan.Keep || s.Have == nil || s.Want == nil {
			continue // no machine that runs is made of what is new, or goes
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

// decided are the values that only the update of a group's object will tell, such as the
// version of a launch template: the changes of that object say whether machines change.
func (p *Planned) decided() map[string]bool {
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

// revised are the objects as they were applied last.
type revised struct {
	cluster *api.Cluster
	groups  map[string]*api.InstanceGroup
}

// revised reads the newest revision that was applied; it is empty where there is none.
func (o *Opened) revised(ctx context.Context) (revised, error) {
	out := revised{groups: map[string]*api.InstanceGroup{}}
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

// ofGroup are the fields of a group that are not as they were applied last. What the
// configuration of its machines holds is compared there, and not here.
func (r revised) ofGroup(g *api.InstanceGroup) ([]platform.Change, error) {
	if g == nil || r.groups[g.Name] == nil {
		return nil, nil
	}
	return changed(api.KindInstanceGroup, r.groups[g.Name].Spec, g.Spec)
}

// ofCluster are the fields of the cluster that are not as they were applied last, and may
// be why machines are made otherwise.
func (r revised) ofCluster(c *api.Cluster) ([]platform.Change, error) {
	if r.cluster == nil {
		return nil, nil
	}
	all, err := changed(api.KindCluster, r.cluster.Spec, c.Spec)
	was, now := members(r.cluster), members(c)
	return slices.DeleteFunc(all, func(c platform.Change) bool {
		at := member.FindString(c.Field)
		return at != "" && was[at] != now[at] // it comes or goes, and the machines of the others stay
	}), err
}

// member is the path of a member of an etcd.
var member = regexp.MustCompile(`^spec\.etcdClusters\[[^]]*\]\.etcdMembers\[[^]]*\]`)

// members are the paths of all members of a cluster's etcds.
func members(c *api.Cluster) map[string]bool {
	out := map[string]bool{}
	for _, e := range c.Spec.EtcdClusters {
		for _, m := range e.EtcdMembers {
			out[fmt.Sprintf("spec.etcdClusters[%s].etcdMembers[%s]", e.Name, m.Name)] = true
		}
	}
	return out
}

// changed are the fields in which two specs of a kind differ, but for what is of the
// machines' configuration, which says it of each group by itself: workers may get a new
// version of Kubernetes later than others.
func changed(kind string, was, now any) ([]platform.Change, error) {
	all, err := stale.Changes(was, now)
	return slices.DeleteFunc(all, func(c platform.Change) bool {
		e, known := effects.Of(kind, c.Field)
		return known && e == effects.Restart || c.Field == "spec.kubernetesVersion"
	}), err
}

// keepConfigs keeps the node configurations that the plan writes, and those in whose place
// it does: machines may still run them.
func (p *Planned) keepConfigs(ctx context.Context) error {
	wanted, was := p.wantedFiles(), p.replaced()
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

// KeepConfigs keeps the node configurations of all groups, where another tool writes them.
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
