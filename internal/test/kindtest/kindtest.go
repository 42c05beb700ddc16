// Package kindtest is the conformance suite of resource kinds: it takes one object of a kind
// through its life on a real server or an emulator, as the engine would, and checks that the
// observed object matches the desired one.
//
// It must not know any kind, and is for tests alone.
package kindtest

import (
	"context"
	"slices"
	"testing"
	"time"

	"kops.local/kops/internal/engine/clock"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
)

// Life is the life cycle of one object.
type Life[T any] struct {
	// Cluster is the cluster that the object belongs to.
	Cluster string
	// Want is the initial object, with resolved references.
	Want T
	// Changes are applied one after the other; each alters the desired object. Together with the fields
	// that are set right after creation they must cover every field that has a setter.
	Changes []Change[T]
	// Unseen names the fields whose changes the server cannot show, with the reason.
	Unseen map[string]string
	// Untested names the fields that Changes cannot cover, with the reason.
	Untested map[string]string
	// Unrepeated names the changes that the server refuses to make again from the same state, with the
	// reason: if their answer is lost, only the next run finds that they are made.
	Unrepeated map[string]string
	// OnlyNamed means that the object is only found when its key is requested,
	// and not among everything that belongs to the cluster.
	OnlyNamed bool
}

// Change is one change of the desired object.
type Change[T any] struct {
	Name string
	Do   func(want *T)
}

// Run takes the object through create, list, every change, and the deletion. The answer to each is lost
// once: then the engine looks for the created object, and repeats the others.
func Run[T, C any](t *testing.T, k *resource.Kind[T, C], client C, life Life[T]) {
	t.Helper()
	RunAny(t, k.Erase(), client, life)
}

// RunAny is Run for a kind whose client type is not known.
func RunAny[T any](t *testing.T, k resource.Any, client any, life Life[T]) {
	t.Helper()
	r := &run[T]{T: t, kind: k, client: client, life: life, seen: map[string]bool{}}
	if err := r.kind.Check(); err != nil {
		t.Fatal(err)
	}
	want := life.Want
	r.key = r.kind.KeyOf(&want)
	if got := r.observe(false); got != nil {
		t.Fatalf("%s %s exists before it is made", k.KindName(), r.key)
	}
	have := r.create(&want)
	for _, c := range life.Changes {
		c.Do(&want)
		have = r.change(c.Name, have, &want)
	}
	r.checkCoverage()
	if r.observe(true) == nil && !life.OnlyNamed {
		t.Errorf("%s %s is not among everything that belongs to the cluster", k.KindName(), r.key)
	}
	r.remove(have)
}

type run[T any] struct {
	*testing.T
	kind   resource.Any
	client any
	life   Life[T]
	key    string
	seen   map[string]bool // the fields that were set by a setter
}

// tries is the maximum number of retries after a transient error.
const tries = 100

// retry calls f like the engine: again after a transient error.
func (r *run[T]) retry(what string, f func() error) {
	r.Helper()
	var err error
	for range tries {
		if err = f(); err == nil || !fault.Of(err).Retryable() && (what == "create" || !fault.Is(err, fault.Lost)) {
			break
		}
		time.Sleep(20 * time.Millisecond) // a real server needs the time
	}
	if err != nil {
		r.Fatalf("%s: %s (%s)", what, err, fault.Of(err))
	}
}

// observe lists the kind and returns the object, or nil.
func (r *run[T]) observe(all bool) any {
	r.Helper()
	s := resource.Scope{Cluster: r.life.Cluster, All: all}
	if !all {
		s.Names = []string{r.key}
	}
	var list []resource.Object
	err := fault.Retry(context.Background(), clock.Sleep, func() (err error) { // a response may be lost
		list, err = r.kind.Observe(context.Background(), r.client, s)
		return err
	})
	if err != nil {
		r.Fatal(err)
	}
	list = slices.DeleteFunc(list, func(o resource.Object) bool { return o.Key != r.key })
	switch len(list) {
	case 0:
		return nil
	case 1:
		return list[0].Got
	}
	r.Fatalf("%d objects of the key %q", len(list), r.key)
	return nil
}

// checkEqual checks that the observed object is obj, with the same outputs.
func (r *run[T]) checkEqual(when string, obj any) {
	r.Helper()
	got := r.observe(false)
	if got == nil {
		r.Fatalf("%s: no object of the key %q is found", when, r.key)
	}
	for _, c := range r.withoutUnseen(r.kind.Schema().Diff(obj, got)) {
		r.Errorf("%s: %s differs: %+v", when, c.Field, c.Leaves)
	}
	for _, f := range r.kind.Schema().Fields {
		if f.Output == "" {
			continue
		}
		w, _ := r.kind.Schema().Attr(obj, f.Output)
		if g, _ := r.kind.Schema().Attr(got, f.Output); w != g {
			r.Errorf("%s: the output %s is %q, observed as %q", when, f.Name, w, g)
		}
	}
}

// withoutUnseen removes the changes that the server cannot show.
func (r *run[T]) withoutUnseen(cs []resource.Change) []resource.Change {
	return slices.DeleteFunc(cs, func(c resource.Change) bool { return r.life.Unseen[c.Field] != "" })
}

// create creates the object. It must be found immediately, by the outputs of the creating
// call, and be in the state that the kind declares for a new object.
func (r *run[T]) create(want *T) any {
	r.Helper()
	var made any
	r.retry("create", func() (err error) {
		made, err = r.kind.Create(context.Background(), r.client, r.kind.Schema().Clone(want))
		return err
	})
	r.checkEqual("after create, before the setters", made)
	r.checkFound(want)
	r.retry("ready", func() error { return r.kind.Ready(context.Background(), r.client, made) })
	return r.set("after the first setters", made, want, r.kind.Schema().Diff(want, made))
}

func (r *run[T]) set(when string, have, want any, changes []resource.Change) any {
	r.Helper()
	for _, c := range changes {
		if c.Mode != resource.Update && c.Mode != resource.Default {
			r.Fatalf("%s: %s cannot be changed in place", when, c.Field)
		}
		r.seen[c.Field] = true
	}
	var got any
	times := []string{when, when + ", again because the answer was lost"}
	if r.life.Unrepeated[when] != "" {
		times = times[:1]
	}
	for _, when := range times {
		r.retry(when, func() (err error) {
			got, err = r.kind.Set(context.Background(), r.client, have, want, changes)
			return err
		})
		r.checkEqual(when, got)
	}
	return got
}

// checkFound checks that a create whose answer is lost finds its object, and does not create another.
func (r *run[T]) checkFound(want any) {
	r.Helper()
	for _, c := range r.withoutUnseen(r.kind.Schema().Diff(want, r.observe(false))) {
		if c.Mode == resource.Replace || c.Mode == resource.Forbid {
			r.Errorf("after a create whose answer is lost, the object is not recognized by its %s: %+v", c.Field, c.Leaves)
		}
	}
}

func (r *run[T]) change(name string, have any, want *T) any {
	r.Helper()
	copied := r.kind.Schema().Clone(want)
	if r.kind.KeyOf(copied) != r.key {
		r.Fatalf("%s: the change makes it another object", name)
	}
	changes := r.kind.Schema().Diff(copied, r.observe(false))
	if len(changes) == 0 {
		r.Fatalf("%s: the change is not seen", name)
	}
	return r.set(name, have, copied, changes)
}

// checkCoverage reports the fields with a setter that was never called.
func (r *run[T]) checkCoverage() {
	r.Helper()
	for _, f := range r.kind.Schema().Fields {
		if (f.Mode == resource.Update || f.Mode == resource.Default || f.Post) && !r.seen[f.Name] && r.life.Untested[f.Name] == "" {
			r.Errorf("the setter of %s was not tested", f.Name)
		}
	}
	for _, reasons := range []map[string]string{r.life.Unseen, r.life.Untested} {
		for field, why := range reasons {
			r.Logf("changes of %s are NOT CHECKED here: %s", field, why)
		}
	}
	for name, why := range r.life.Unrepeated {
		if !slices.ContainsFunc(r.life.Changes, func(c Change[T]) bool { return c.Name == name }) {
			r.Errorf("Unrepeated names %q, which is no change", name)
		}
		r.Logf("%s is NOT REPEATED: %s", name, why)
	}
}

func (r *run[T]) remove(have any) {
	r.Helper()
	for _, when := range []string{"delete", "delete, again because the answer was lost"} {
		r.retry(when, func() error {
			err := r.kind.Delete(context.Background(), r.client, have)
			if fault.Is(err, fault.Gone) {
				return nil
			}
			return err
		})
		if r.observe(false) != nil || r.observe(true) != nil {
			r.Errorf("%s: the object is still there", when)
		}
	}
}
