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
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/servers"
)

// Subject is a fleet to be tested.
type Subject[T, C any] struct {
	// Fleet is tested with Base, which is the base of its kind.
	Fleet *servers.Fleet[T, C]
	Base  resource.Kind[T, C]
	// Machines and Others are as for Fleet.Kind.
	Machines, Others []string
	// New returns an empty cloud.
	New func(testing.TB) C
	// Want returns a group of a cluster in that cloud, with servers of one of two types.
	Want func(c C, cluster, group string, least, most int, small bool, userData string) *T
}

// Run tests a fleet.
func Run[T, C any](t *testing.T, s Subject[T, C]) {
	t.Run("Life", func(t *testing.T) { s.life(t) })
	t.Run("Roll", func(t *testing.T) { s.roll(t) })
	t.Run("Cut", func(t *testing.T) { s.cut(t) })
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
	fleet := *s.Fleet
	return &trial[T, C]{t, s, s.New(t), &fleet, fleet.Kind(s.Base, s.Machines, s.Others).Erase()}
}

// intercept makes the fleet's writes go through before and after, which may fail; its kind is declared
// anew.
func (w *trial[T, C]) intercept(before, after func() error) {
	around := func(do func() error) error {
		if err := before(); err != nil {
			return err
		}
		if err := do(); err != nil {
			return err
		}
		return after()
	}
	f := *w.of.Fleet
	g := f
	g.Start = func(ctx context.Context, c C, of *T, l servers.Launch) error {
		return around(func() error { return f.Start(ctx, c, of, l) })
	}
	g.Label = func(ctx context.Context, c C, s servers.Server, l map[string]string) error {
		return around(func() error { return f.Label(ctx, c, s, l) })
	}
	g.End = func(ctx context.Context, c C, s servers.Server) error {
		return around(func() error { return f.End(ctx, c, s) })
	}
	w.fleet, w.kind = &g, g.Kind(w.of.Base, w.of.Machines, w.of.Others).Erase()
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
			w, n := s.start(t), 0
			cut := func(when bool, err error) func() error {
				return func() error {
					if when {
						if n++; n == at+1 {
							return err
						}
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
			if n <= at {
				break
			}
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
