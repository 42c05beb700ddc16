package kops

import (
	"context"
	"fmt"
	"slices"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/finding"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/pipeline"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/newcluster"
	"kops.local/kops/internal/spec/validate"
	"kops.local/kops/internal/spec/versions"
	"kops.local/kops/internal/store/clusterstore"
)

// Clusters operates on the clusters of the state store, and all their objects.
type Clusters struct{ c *Client }

// Clusters returns the operations on the objects of clusters.
func (c *Client) Clusters() Clusters { return Clusters{c} }

// Names lists the names of the clusters in the store.
func (s Clusters) Names(ctx context.Context) ([]string, error) { return s.c.store.Names(ctx) }

// Get reads one cluster with its groups.
func (s Clusters) Get(ctx context.Context, name string) (*Cluster, error) {
	contents, err := s.c.store.Load(ctx, name)
	if err != nil {
		return nil, err
	}
	return newCluster(contents), nil
}

// OwnerOf returns the only cluster that has an instance group with the given name, or "".
func (s Clusters) OwnerOf(ctx context.Context, group string) (string, error) {
	owners, err := s.c.store.Owners(ctx, group)
	if err != nil || len(owners) != 1 {
		return "", err
	}
	return owners[0], nil
}

// List reads the named clusters, or all.
func (s Clusters) List(ctx context.Context, names ...string) ([]*api.Cluster, finding.List, error) {
	if len(names) > 0 {
		return s.c.store.ClustersNamed(ctx, names...)
	}
	all, warnings, err := s.c.store.Clusters(ctx)
	if err == nil && len(all) == 0 {
		err = fault.New(fault.Gone, "no clusters found in the state store %s", s.c.store.URL())
	}
	return all, warnings, err
}

// change is the effect of a set of objects on one cluster.
type change struct {
	stored *Cluster // nil if the cluster is new
	now    *clusterstore.Contents
	keys   []string // SSH public keys to add
	// dropped are the unknown fields of replaced objects.
	dropped finding.List
	// objects are the given objects, and done the result for each.
	objects []api.Object
	done    []Written
}

// Written is an object that was stored.
type Written struct {
	// Name is its name in messages, such as instancegroup/nodes; Cluster is its cluster.
	Name, Cluster string
	// Created means that it is new, Changed that its content differs from before.
	Created, Changed bool
	// Warnings are probable problems of the resulting cluster; they are attached to the first
	// object of each cluster.
	Warnings []finding.Finding
}

// Create stores new objects. If one is invalid or already exists, nothing is stored.
func (s Clusters) Create(ctx context.Context, objs []api.Object) ([]Written, error) {
	return s.c.storeAll(ctx, objs, func(ch *change, exists bool, name string) error {
		if exists {
			return fault.New(fault.Conflict, "%s already exists; change it with kops replace or kops edit; to finish an interrupted kops create, use kops replace --force", name)
		}
		return nil
	}, false)
}

// Replace replaces existing objects. With force, those that do not exist are
// created. If one is invalid, nothing is stored.
func (s Clusters) Replace(ctx context.Context, objs []api.Object, force bool) ([]Written, error) {
	return s.c.storeAll(ctx, objs, func(ch *change, exists bool, name string) error {
		if !exists && !force {
			return fault.New(fault.Gone, "%s does not exist; create it with kops create -f, or with option:Force", name)
		}
		return nil
	}, true)
}

// storeAll groups objects by cluster, checks the resulting clusters, and stores them.
func (c *Client) storeAll(ctx context.Context, objs []api.Object, allow func(ch *change, exists bool, name string) error, replace bool) ([]Written, error) {
	byCluster, order, err := c.changesOf(ctx, objs)
	if err != nil {
		return nil, err
	}
	for _, o := range objs {
		ch, err := changeOwning(byCluster, order, o)
		if err != nil {
			return nil, err
		}
		name := displayName(o)
		exists, err := ch.apply(o, replace)
		if err != nil {
			return nil, err
		}
		if err := allow(ch, exists, name); err != nil {
			return nil, err
		}
		ch.drop(o)
		ch.done = append(ch.done, Written{Name: name, Created: !exists})
		ch.objects = append(ch.objects, o)
	}
	for _, n := range order {
		warnings, err := c.check(ctx, byCluster[n])
		if err != nil {
			return nil, err
		}
		byCluster[n].done[0].Warnings = append(byCluster[n].dropped, warnings...)
	}
	var done []Written
	for _, n := range order {
		if err := c.save(ctx, byCluster[n]); err != nil {
			return done, err
		}
		done = append(done, byCluster[n].done...)
	}
	return done, nil
}

// drop allows that an object is replaced although its stored text has unknown fields.
func (ch *change) drop(o api.Object) {
	if ch.stored == nil {
		return
	}
	unread, _ := ch.stored.Unread(o)
	for _, f := range unread {
		if f.Rule == compat.UnknownField {
			f.Message += ", which is dropped"
			ch.dropped = append(ch.dropped, f)
			ch.now.Rewrite(o)
		}
	}
}

// changesOf reads the existing state of every cluster that the objects name.
func (c *Client) changesOf(ctx context.Context, objs []api.Object) (map[string]*change, []string, error) {
	if err := checkWritable(objs); err != nil {
		return nil, nil, err
	}
	out := map[string]*change{}
	var order []string
	clusters, _ := Named(objs)
	for _, o := range objs {
		n := clusterOf(o)
		if n == "" || out[n] != nil {
			continue
		}
		was, err := c.Clusters().Get(ctx, n)
		switch {
		case fault.Is(err, fault.Gone) && slices.Contains(clusters, n):
			out[n] = &change{now: &clusterstore.Contents{}}
		case err != nil:
			return nil, nil, fmt.Errorf("%s: %w", displayName(o), err)
		default:
			out[n] = &change{stored: was, now: was.stored().Clone()}
		}
		order = append(order, n)
	}
	return out, order, nil
}

// clusterOf returns the name of the cluster that an object is or belongs to.
func clusterOf(o api.Object) string {
	if _, ok := o.(*api.Cluster); ok {
		return o.GetName()
	}
	return o.GetLabels()[api.LabelCluster]
}

// checkWritable refuses objects that are given twice, and kinds that users cannot write.
func checkWritable(objs []api.Object) error {
	seen := map[string]bool{}
	for _, o := range objs {
		switch o.(type) {
		case *api.Keyset:
			return fmt.Errorf("%s: objects of this kind cannot be written by users", displayName(o))
		case *api.SSHCredential:
			continue // all keys of a cluster may have the same name
		}
		name := clusterOf(o) + " " + o.GetNamespace() + " " + o.GetObjectKind().GroupVersionKind().String() + " " + o.GetName()
		if seen[name] {
			return fmt.Errorf("%s is given twice; keep one of the two", displayName(o))
		}
		seen[name] = true
	}
	return nil
}

// changeOwning returns the change of the cluster that an object belongs to; an object that
// names no cluster belongs to the only one.
func changeOwning(byCluster map[string]*change, order []string, o api.Object) (*change, error) {
	name := clusterOf(o)
	if _, group := o.(*api.InstanceGroup); name == "" && len(order) == 1 && !group {
		name = order[0]
	}
	if _, ok := o.(*api.Cluster); ok && name == "" {
		return nil, finding.List{{Object: api.KindCluster, Path: "metadata.name", Rule: "name", Message: "is missing", Remedy: "specify the name of the cluster, such as cluster.example.com"}}
	}
	if byCluster[name] == nil {
		return nil, fmt.Errorf("%s: metadata.labels[%s] is needed: it names the cluster", displayName(o), api.LabelCluster)
	}
	return byCluster[name], nil
}

// apply adds an object to the new state of the cluster, and reports whether it existed before.
func (ch *change) apply(o api.Object, replace bool) (exists bool, err error) {
	switch x := o.(type) {
	case *api.Cluster:
		exists = ch.stored != nil
		ch.now.Spec = x
	case *api.InstanceGroup:
		i := slices.IndexFunc(ch.now.Groups, func(g *api.InstanceGroup) bool { return g.Name == x.Name })
		if exists = i >= 0; exists {
			ch.now.Groups[i] = x
		} else {
			ch.now.Groups = append(ch.now.Groups, x)
		}
	case *api.Host:
		i := slices.IndexFunc(ch.now.Hosts, func(h *api.Host) bool { return h.Name == x.Name })
		if exists = i >= 0; exists {
			ch.now.Hosts[i] = x
		} else {
			ch.now.Hosts = append(ch.now.Hosts, x)
		}
	case *api.SSHCredential:
		ch.keys = append(ch.keys, x.Spec.PublicKey)
		exists = replace // a key is added; existing ones stay
	default:
		i := slices.IndexFunc(ch.now.Additional, sameAs(o))
		if exists = i >= 0; exists {
			ch.now.Additional[i] = o
		} else {
			ch.now.Additional = append(ch.now.Additional, o)
		}
	}
	return exists, nil
}

// sameAs returns a function that reports whether an object is o, regardless of its content.
func sameAs(o api.Object) func(api.Object) bool {
	return func(a api.Object) bool {
		return a.GetName() == o.GetName() && a.GetNamespace() == o.GetNamespace() &&
			a.GetObjectKind().GroupVersionKind() == o.GetObjectKind().GroupVersionKind()
	}
}

// check pins and validates the new state of a cluster, and whether it may be changed to it. It
// returns warnings. A Cluster that was not changed is not pinned: its document stays as it is.
func (c *Client) check(ctx context.Context, ch *change) (finding.List, error) {
	if ch.now.Spec == nil {
		return nil, nil
	}
	if ch.stored != nil {
		same, err := c.store.SameCluster(ch.stored.Spec, ch.now.Spec)
		if err != nil {
			return nil, err
		}
		if same {
			given := ch.now.Spec.DeepCopy()
			defer func() { ch.now.Spec = given }()
		}
	}
	unpinned, err := c.pin(ctx, ch.now)
	if err != nil {
		return nil, err
	}
	for _, k := range ch.keys {
		if _, err := clusterstore.NewSSHKey(k); err != nil {
			return nil, err
		}
	}
	on := c.world.PlatformOf(ch.now.Spec)
	findings := append(c.checkPlatform(ch), c.world.OnlyHere(ch.now.Spec)...)
	applied := false
	if ch.stored != nil {
		if applied, err = c.wasApplied(ctx, ch.stored); err != nil {
			return nil, err
		}
	}
	if !applied {
		findings = append(findings, chooseBalancer(ch.now.Spec, &on.Traits)...)
	}
	findings = append(findings, validate.All(validate.Input{Platform: on.ForValidate(), Cluster: ch.now.Spec, Groups: ch.now.Groups, Features: c.world.Features})...)
	findings = append(findings, validate.NoEffect(&on.Traits, ch.now.Spec, ch.now.Groups)...)
	if ch.stored != nil {
		findings = append(findings, validate.Update(ch.stored.Spec, ch.now.Spec, func(string) bool { return applied })...)
		if applied {
			findings = append(findings, checkRenames(on.Traits.Model.Peers, ch.stored.Spec, ch.now.Spec)...)
		}
	}
	findings = append(findings, unpinned...)
	if err := findings.Err(); err != nil {
		return findings, err
	}
	// Objects can be stored while no other store can be reached: an update checks those.
	if f, err := c.store.Folders(ctx, ch.now.Spec, ch.now); err == nil {
		if err := f.CheckOwned(ctx, false); err != nil {
			return findings, err
		}
	}
	return findings, c.guardChange(ctx, ch)
}

// chooseBalancer sets a network load balancer for a new cluster whose spec names no class, because
// it is the only class left. An existing cluster may have a classic one: there validation refuses the spec.
func chooseBalancer(cluster *api.Cluster, on *traits.Traits) finding.List {
	lb := cluster.Spec.API.LoadBalancer
	if lb == nil || lb.Class != "" || !on.Has.BalancerClass {
		return nil
	}
	lb.Class = api.LoadBalancerNetwork
	return finding.List{{
		Object: api.Name(cluster), Path: "spec.api.loadBalancer.class", Value: string(lb.Class), Rule: "load-balancer-class", Warning: true,
		Message: "was not set, which meant a classic load balancer up to kOps 1.36; it is now set to the only supported class", Remedy: "write class: Network",
	}}
}

// checkPlatform returns a finding if there is no platform for the cluster. A stored cluster
// may be changed nevertheless: another program may use it.
func (c *Client) checkPlatform(ch *change) finding.List {
	id := ch.now.Spec.CloudProviderID()
	if _, err := c.world.Provider(string(id)); err == nil || id == "" {
		return nil
	}
	return finding.List{{
		Object: api.Name(ch.now.Spec), Path: "spec.cloudProvider", Value: string(id), Rule: "platform", Warning: ch.stored != nil,
		Message: "this version of kops cannot create clusters there", Remedy: "use " + diag.Or(c.world.Platforms()),
	}}
}

// pin sets the values that are stored so that later releases do not change them, and
// returns why some could not be set. The cloud is only queried for the ranges of a shared
// network.
func (c *Client) pin(ctx context.Context, now *clusterstore.Contents) (finding.List, error) {
	spec := now.Spec
	var ch *versions.Channel
	if spec.Spec.KubernetesVersion == "" {
		var err error
		if ch, err = c.world.Channel(ctx, spec.Spec.Channel); err != nil {
			return nil, fmt.Errorf("%w; or write spec.kubernetesVersion", err)
		}
	}
	in := c.world.Completion(now, nil, ch)
	done, findings := complete.AssignStored(in)
	if findings.Err() != nil && sharesNetwork(&spec.Spec.Networking) {
		opened, err := c.world.Open(ctx, now, pipeline.OpenOptions{})
		if err != nil {
			return nil, err
		}
		if in.Facts, err = opened.FactsOf(ctx, nil); err != nil {
			return nil, err
		}
		done, findings = complete.AssignStored(in)
	}
	now.Spec = done
	return findings, nil
}

// sharesNetwork reports whether a network or subnets are not the cluster's own.
func sharesNetwork(n *api.NetworkingSpec) bool {
	return n.NetworkID != "" || slices.ContainsFunc(n.Subnets, func(s api.ClusterSubnetSpec) bool { return s.ID != "" })
}

// Check checks a new cluster like Create, as far as its objects alone allow, and stores
// nothing. It returns the warnings, such as about fields without effect.
func (s Clusters) Check(ctx context.Context, cl *Cluster) (finding.List, error) {
	return s.c.check(ctx, &change{now: cl.stored().Clone()})
}

// save stores a checked change, and records which objects it changed.
func (c *Client) save(ctx context.Context, ch *change) error {
	var was *clusterstore.Contents
	if ch.stored != nil {
		was = ch.stored.stored()
	}
	saved, err := c.store.Change(ctx, c.holder(), was, ch.now)
	if err != nil {
		return err
	}
	for i, o := range ch.objects {
		ch.done[i].Cluster = saved.Spec.Name
		_, key := o.(*api.SSHCredential)
		ch.done[i].Changed = key || was == nil || !saved.SameDocument(was, o)
	}
	if len(ch.keys) == 0 {
		return nil
	}
	keys := make([]clusterstore.SSHKey, len(ch.keys))
	for i, text := range ch.keys {
		if keys[i], err = clusterstore.NewSSHKey(text); err != nil {
			return err
		}
	}
	_, err = c.addSSHKeys(ctx, saved, keys...)
	return err
}

// keep checks and stores a change of o, and of the objects beside.
func (c *Client) keep(ctx context.Context, ch *change, o api.Object, beside ...api.Object) (Written, error) {
	for _, o := range append([]api.Object{o}, beside...) {
		ch.objects, ch.done = append(ch.objects, o), append(ch.done, Written{Name: displayName(o)})
	}
	warnings, err := c.check(ctx, ch)
	if err != nil {
		return Written{}, err
	}
	err = c.save(ctx, ch)
	out := ch.done[0]
	out.Warnings = warnings
	for _, w := range ch.done {
		out.Changed = out.Changed || w.Changed
	}
	return out, err
}

// displayName returns the name of an object in messages: cluster/name.
func displayName(o api.Object) string {
	switch o.(type) {
	case *api.Cluster:
		return "cluster/" + o.GetName()
	case *api.InstanceGroup:
		return "instancegroup/" + o.GetName()
	case *api.Host:
		return "host/" + o.GetName()
	case *api.SSHCredential:
		return "sshpublickey/" + o.GetName()
	}
	return api.Name(o)
}

// SaveEdit stores the text of an edited object in place of the shown one. If the object
// was changed by another writer meanwhile, nothing is stored.
func (s Clusters) SaveEdit(ctx context.Context, cl *Cluster, shown api.Object, text []byte) (Written, error) {
	objs, _, err := compat.Decode(text, compat.Options{Exact: true})
	if err != nil {
		return Written{}, err
	}
	ch := &change{stored: cl, now: cl.stored().Clone()}
	if unread, _ := cl.Unread(shown); len(unread) > 0 {
		ch.now.Rewrite(shown)
	}
	found := false
	for _, o := range objs {
		same := o.GetName() == shown.GetName() && o.GetObjectKind().GroupVersionKind().Kind == shown.GetObjectKind().GroupVersionKind().Kind
		_, isCluster := o.(*api.Cluster)
		_, isGroup := o.(*api.InstanceGroup)
		if (isCluster || isGroup) && !same {
			return Written{}, fmt.Errorf("the edited text is %s, not %s; the kind and the name cannot be changed", displayName(o), displayName(shown))
		}
		found = found || same
		if _, err := ch.apply(o, true); err != nil {
			return Written{}, err
		}
	}
	if !found {
		return Written{}, fmt.Errorf("the edited text does not contain %s", displayName(shown))
	}
	return s.c.keep(ctx, ch, shown, objs...)
}

// ReadStored returns the stored text of a cluster or, if group is set, of the group, even if
// it cannot be parsed.
func (s Clusters) ReadStored(ctx context.Context, cluster, group string) (api.Object, string, error) {
	o := objectStub(cluster, group)
	text, err := s.c.store.Text(ctx, cluster, o)
	return o, text, err
}

// objectStub returns an object with only a name: a cluster, or a group of it.
func objectStub(cluster, group string) api.Object {
	if group == "" {
		c := &api.Cluster{}
		c.Name = cluster
		c.APIVersion, c.Kind = api.Group+"/"+api.V1Alpha2, api.KindCluster
		return c
	}
	g := &api.InstanceGroup{}
	g.Name = group
	g.APIVersion, g.Kind = api.Group+"/"+api.V1Alpha2, api.KindInstanceGroup
	return g
}

// RepairStored replaces the stored text of an object that cannot be parsed.
func (s Clusters) RepairStored(ctx context.Context, cluster string, o api.Object, text []byte) (Written, error) {
	if _, _, err := compat.Decode(text, compat.Options{Exact: true}); err != nil {
		return Written{}, err
	}
	contents, err := s.c.store.LoadWith(ctx, cluster, o, string(text))
	if err != nil {
		return Written{}, err
	}
	return s.c.Clusters().SaveEdit(ctx, newCluster(contents), o, text)
}

// SetFields sets and clears fields of one object of a cluster: spec.path=value,
// spec.path.
func (s Clusters) SetFields(ctx context.Context, cl *Cluster, obj api.Object, sets, unsets []string) (Written, error) {
	ch := &change{stored: cl, now: cl.stored().Clone()}
	var target api.Object = ch.now.Spec
	if g, ok := obj.(*api.InstanceGroup); ok {
		target = ch.now.Group(g.Name)
	}
	changed, findings := newcluster.Assign(target, sets, unsets)
	if err := findings.Err(); err != nil {
		return Written{}, err
	}
	if _, isGroup := obj.(*api.InstanceGroup); isGroup && changed.GetName() != obj.GetName() {
		return Written{}, fmt.Errorf("%s cannot be renamed to %s; create the new group, and delete the old one", displayName(obj), displayName(changed))
	}
	if _, err := ch.apply(changed, true); err != nil {
		return Written{}, err
	}
	return s.c.keep(ctx, ch, changed)
}
