package exec_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"kops.local/kops/internal/engine/exec"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
)

func TestLimits(t *testing.T) {
	many := func(k *resource.Kind[item, *lab], l *lab, took time.Duration) (out []resource.Node) {
		for i := range 40 {
			n := node(k, fmt.Sprintf("%s%02d", k.Name, i))
			l.duration["create "+n.Name] = took
			out = append(out, n)
		}
		return out
	}
	runInBubble(t, "each API has its own bound", func(t *testing.T, l *lab) {
		a, b := l.kind("a"), l.kind("b")
		x := l.try(t, kinds(a, b), false, append(many(a, l, time.Second), many(b, l, time.Second)...)...)
		x.Limits = exec.NewLimits(map[string]int{"a": 3}, 7)
		if err := x.Run(t.Context(), x.plan); err != nil {
			t.Fatal(err)
		}
		equal(t, "most calls at once", map[string]int{"a": 3, "b": 7}, l.maxBusy)
		if took := time.Since(l.start); took != 14*time.Second {
			t.Errorf("it took %s", took)
		}
	})
	runInBubble(t, "throttling lowers the bound, and successes raise it again", func(t *testing.T, l *lab) {
		k := l.kind("k")
		nodes := many(k, l, time.Second)
		x := l.try(t, kinds(k), false, nodes...)
		x.Limits = exec.NewLimits(nil, 8)
		var busyAt []int
		for _, n := range nodes { // their order is random
			l.does["create "+n.Name] = func(int) error {
				l.mu.Lock()
				defer l.mu.Unlock()
				if busyAt = append(busyAt, l.busy["k"]); len(busyAt) <= 8 {
					return fault.New(fault.Throttled, "slow down")
				}
				return nil
			}
		}
		if err := x.Run(t.Context(), x.plan); err != nil {
			t.Fatal(err)
		}
		if least := slices.Min(busyAt[8:20]); least > 2 {
			t.Errorf("after eight throttled calls there are still %d at once: %v", least, busyAt)
		}
		if most := slices.Max(busyAt[20:]); most < 6 {
			t.Errorf("the bound did not rise again: %v", busyAt)
		}
		if l.maxBusy["k"] > 8 {
			t.Errorf("%d calls at once", l.maxBusy["k"])
		}
	})
	runInBubble(t, "the longest chain goes first", func(t *testing.T, l *lab) {
		leaf, link := l.kind("leaf"), l.kind("link")
		leaf.API, link.API = "one", "one"
		nodes := many(leaf, l, time.Second)
		var chain []resource.Node
		for i := range 3 {
			n := node(link, fmt.Sprintf("link%d", i), chain[max(0, i-1):]...)
			l.duration["create "+n.Name] = time.Second
			chain = append(chain, n)
		}
		x := l.try(t, kinds(leaf, link), false, append(nodes, chain...)...)
		x.Limits = exec.NewLimits(nil, 2)
		if err := x.Run(t.Context(), x.plan); err != nil {
			t.Fatal(err)
		}
		// A step that another one waits for does not queue behind forty steps that nothing waits
		// for.
		creates := l.callsOf(false, "create")
		if at := slices.Index(creates, "create link1"); at > 12 {
			t.Errorf("the middle of the chain was call %d: %v", at, creates)
		}
	})
	runInBubble(t, "of those who wait, who most depends on goes first, and among equals who has waited longest", func(t *testing.T, l *lab) {
		early, busy := l.kind("early"), l.kind("busy")
		one, two := node(early, "one"), node(early, "two")
		l.duration["create one"], l.duration["create two"], l.duration["create first"] = time.Second, 2*time.Second, time.Minute
		nodes := []resource.Node{one, two, node(busy, "first")}
		follow := func(after resource.Node, names ...string) {
			for _, name := range names {
				nodes = append(nodes, node(busy, name, after))
			}
		}
		last := func() resource.Node { return nodes[len(nodes)-1] }
		follow(two, "late")
		follow(one, "wide", "short", "soon")
		wide, short := nodes[4], nodes[5]
		follow(wide, "wide1", "wide2", "wide3", "wide4", "wide5")
		follow(short, "short1")
		follow(last(), "short2")
		follow(one, "long")
		follow(last(), "long0", "long1")
		follow(last(), "long2")
		follow(last(), "long3")
		x := l.try(t, kinds(early, busy), false, nodes...)
		x.Limits = exec.NewLimits(map[string]int{"busy": 1}, 2)
		if err := x.Run(t.Context(), x.plan); err != nil {
			t.Fatal(err)
		}
		creates := slices.DeleteFunc(l.callsOf(false, "create"), func(c string) bool {
			return !slices.Contains([]string{"create long", "create short", "create wide", "create soon", "create late"}, c)
		})
		equal(t, "creates", []string{"create long", "create short", "create wide", "create soon", "create late"}, creates)
	})
	runInBubble(t, "a run that was stopped leaves the places to others", func(t *testing.T, l *lab) {
		k, other := l.kind("k"), l.kind("other")
		other.API = "k"
		x := l.try(t, kinds(k), false, many(k, l, time.Second)...)
		x.Limits = exec.NewLimits(nil, 8)
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		if err := x.Run(ctx, x.plan); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		start := time.Now()
		y := l.try(t, kinds(other), false, many(other, l, time.Second)...)
		y.Limits = x.Limits
		if err := y.Run(t.Context(), y.plan); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("forty calls of a second, eight at once, took %s", took)
		}
	})
}
