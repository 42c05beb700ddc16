package exec_test

import (
	"testing"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/resource"
)

func TestOrder(t *testing.T) {
	runInBubble(t, "a step starts when its own predecessors are done, not in waves", func(t *testing.T, l *lab) {
		k := l.kind("k")
		a, slow := node(k, "a"), node(k, "slow")
		b := node(k, "b", a)
		l.duration["create a"], l.duration["create b"], l.duration["create slow"] = time.Second, time.Second, 10*time.Second
		x := l.try(t, kinds(k), false, a, slow, b, node(k, "c", b))
		if err := x.Run(t.Context(), x.plan); err != nil {
			t.Fatal(err)
		}
		equal(t, "creations", []string{"0s create a", "0s create slow", "1s create b", "2s create c"}, sorted(l.callsOf(true, "create")))
	})
	runInBubble(t, "outputs of one step reach the next", func(t *testing.T, l *lab) {
		k := l.kind("k")
		a := node(k, "a")
		b := k.New("b", item{Name: "b", Uses: resource.Concat(resource.Lit("<"), a.Out("id"), resource.Lit(">"))})
		x := l.try(t, kinds(k), false, a, b)
		if err := x.Run(t.Context(), x.plan); err != nil {
			t.Fatal(err)
		}
		if got := l.created[1].Uses.String(); got != "<a-1>" {
			t.Errorf("b uses %s", got)
		}
	})
	runInBubble(t, "post fields are set after the creation and before the resource is waited for", func(t *testing.T, l *lab) {
		k := l.kind("k")
		l.does["ready a"] = first(fault.New(fault.NotYet, "pending"))
		x := l.try(t, kinds(k), false, k.New("a", item{Name: "a", Size: 3}))
		if err := x.Run(t.Context(), x.plan); err != nil {
			t.Fatal(err)
		}
		equal(t, "calls", []string{"create a", "update a uses= size=3", "ready a", "ready a"}, l.callsOf(false, "create", "update", "ready"))
	})
	runInBubble(t, "a volatile output is resolved after the update that changes it", func(t *testing.T, l *lab) {
		k := l.kind("k")
		l.add(item{Name: "a"})
		l.add(item{Name: "b", Uses: resource.Lit("0")})
		a := k.New("a", item{Name: "a", Size: 1})
		b := k.New("b", item{Name: "b", Uses: a.Out("version")})
		x := l.try(t, kinds(k), false, a, b)
		if err := x.Run(t.Context(), x.plan); err != nil {
			t.Fatal(err)
		}
		equal(t, "updates", []string{"update a uses= size=1", "update b uses=1 size=0"}, l.callsOf(false, "update"))
	})
	runInBubble(t, "a change that turns out not to be needed is not made", func(t *testing.T, l *lab) {
		k := l.kind("k")
		l.add(item{Name: "a"})
		l.add(item{Name: "b", Uses: resource.Lit("1")})
		a := k.New("a", item{Name: "a", Size: 1})
		x := l.try(t, kinds(k), false, a, k.New("b", item{Name: "b", Uses: a.Out("version")}))
		if err := x.Run(t.Context(), x.plan); err != nil {
			t.Fatal(err)
		}
		equal(t, "updates planned", 2, x.plan.Count(plan.Update))
		equal(t, "updates", []string{"update a uses= size=1"}, l.callsOf(false, "update"))
	})
	runInBubble(t, "a kept resource that a change uses is waited for; another is not asked", func(t *testing.T, l *lab) {
		k := l.kind("k")
		l.add(item{Name: "used"})
		l.add(item{Name: "alone"})
		l.does["ready used"] = first(fault.New(fault.NotYet, "pending"))
		used := node(k, "used")
		x := l.try(t, kinds(k), false, used, node(k, "alone"), node(k, "new", used))
		if err := x.Run(t.Context(), x.plan); err != nil {
			t.Fatal(err)
		}
		equal(t, "calls", []string{"ready used", "ready used", "create new", "ready new"}, l.callsOf(false, "create", "ready"))
		equal(t, "events", []string{"retrying keep used: pending", "done keep used", "started create new", "done create new"}, x.events)
	})
	runInBubble(t, "a shared resource is not asked whether it can be used", func(t *testing.T, l *lab) {
		k := l.kind("k")
		shared := k.Adopt("theirs", l.add(item{Name: "theirs"}).ID, item{Name: "theirs"})
		l.does["ready theirs"] = func(int) error { return fault.New(fault.Denied, "it is not yours") }
		x := l.try(t, kinds(k), false, shared, node(k, "new", shared))
		if err := x.Run(t.Context(), x.plan); err != nil {
			t.Fatal(err)
		}
		equal(t, "calls", []string{"create new", "ready new"}, l.callsOf(false, "create", "ready"))
	})
}
