package exec_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/internal/engine/exec"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
)

// runInBubble runs a test in a synctest bubble, where waiting takes no time.
func runInBubble(t *testing.T, name string, f func(t *testing.T, l *lab)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { f(t, newLab()) })
	})
}

func equal(t *testing.T, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func node(k *resource.Kind[item, *lab], name string, uses ...resource.Node) resource.Node {
	n := k.New(name, item{Name: name})
	for _, u := range uses {
		n.Want.(*item).Uses = resource.Concat(n.Want.(*item).Uses, u.Out("id"))
	}
	return n
}

func kinds(ks ...*resource.Kind[item, *lab]) []*resource.Kind[item, *lab] { return ks }

func sorted(in []string) []string { return slices.Sorted(slices.Values(in)) }

func TestFailures(t *testing.T) {
	runInBubble(t, "a permanent error fails at once; what follows is skipped, the rest goes on", func(t *testing.T, l *lab) {
		k := l.kind("k")
		l.does["create a"] = func(int) error { return fault.Wrap(fault.Denied, errors.New("no permission"), "ask for it") }
		l.duration["create c"] = time.Second
		a, c := node(k, "a"), node(k, "c")
		x := l.try(t, kinds(k), false, a, node(k, "b", a), c, node(k, "d", c))
		err := x.Run(t.Context(), x.plan)
		var failed *exec.Error
		if !errors.As(err, &failed) || len(failed.Failed) != 1 || failed.Skipped != 1 || !fault.Is(err, fault.Denied) {
			t.Fatalf("error: %v", err)
		}
		equal(t, "message", "create k/a: no permission; ask for it\n1 change that depends on a failed change was not tried; run the command again to continue", err.Error())
		equal(t, "creations", []string{"create a", "create c", "create d"}, sorted(l.callsOf(false, "create")))
		equal(t, "events of a and b", []string{"failed create a: no permission", "skipped create b", "started create a"}, sorted(about(x.events, " a", " b")))
	})
	runInBubble(t, "every failure is told", func(t *testing.T, l *lab) {
		k := l.kind("k")
		for _, n := range []string{"a", "b"} {
			l.does["create "+n] = func(int) error { return errors.New("bad " + n) }
		}
		x := l.try(t, kinds(k), false, node(k, "a"), node(k, "b"))
		equal(t, "message", "create k/a: bad a\ncreate k/b: bad b", x.Run(t.Context(), x.plan).Error())
	})
	runInBubble(t, "a cause is told once, and only changes are counted", func(t *testing.T, l *lab) {
		k := l.kind("k")
		for _, n := range []string{"a", "b"} {
			l.does["create "+n] = func(int) error { return fault.Wrap(fault.Quota, errors.New("no more"), "ask for more") }
		}
		l.add(item{Name: "kept"})
		a, b := node(k, "a"), node(k, "b")
		kept := k.New("kept", item{Name: "kept"})
		kept.After = []resource.Address{a.Address}
		x := l.try(t, kinds(k), false, a, b, kept, node(k, "c", b))
		equal(t, "message", "create k/a, create k/b: no more; ask for more\n1 change that depends on a failed change was not tried; run the command again to continue",
			x.Run(t.Context(), x.plan).Error())
		equal(t, "events of kept", []string(nil), about(x.events, " kept"))
	})
	runInBubble(t, "what a lenient step may not do is told, and the rest goes on", func(t *testing.T, l *lab) {
		k := l.kind("k")
		l.add(item{Name: "a"})
		l.does["update a uses= size=1"] = func(int) error { return fault.New(fault.Denied, "no permission") }
		a := k.New("a", item{Name: "a", Size: 1})
		a.Lenient = true
		x := l.try(t, kinds(k), false, a, node(k, "b", a))
		if err := x.Run(t.Context(), x.plan); err != nil {
			t.Error(err)
		}
		equal(t, "events", []string{"denied modify a: no permission", "done create b", "started create b", "started modify a"}, sorted(x.events))
	})
	runInBubble(t, "deleting what is gone succeeds", func(t *testing.T, l *lab) {
		k := l.kind("k")
		l.add(item{Name: "a"})
		l.does["delete a"] = func(int) error { return fault.New(fault.Gone, "not found") }
		x := l.try(t, kinds(k), true)
		if err := x.Run(t.Context(), x.plan); err != nil {
			t.Error(err)
		}
	})
	runInBubble(t, "updating what is gone fails", func(t *testing.T, l *lab) {
		k := l.kind("k")
		l.add(item{Name: "a"})
		l.does["update a uses= size=1"] = func(int) error { return fault.New(fault.Gone, "not found") }
		x := l.try(t, kinds(k), false, k.New("a", item{Name: "a", Size: 1}))
		if err := x.Run(t.Context(), x.plan); !fault.Is(err, fault.Gone) {
			t.Errorf("error: %v", err)
		}
	})
	runInBubble(t, "a reference that no step provides is an error, and nothing is called", func(t *testing.T, l *lab) {
		k := l.kind("k")
		x := l.try(t, kinds(k), false, node(k, "b"))
		x.plan.Steps[0].Want = &item{Name: "b", Uses: resource.Out(resource.Address{Kind: "k", Name: "a"}, "id")}
		equal(t, "message", "create k/b: it needs k/a.id, which no step of the plan provides", x.Run(t.Context(), x.plan).Error())
		equal(t, "calls", []string(nil), l.calls)
	})
}

func about(events []string, names ...string) (out []string) {
	for _, e := range events {
		for _, n := range names {
			if strings.Contains(e+" ", n+" ") || strings.Contains(e, n+":") {
				out = append(out, e)
				break
			}
		}
	}
	return out
}
