package exec_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
)

func TestLostAnswers(t *testing.T) {
	lost := fault.New(fault.Lost, "the connection broke")
	runInBubble(t, "a create whose answer was lost is not repeated when it took effect", func(t *testing.T, l *lab) {
		k := l.kind("k")
		l.does["create a"] = func(int) error { l.add(item{Name: "a"}); return lost }
		a := node(k, "a")
		x := l.try(t, kinds(k), false, a, node(k, "b", a))
		if err := x.Run(t.Context(), x.plan); err != nil {
			t.Fatal(err)
		}
		equal(t, "calls", []string{"create a", "list", "create b"}, l.callsOf(false, "create", "list"))
		if got := l.created[1].Uses.String(); got != "a-1" {
			t.Errorf("b uses %s", got)
		}
	})
	runInBubble(t, "it is repeated when it had no effect", func(t *testing.T, l *lab) {
		k := l.kind("k")
		l.does["create a"] = first(lost)
		x := l.try(t, kinds(k), false, node(k, "a"))
		if err := x.Run(t.Context(), x.plan); err != nil {
			t.Fatal(err)
		}
		equal(t, "calls", []string{"create a", "list", "create a"}, l.callsOf(false, "create", "list"))
	})
	runInBubble(t, "one of an earlier run that took effect late is found where the name is taken", func(t *testing.T, l *lab) {
		k := l.kind("k")
		l.does["create a"] = func(int) error {
			l.add(item{Name: "a"})
			return fault.New(fault.Taken, "a exists")
		}
		x := l.try(t, kinds(k), false, node(k, "a"))
		if err := x.Run(t.Context(), x.plan); err != nil {
			t.Fatal(err)
		}
		equal(t, "calls", []string{"create a", "list"}, l.callsOf(false, "create", "list"))
	})
	runInBubble(t, "a name that somebody else took is an error", func(t *testing.T, l *lab) {
		k := l.kind("k")
		l.does["create a"] = func(int) error { return fault.New(fault.Taken, "a exists") }
		x := l.try(t, kinds(k), false, node(k, "a"))
		if err := x.Run(t.Context(), x.plan); err == nil || !strings.Contains(err.Error(), "a exists") {
			t.Errorf("the run says %v", err)
		}
		equal(t, "calls", []string{"create a", "list"}, l.callsOf(false, "create", "list"))
	})
	runInBubble(t, "its post fields are still set", func(t *testing.T, l *lab) {
		k := l.kind("k")
		l.does["create a"] = func(int) error { l.add(item{Name: "a"}); return lost }
		x := l.try(t, kinds(k), false, k.New("a", item{Name: "a", Size: 2}))
		if err := x.Run(t.Context(), x.plan); err != nil {
			t.Fatal(err)
		}
		equal(t, "updates", []string{"update a uses= size=2"}, l.callsOf(false, "update"))
	})
	runInBubble(t, "a later throttled try still looks first", func(t *testing.T, l *lab) {
		k := l.kind("k")
		l.does["create a"] = func(int) error { l.add(item{Name: "a"}); return lost }
		l.does["list"] = first(fault.New(fault.Throttled, "slow down"), fault.New(fault.Throttled, "slow down"))
		x := l.try(t, kinds(k), false, node(k, "a"))
		if err := x.Run(t.Context(), x.plan); err != nil {
			t.Fatal(err)
		}
		equal(t, "creations", []string{"create a"}, l.callsOf(false, "create"))
	})
	runInBubble(t, "what becomes visible late is found after another failure", func(t *testing.T, l *lab) {
		k := l.kind("k")
		l.does["create a"] = func(n int) error {
			if n == 0 {
				time.AfterFunc(100*time.Millisecond, func() { l.mu.Lock(); defer l.mu.Unlock(); l.add(item{Name: "a"}) })
				return lost
			}
			return fault.New(fault.Throttled, "slow down")
		}
		x := l.try(t, kinds(k), false, node(k, "a"))
		if err := x.Run(t.Context(), x.plan); err != nil {
			t.Fatal(err)
		}
		equal(t, "calls", []string{"create a", "list", "create a", "list"}, l.callsOf(false, "create", "list"))
	})
	for _, first := range []bool{false, true} {
		runInBubble(t, fmt.Sprintf("neither the replaced object nor a leftover is taken for the new one, create first: %v", first), func(t *testing.T, l *lab) {
			k := l.kind("k")
			k.CreateFirst = first
			// The key does not include what requires the replacement.
			k.Key = func(i *item) string { return strings.TrimRight(i.Name, "0123456789") }
			l.add(item{Name: "a1"})
			l.add(item{Name: "a2"})
			tries := 0
			l.does["create a3"] = func(int) error {
				if tries++; tries == 1 {
					return lost
				}
				return nil
			}
			x := l.try(t, kinds(k), false, node(k, "a3"))
			_ = x.Run(t.Context(), x.plan)
			equal(t, "creations", 2, tries)
		})
	}
	runInBubble(t, "an object of another key is not taken for it, however alike", func(t *testing.T, l *lab) {
		k := l.kind("k")
		k.Key = func(i *item) string { return i.Uses.String() } // it can be changed in place
		l.does["create a"] = first(lost)
		x := l.try(t, kinds(k), false, k.New("a", item{Name: "a", Uses: resource.Lit("mine")}))
		l.add(item{Name: "a", Uses: resource.Lit("another's")})
		if err := x.Run(t.Context(), x.plan); err != nil {
			t.Fatal(err)
		}
		equal(t, "calls", []string{"create a", "list", "create a"}, l.callsOf(false, "create", "list", "update"))
	})
	runInBubble(t, "a deletion and an update whose answers were lost are repeated", func(t *testing.T, l *lab) {
		k := l.kind("k")
		l.add(item{Name: "a"})
		l.add(item{Name: "b"})
		l.does["delete a"], l.does["update b uses= size=1"] = first(lost), first(lost)
		x := l.try(t, kinds(k), true, k.New("b", item{Name: "b", Size: 1}))
		if err := x.Run(t.Context(), x.plan); err != nil {
			t.Fatal(err)
		}
		equal(t, "deletions", 2, l.count["delete a"])
		equal(t, "updates", 2, l.count["update b uses= size=1"])
	})
}

// A process that may no longer change anything stops before its next step, and before its next
// attempt.
func TestNothingIsDoneWithoutTheGuard(t *testing.T) {
	for name, tt := range map[string]struct {
		allowed int
		calls   []string
	}{"before a step": {2, []string{"create a"}}, "before a try": {3, []string{"create a", "create b"}}} {
		runInBubble(t, name, func(t *testing.T, l *lab) {
			k := l.kind("k")
			l.does["create b"] = first(fault.New(fault.NotYet, "busy"))
			a := node(k, "a")
			x := l.try(t, kinds(k), false, a, node(k, "b", a))
			gone := errors.New("another has the lease")
			ctx, end := context.WithCancelCause(t.Context())
			asked := 0
			x.Guard = func(context.Context) error {
				if asked++; asked > tt.allowed {
					end(gone)
					return gone
				}
				return nil
			}
			if err := x.Run(ctx, x.plan); !errors.Is(err, gone) || !strings.Contains(err.Error(), "stopped after 1 of 2 changes: ") {
				t.Errorf("got %v", err)
			}
			equal(t, "calls", tt.calls, l.callsOf(false, "create"))
		})
	}
}
