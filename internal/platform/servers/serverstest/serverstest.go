// Package serverstest tests fleets of single machines: the life of a group, and every way in which an
// update of it can be interrupted. Each cloud runs it against its stand-in.
//
// It is for tests only, and must not know any cloud.
package serverstest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/servers"
)

// Subject is a fleet to be tested.
type Subject[T, C any] struct {
	// Base, Machines and Others are as for Fleet.Kind.
	Base             resource.Kind[T, C]
	Machines, Others []string
	// New returns an empty cloud, and its fleet.
	New func(testing.TB) (*servers.Fleet[T, C], C)
	// Want returns a group of a cluster in that cloud, with servers of one of two types.
	Want func(c C, cluster, group string, least, most int, small bool, userData string) *T
}

// Run tests a fleet.
func Run[T, C any](t *testing.T, s Subject[T, C]) {
	t.Run("Life", func(t *testing.T) { s.life(t) })
	t.Run("Roll", func(t *testing.T) { s.roll(t) })
	t.Run("Cut", func(t *testing.T) { s.cut(t) })
	t.Run("Lag", func(t *testing.T) { s.lag(t) })
	t.Run("Neighbours", func(t *testing.T) { s.neighbours(t) })
}

const cluster, group = "a.example.com", "nodes"

// trial is one cloud, and the fleet's kind there.
type trial[T, C any] struct {
	testing.TB
	of    Subject[T, C]
	cloud C
	fleet *servers.Fleet[T, C]
	kind  resource.Any
}

func (s Subject[T, C]) start(t testing.TB) *trial[T, C] {
	w := &trial[T, C]{TB: t, of: s}
	fleet, cloud := s.New(t)
	w.cloud = cloud
	w.use(*fleet)
	w.intercept(func() error { return nil }, func() error { return nil })
	return w
}

// use declares the kind again, with a fleet that never pauses.
func (w *trial[T, C]) use(f servers.Fleet[T, C]) {
	f.Pause = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	w.fleet, w.kind = &f, f.Kind(w.of.Base, w.of.Machines, w.of.Others).Erase()
}

// intercept makes the fleet's writes go through before and after, which may fail. It reports labels
// that clouds would not accept.
func (w *trial[T, C]) intercept(before, after func() error) {
	around := func(labels map[string]string, do func() error) error {
		for key, value := range labels {
			if wrong := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); len(wrong) > 0 {
				w.Errorf("the label %s has the value %q: %q", key, value, wrong)
			}
		}
		if err := before(); err != nil {
			return err
		}
		if err := do(); err != nil {
			return err
		}
		return after()
	}
	f := *w.fleet
	g := f
	g.Start = func(ctx context.Context, c C, of *T, l servers.Launch) error {
		return around(l.Labels, func() error { return f.Start(ctx, c, of, l) })
	}
	g.Label = func(ctx context.Context, c C, s servers.Server, l map[string]string) error {
		return around(l, func() error { return f.Label(ctx, c, s, l) })
	}
	g.End = func(ctx context.Context, c C, s servers.Server) error {
		return around(nil, func() error { return f.End(ctx, c, s) })
	}
	w.use(g)
}

// changes returns the fields in which a group differs; "missing" if it does not exist.
func (w *trial[T, C]) changes(want *T) string {
	w.Helper()
	objects, err := w.kind.Observe(w.Context(), w.cloud, resource.Scope{Cluster: cluster})
	if err != nil {
		w.Fatal(err)
	}
	for _, o := range objects {
		if o.Key == w.kind.KeyOf(want) {
			var out []string
			for _, c := range w.kind.Schema().Diff(want, o.Got) {
				out = append(out, c.Field)
			}
			return strings.Join(out, " ")
		}
	}
	return "missing"
}

// apply does what an update would do: it creates or changes the group.
func (w *trial[T, C]) apply(want *T) error {
	objects, err := w.kind.Observe(w.Context(), w.cloud, resource.Scope{Cluster: cluster})
	if err != nil {
		return err
	}
	for _, o := range objects {
		if o.Key == w.kind.KeyOf(want) {
			if changes := w.kind.Schema().Diff(want, o.Got); len(changes) > 0 {
				_, err = w.kind.Set(w.Context(), w.cloud, o.Got, want, changes)
			}
			return err
		}
	}
	_, err = w.kind.Create(w.Context(), w.cloud, want)
	return err
}

func (w *trial[T, C]) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// machines returns the machines of the group, sorted by name.
func (w *trial[T, C]) machines() []platform.Machine {
	w.Helper()
	all, err := w.fleet.Fleet().Machines(w.Context(), &platform.Session{Client: w.cloud}, clusterOf(cluster), nil)
	w.ok(err)
	for _, g := range all {
		if g.Name == group {
			return g.Machines
		}
	}
	return nil
}

func clusterOf(name string) *api.Cluster {
	c := &api.Cluster{}
	c.Name = name
	return c
}

// expect checks the number of machines, how many of them are outdated, and that an update would change
// nothing.
func (w *trial[T, C]) expect(what string, want *T, number, outdated int) {
	w.Helper()
	all := w.machines()
	n := 0
	for _, m := range all {
		if m.Outdated {
			n++
		}
	}
	if len(all) != number || n != outdated {
		w.Errorf("%s: %d machines, %d of them outdated; want %d and %d: %+v", what, len(all), n, number, outdated, all)
	}
	if c := w.changes(want); c != "" {
		w.Errorf("%s: an update would change %s", what, c)
	}
}

func (s Subject[T, C]) life(t *testing.T) {
	w := s.start(t)
	want := s.Want(w.cloud, cluster, group, 2, 3, true, "one")
	if c := w.changes(want); c != "missing" {
		t.Fatalf("before its creation: %s", c)
	}
	w.ok(w.apply(want))
	w.expect("created", want, 2, 0)
	names := map[string]bool{}
	for _, m := range w.machines() {
		if names[m.Name] = true; m.Name != m.Node || m.Group != group || m.Type == "" {
			t.Errorf("a machine is %+v", m)
		}
	}

	want = s.Want(w.cloud, cluster, group, 2, 3, true, "two")
	if c := w.changes(want); c == "" || c == "missing" {
		t.Errorf("other user data: %q changes", c)
	}
	w.ok(w.apply(want))
	w.expect("other user data", want, 2, 2)
	want = s.Want(w.cloud, cluster, group, 3, 3, false, "two")
	w.ok(w.apply(want))
	w.expect("another type, and one more", want, 3, 2)
	want = s.Want(w.cloud, cluster, group, 1, 1, false, "two")
	w.ok(w.apply(want))
	w.expect("two less", want, 1, 0) // outdated ones go first
	if all := w.machines(); len(all) == 1 && names[all[0].Name] {
		t.Errorf("the machine that stayed, %s, is one of the outdated ones", all[0].Name)
	}
	back := s.Want(w.cloud, cluster, group, 1, 1, true, "two")
	w.ok(w.apply(back))
	w.expect("marked", back, 1, 1)
	w.ok(w.apply(want))
	w.expect("as it was made", want, 1, 0)
	w.remove(want)
}

// remove deletes the group, and checks that nothing is left.
func (w *trial[T, C]) remove(want *T) {
	w.Helper()
	objects, err := w.kind.Observe(w.Context(), w.cloud, resource.Scope{Cluster: cluster, All: true})
	w.ok(err)
	for _, o := range objects {
		w.ok(w.kind.Delete(w.Context(), w.cloud, o.Got))
		w.ok(w.kind.Delete(w.Context(), w.cloud, o.Got)) // again
	}
	if c := w.changes(want); c != "missing" || len(w.machines()) > 0 {
		w.Errorf("after its deletion: %q, %+v", c, w.machines())
	}
}

// roll replaces a machine as a rolling update does: with a surge, and without.
func (s Subject[T, C]) roll(t *testing.T) {
	w := s.start(t)
	w.ok(w.apply(s.Want(w.cloud, cluster, group, 2, 2, true, "one")))
	want := s.Want(w.cloud, cluster, group, 2, 2, false, "two")
	w.ok(w.apply(want))
	session, f, old := &platform.Session{Client: w.cloud}, w.fleet.Fleet(), w.machines()
	drifts, err := f.Roll.Drift(t.Context(), session, clusterOf(cluster), nil, old)
	w.ok(err)
	for _, m := range old {
		var fields []string
		for _, c := range drifts[m.Name].Changes {
			fields = append(fields, c.Field)
		}
		if !slices.Contains(fields, "spec.machineType") || !slices.Contains(fields, "boot script") {
			t.Errorf("%s was made of something else in %v", m.Name, fields)
		}
	}
	for range 2 { // an interrupted roll repeats each call
		w.ok(f.Roll.Detach(t.Context(), session, clusterOf(cluster), old[0]))
	}
	w.ok(w.apply(want))
	w.expect("one is detached", want, 3, 2)
	for range 2 {
		w.ok(f.Roll.Terminate(t.Context(), session, clusterOf(cluster), old[0]))
	}
	w.expect("it has ended", want, 2, 1)
	w.ok(f.Roll.Terminate(t.Context(), session, clusterOf(cluster), old[1]))
	if c := w.changes(want); c == "" {
		t.Error("nothing would replace the other one")
	}
	w.ok(w.apply(want))
	w.expect("both are replaced", want, 2, 0)
	for _, m := range w.machines() {
		if m.Name == old[0].Name || m.Name == old[1].Name {
			t.Errorf("%s has the name of a machine that has ended", m.Name)
		}
	}
}

// cut interrupts updates at each write: before it, and after it without an answer. The next update has
// the same result as if there had been no interruption.
func (s Subject[T, C]) cut(t *testing.T) {
	for _, lost := range []bool{false, true} {
		for at := 0; ; at++ {
			w := s.start(t)
			var n atomic.Int32 // starts overlap
			cut := func(when bool, err error) func() error {
				return func() error {
					if when && int(n.Add(1)) == at+1 {
						return err
					}
					return nil
				}
			}
			gone := fault.New(fault.Permanent, "the program was ended")
			w.intercept(cut(!lost, gone), cut(lost, fault.New(fault.Lost, "no answer")))
			steps := []*T{s.Want(w.cloud, cluster, group, 2, 2, true, "one"), s.Want(w.cloud, cluster, group, 3, 3, false, "two"), s.Want(w.cloud, cluster, group, 1, 1, false, "two")}
			outdated := []int{0, 2, 0}
			for i, want := range steps {
				for tries := 0; w.apply(want) != nil; tries++ {
					if tries > 3 {
						t.Fatalf("cut at write %d: it does not converge", at)
					}
				}
				w.expect(fmt.Sprintf("cut at write %d, lost %v, step %d", at, lost, i), want, []int{2, 3, 1}[i], outdated[i])
			}
			if int(n.Load()) <= at {
				break
			}
		}
	}
}

// lag lets two lists miss each server that was started before them, and the cloud refuse every other
// server at first. There is still one for each that is missing.
func (s Subject[T, C]) lag(t *testing.T) {
	w := s.start(t)
	var mu sync.Mutex
	var started atomic.Int32
	hidden, tried := map[string]int{}, map[string]int{}
	f := *w.fleet
	g := f
	g.Start = func(ctx context.Context, c C, of *T, l servers.Launch) error {
		mu.Lock()
		hidden[l.Name] = 2
		tried[l.Name]++
		isRefused := tried[l.Name] == 1 && len(tried)%2 == 1
		mu.Unlock()
		if isRefused {
			return fault.New(fault.Throttled, "too many requests")
		}
		started.Add(1)
		return f.Start(ctx, c, of, l)
	}
	g.List = func(ctx context.Context, c C, cluster, group string) ([]servers.Server, error) {
		mu.Lock()
		defer mu.Unlock()
		all, err := f.List(ctx, c, cluster, group)
		return slices.DeleteFunc(slices.Clone(all), func(s servers.Server) bool {
			hidden[s.Name]--
			return hidden[s.Name] >= 0
		}), err
	}
	w.use(g)
	for _, size := range []int{4, 6} {
		want := s.Want(w.cloud, cluster, group, size, size, true, "one")
		_, err := w.kind.Create(t.Context(), w.cloud, want)
		for tries := 0; tries < 9 && fault.Of(err).Retryable(); tries++ {
			_, err = w.kind.Create(t.Context(), w.cloud, want)
		}
		w.ok(err)
		w.expect("started while lists lag", want, size, 0)
		if n := started.Load(); int(n) != size {
			t.Errorf("%d servers were started for %d", n, size)
		}
	}
}

// neighbours checks that a cluster whose name begins alike, and another group, are left alone.
func (s Subject[T, C]) neighbours(t *testing.T) {
	w := s.start(t)
	count := func(of string) map[string]int {
		all, err := w.fleet.List(t.Context(), w.cloud, of, "")
		w.ok(err)
		out := map[string]int{}
		for _, s := range all {
			if !s.Ending {
				out[s.Group]++
			}
		}
		return out
	}
	for _, of := range []string{cluster, "a.example.com.au", "xa.example.com"} {
		for _, g := range []string{group, group + "-2"} {
			_, err := w.kind.Create(t.Context(), w.cloud, s.Want(w.cloud, of, g, 1, 1, true, "one"))
			w.ok(err)
		}
	}
	want := s.Want(w.cloud, cluster, group, 2, 2, false, "two")
	w.ok(w.apply(want))
	if got := count(cluster); !maps.Equal(got, map[string]int{group: 2, group + "-2": 1}) {
		t.Errorf("the cluster has %v", got)
	}
	w.ok(w.kind.Delete(t.Context(), w.cloud, want))
	if got := count(cluster); !maps.Equal(got, map[string]int{group + "-2": 1}) {
		t.Errorf("without the group, the cluster has %v", got)
	}
	for _, of := range []string{"a.example.com.au", "xa.example.com"} {
		if got := count(of); !maps.Equal(got, map[string]int{group: 1, group + "-2": 1}) {
			t.Errorf("the neighbour %s has %v", of, got)
		}
	}
}
