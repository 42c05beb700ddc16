package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/resource"
)

type builder struct {
	want  *graph.Graph
	have  Snapshot
	kinds []resource.Any
	opts  Options

	byKey        map[objectKey][]any // the observed objects with a name
	steps        []Step
	match        map[resource.Address]any       // the observed object matched to a wanted one
	owner        map[objectKey]resource.Address // the wanted, not shared, object that was matched to an object with the name
	matched      map[any]bool                   // observed objects that were matched to wanted ones
	apply        map[resource.Address]int       // the step that keeps, creates or updates
	holder       map[any]int                    // the step that keeps or updates an observed object
	remove       map[any]int                    // the step that deletes an observed object
	closingSteps []int                          // the steps that delete unwanted objects that only grant access
	deferred     []Step
}

// objectKey is the kind and the key that objects share.
type objectKey struct{ kind, key string }

func newBuilder(want *graph.Graph, have Snapshot, kinds []resource.Any, o Options) *builder {
	b := &builder{want: want, have: have, kinds: kinds, opts: o, byKey: map[objectKey][]any{},
		match: map[resource.Address]any{}, owner: map[objectKey]resource.Address{}, matched: map[any]bool{},
		apply: map[resource.Address]int{}, holder: map[any]int{}, remove: map[any]int{}}
	for kind, list := range have {
		for _, o := range list {
			b.byKey[objectKey{kind, o.Key}] = append(b.byKey[objectKey{kind, o.Key}], o.Got)
		}
	}
	return b
}

func (b *builder) add(s Step) int {
	b.steps = append(b.steps, s)
	return len(b.steps) - 1
}

// resolve resolves a reference to an output that no step of the plan changes.
func (b *builder) resolve(a resource.Address, attr string) (string, bool) {
	i, ok := b.apply[a]
	if !ok {
		return "", false
	}
	s := b.steps[i]
	if s.Op == Create || s.Op == Update && s.Kind.Schema().Volatile(attr) {
		return "", false
	}
	return s.Kind.Schema().Attr(s.Have, attr)
}

// decide creates the steps, without their order.
func (b *builder) decide() error {
	var errs []error
	for n := range b.want.All() {
		err := b.decideNode(n)
		if err != nil && !slices.ContainsFunc(errs, func(e error) bool { return e.Error() == err.Error() }) {
			errs = append(errs, err)
		}
	}
	for _, k := range b.kinds {
		for _, o := range b.have[k.KindName()] {
			if !b.matched[o.Got] {
				b.decideUnwanted(k, o)
			}
		}
	}
	return errors.Join(errs...)
}

func (b *builder) decideNode(n resource.Node) error {
	want := n.Kind.Schema().Resolved(n.Want, b.resolve)
	s := Step{Address: n.Address, Kind: n.Kind, Key: n.Kind.KeyOf(want), Want: want, Op: Create, Why: "does not exist", Lenient: n.Lenient}
	if n.Adopt != "" {
		return b.adopt(n, s)
	}
	got, changes := b.nearest(n.Kind, s.Key, want)
	switch {
	case got == nil && n.Kind.Vacant(want):
		return nil
	case got != nil:
		b.match[n.Address], b.matched[got] = got, true
		if !n.Expect {
			b.owner[objectKey{n.Address.Kind, s.Key}] = n.Address
		}
		s.Have, s.Changes, s.Op, s.Why = got, changes, Keep, ""
	}
	if n.Expect {
		return b.expect(n, s)
	}
	for _, c := range s.Changes {
		switch {
		case c.Mode == resource.Forbid:
			return b.forbidden(n, want, c.Leaves[0])
		case c.Mode == resource.Replace && s.Op != Create:
			s.Op, s.Replaces, s.Why = Create, true, c.Field+" changed, so the resource must be replaced"
			b.remove[got] = b.add(Step{Address: n.Address, Kind: n.Kind, Key: s.Key, Op: Delete, Have: got, Why: s.Why})
		case s.Op == Keep:
			s.Op = Update
		}
	}
	i := b.add(s)
	b.apply[n.Address] = i
	if s.Op == Keep || s.Op == Update {
		b.holder[got] = i
	}
	return nil
}

// forbidden returns the error for a change that cannot be made. If the field should refer to a
// resource that was not found, the error is about that resource, and the same for all that refer to
// it.
func (b *builder) forbidden(n resource.Node, want any, l resource.Leaf) error {
	var of resource.Address
	n.Kind.Schema().EachRef(want, func(a resource.Address, attr string) {
		if resource.Out(a, attr).String() == l.Want {
			of = a
		}
	})
	i, decided := b.apply[of]
	switch {
	case of == resource.Address{} || decided && b.steps[i].Have != nil:
		return fmt.Errorf("%s: %s cannot change from %q to %q; %s", n.Address, l.Path, l.Have, l.Want, cmp.Or(n.Remedy, "undo the change, or delete and create it"))
	case !decided: // its own error says why
		return nil
	}
	for _, o := range b.have[of.Kind] {
		if !b.matched[o.Got] && hasIdentity(b.steps[i].Kind, o.Got, l.Have) {
			return fmt.Errorf("%s was not found: %s, to which resources of the cluster belong, has the name %q instead of %q; change its name back",
				of, l.Have, o.Key, b.steps[i].Key)
		}
	}
	return fmt.Errorf("%s was not found, but resources of the cluster belong to %s; undo the change to the spec, or, if only the name or the tags of %s were changed, change them back",
		of, l.Have, l.Have)
}

// hasIdentity reports whether an observed object has an identity.
func hasIdentity(k resource.Any, obj any, id string) bool {
	found := false
	k.Schema().Identities(obj, func(x string) { found = found || x == id })
	return found
}

// expect creates the step for an object that must exist and is left unchanged.
func (b *builder) expect(n resource.Node, s Step) error {
	if s.Have == nil {
		return fmt.Errorf("%s must already exist, because it is not part of this update, but it was not found", n.Address)
	}
	s.Op, s.Shared = Keep, true
	if len(s.Changes) > 0 && n.Exact {
		c := s.Changes[0].Leaves[0]
		return fmt.Errorf("%s must be up to date, because it is not part of this update, but its %s is %q instead of %q; update it first",
			n.Address, c.Path, c.Have, c.Want)
	}
	if len(s.Changes) > 0 {
		s.Why = "differs, and is left unchanged"
	}
	b.apply[n.Address] = b.add(s)
	b.holder[s.Have] = b.apply[n.Address]
	return nil
}

// adopt creates the step for a shared object, which must exist.
func (b *builder) adopt(n resource.Node, s Step) error {
	for _, o := range b.have[n.Address.Kind] {
		if hasIdentity(n.Kind, o.Got, n.Adopt) {
			s.Op, s.Why, s.Shared, s.Have, s.Key = Keep, "", true, o.Got, o.Key
			b.match[n.Address], b.matched[o.Got] = o.Got, true
			b.apply[n.Address] = b.add(s)
			b.holder[o.Got] = b.apply[n.Address]
			return nil
		}
	}
	return fmt.Errorf("%s: the shared object %s does not exist, or is not visible with these credentials", n.Address, n.Adopt)
}

// decideUnwanted deletes an observed object that no node was matched to. Leftovers of wanted
// objects, objects that only grant access and idle ones are deleted in any case, others only when
// pruning.
func (b *builder) decideUnwanted(k resource.Any, o resource.Object) {
	s := Step{Address: resource.Address{Kind: k.KindName(), Name: o.Key}, Kind: k, Key: o.Key, Op: Delete, Have: o.Got, Why: "not in the desired state"}
	if a, ok := b.owner[objectKey{k.KindName(), o.Key}]; ok {
		s.Address, s.Why = a, "left over from a replacement or an interrupted run"
		b.remove[o.Got] = b.add(s)
		return
	}
	if b.opts.Scope != nil && !b.opts.Scope(k, o.Got) {
		return
	}
	if k.Grants(o.Got) {
		s.Why = "access that is no longer wanted"
		b.remove[o.Got] = b.add(s)
		b.closingSteps = append(b.closingSteps, b.remove[o.Got])
		return
	}
	if idle, known := k.Idle(o.Got); known {
		if s.Why = "no longer used"; idle {
			b.remove[o.Got] = b.add(s)
		}
		return
	}
	if !b.opts.Prune {
		b.deferred = append(b.deferred, s)
		return
	}
	b.remove[o.Got] = b.add(s)
}

// nearest picks, among the objects with a wanted object's key, the one that needs the smallest
// change. The others are leftovers.
func (b *builder) nearest(k resource.Any, key string, want any) (got any, changes []resource.Change) {
	best := -1
	for _, o := range b.byKey[objectKey{k.KindName(), key}] {
		if b.matched[o] {
			continue
		}
		cs := k.Schema().Diff(want, o)
		cost := len(cs)
		for _, c := range cs {
			if c.Mode == resource.Replace || c.Mode == resource.Forbid {
				cost += 100
			}
		}
		if best < 0 || cost < best || cost == best && identity(k, o) < identity(k, got) {
			best, got, changes = cost, o, cs
		}
	}
	return got, changes
}

// identity joins an object's identities, to break ties independently of the order of the objects.
func identity(k resource.Any, obj any) string {
	var ids []string
	k.Schema().Identities(obj, func(id string) { ids = append(ids, id) })
	return strings.Join(ids, " ")
}
