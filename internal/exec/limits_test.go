package exec_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"kops.local/kops/internal/exec"
	"kops.local/kops/internal/fault"
	"kops.local/kops/internal/resource"
)

func TestLimits(t *testing.T) {
	many := func(k *resource.Kind[item, *lab], l *lab, took time.Duration) (out []resource.Node) {
		for i := range 40 {
			n := node(k, fmt.Sprintf("%s%02d", k.Name, i))
			l.takes["create "+n.Name] = took
			out = append(out, n)
		}
		return out
	}
	bubble(t, "each API has its own bound", func(t *testing.T, l *lab) {
		a, b := l.kind("a"), l.kind("b")
		x := l.try(t, kinds(a, b), false, append(many(a, l, time.Second), many(b, l, time.Second)...)...)
		x.Limits = exec.NewLimits(map[string]int{"a": 3}, 7)
		if err := x.Run(t.Context(), x.plan); err != nil {
			t.Fatal(err)
		}
		equal(t, "most calls at once", map[string]int{"a": 3, "b": 7}, l.most)
		if took := time.Since(l.start); took != 14*time.Second {
			t.Errorf("it took %s", took)
		}
	})
	bubble(t, "throttling lowers the bound, and successes raise it again", func(t *testing.T, l *lab) {
		k := l.kind("k")
		nodes := many(k, l, time.Second)
		x := l.try(t, kinds(k), false, nodes...)
		x.Limits = exec.NewLimits(nil, 8)
		var busyAt []int
		for _, n := range nodes { // which of them comes first is a matter of chance
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
		if l.most["k"] > 8 {
			t.Errorf("%d calls at once", l.most["k"])
		}
	})
	bubble(t, "the longest chain goes first", func(t *testing.T, l *lab) {
		leaf, link := l.kind("leaf"), l.kind("link")
		leaf.API, link.API = "one", "one"
		nodes := many(leaf, l, time.Second)
		var chain []resource.Node
		for i := range 3 {
			n := node(link, fmt.Sprintf("link%d", i), chain[max(0, i-1):]...)
			l.takes["create "+n.Name] = time.Second
			chain = append(chain, n)
		}
		x := l.try(t, kinds(leaf, link), false, append(nodes, chain...)...)
		x.Limits = exec.NewLimits(nil, 2)
		if err := x.Run(t.Context(), x.plan); err != nil {
			t.Fatal(err)
		}
		// What another waits for does not wait for the forty that nothing waits for.
		creates := l.called(false, "create")
		if at := slices.Index(creates, "create link1"); at > 12 {
			t.Errorf("the middle of the chain was call %d: %v", at, creates)
		}
	})
}
