package plan

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/resource"
)

type builder struct {
	want  *graph.Graph
	have  Snapshot
	kinds []resource.Any
	opts  Options

	byKey    map[named][]any // the observed objects of a name
	steps    []Step
	match    map[resource.Address]any   // the observed object taken for a wanted one
	owner    map[named]resource.Address // the wanted one, not shared, that has taken an object of the name
	taken    map[any]bool               // observed objects that a wanted one took
	apply    map[resource.Address]int   // the step that keeps, creates or updates
	holder   map[any]int                // the step that keeps or updates an observed object
	remove   map[any]int                // the step that deletes an observed object
	closing  []int                      // the steps that delete what lets somebody in and is not wanted
	deferred []Step
}

// named is the kind and the key that objects have in common.
type named struct{ kind, key string }

func newBuilder(want *graph.Graph, have Snapshot, kinds []resource.Any, o Options) *builder {
	b := &builder{want: want, have: have, kinds: kinds, opts: o, byKey: map[named][]any{},
		match: map[resource.Address]any{}, owner: map[named]resource.Address{}, taken: map[any]bool{},
		apply: map[resource.Address]int{}, holder: map[any]int{}, remove: map[any]int{}}
	for kind, list := range have {
		for _, o := range list {
			b.byKey[named{kind, o.Key}] = append(b.byKey[named{kind, o.Key}], o.Got)
		}
	}
	return b
}

func (b *builder) add(s Step) int {
	b.steps = append(b.steps, s)
	return len(b.steps) - 1
}

// known resolves a reference to an output that no step of the plan will change.
func (b *builder) known(a resource.Address, attr string) (string, bool) {
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

// decide makes the steps, without their order.
func (b *builder) decide() error {
	var errs []error
	for n := range b.want.All() {
		if err := b.decideNode(n); err != nil {
			errs = append(errs, err)
		}
	}
	for _, k := range b.kinds {
		for _, o := range b.have[k.KindName()] {
			if !b.taken[o.Got] {
				b.decideUnwanted(k, o)
			}
		}
	}
	return errors.Join(errs...)
}

func (b *builder) decideNode(n resource.Node) error {
	want := n.Kind.Schema().Resolved(n.Want, b.known)
	s := Step{Address: n.Address, Kind: n.Kind, Key: n.Kind.KeyOf(want), Want: want, Op: Create, Why: "does not exist", Lenient: n.Lenient}
	if n.Adopt != "" {
		return b.adopt(n, s)
	}
	got, changes := b.nearest(n.Kind, s.Key, want)
	if got != nil {
		b.match[n.Address], b.taken[got] = got, true
		if !n.Expect {
			b.owner[named{n.Address.Kind, s.Key}] = n.Address
		}
		s.Have, s.Changes, s.Op, s.Why = got, changes, Keep, ""
	}
	if n.Expect {
		return b.expect(n, s)
	}
	for _, c := range s.Changes {
		switch {
		case c.Mode == resource.Forbid:
			return fmt.Errorf("%s: %s cannot change from %q to %q; %s", n.Address,
				c.Leaves[0].Path, c.Leaves[0].Have, c.Leaves[0].Want, cmp.Or(n.Remedy, "undo the change, or delete and create it"))
		case c.Mode == resource.Replace && s.Op != Create:
			s.Op, s.Replaces, s.Why = Create, true, c.Field+" changed, which needs a new object"
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

// expect makes the step of an object that must exist and is left as it is.
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

// adopt makes the step of a shared object, which must exist.
func (b *builder) adopt(n resource.Node, s Step) error {
	for _, o := range b.have[n.Address.Kind] {
		found := false
		n.Kind.Schema().Identities(o.Got, func(id string) { found = found || id == n.Adopt })
		if found {
			s.Op, s.Why, s.Shared, s.Have, s.Key = Keep, "", true, o.Got, o.Key
			b.match[n.Address], b.taken[o.Got] = o.Got, true
			b.apply[n.Address] = b.add(s)
			b.holder[o.Got] = b.apply[n.Address]
			return nil
		}
	}
	return fmt.Errorf("%s: the shared object %s does not exist, or is not visible with these credentials", n.Address, n.Adopt)
}

// decideUnwanted deletes an observed object that no node took: a leftover of a
// wanted one, what lets somebody in and what nothing uses at once, another only when pruning.
func (b *builder) decideUnwanted(k resource.Any, o resource.Object) {
	s := Step{Address: resource.Address{Kind: k.KindName(), Name: o.Key}, Kind: k, Key: o.Key, Op: Delete, Have: o.Got, Why: "not in the desired state"}
	if a, ok := b.owner[named{k.KindName(), o.Key}]; ok {
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
		b.closing = append(b.closing, b.remove[o.Got])
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

// nearest picks, among the objects that have a wanted object's key, the one
// that needs the least change. The others are leftovers.
func (b *builder) nearest(k resource.Any, key string, want any) (got any, changes []resource.Change) {
	best := -1
	for _, o := range b.byKey[named{k.KindName(), key}] {
		if b.taken[o] {
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

// identity joins an object's identities, so that ties are broken the same way in any order of the
// objects.
func identity(k resource.Any, obj any) string {
	var ids []string
	k.Schema().Identities(obj, func(id string) { ids = append(ids, id) })
	return strings.Join(ids, " ")
}
