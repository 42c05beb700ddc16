package sim

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/resource"
)

// TestEveryCrash interrupts one rich change before and after each of its writes.
func TestEveryCrash(t *testing.T) {
	for _, outcome := range []Outcome{DieBefore, DieAfter} {
		for k, more := 1, true; more; k++ {
			synctest.Test(t, func(t *testing.T) { more = crashAt(t, k, outcome) })
			if !more && k < 20 {
				t.Fatalf("the change makes %d writes only", k-1)
			}
		}
	}
}

// crashAt reports whether the change makes k writes; the next run must complete it.
func crashAt(t *testing.T, k int, outcome Outcome) bool {
	s := newStage(t, uint64(k), &tally{})
	s.converge(richGraph(t, 0), false, disturbance{})
	g, writes := richGraph(t, 1), 0
	s.wanted(g)
	p, err := s.plan(g, true)
	if err != nil {
		t.Fatal(err)
	}
	s.world.Fault = func(c Call) Outcome {
		if c.Verb != "list" && c.Verb != "ready" {
			if writes++; writes == k {
				return outcome
			}
		}
		return OK
	}
	if err = s.run(g, p); err == nil {
		return false
	}
	if !errors.Is(err, ErrDead) {
		t.Fatalf("write %d: %v", k, err)
	}
	s.converge(g, true, disturbance{})
	s.checkForeignUntouched()
	return true
}

// richGraph returns one of two graphs. Between them every kind of change happens: creations,
// updates, both kinds of replacement, removals.
func richGraph(t *testing.T, version int) *graph.Graph {
	t.Helper()
	v, g := fmt.Sprint(version), &graph.Graph{}
	add := func(n resource.Node) resource.Node {
		if err := g.Add(n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	net := add(NewNetwork(Network{Name: "main", CIDR: "10." + v + ".0.0/16", Tags: map[string]string{"v": v}}))
	sub := add(NewSubnet(Subnet{Name: "s" + v, Network: net.Out("id"), CIDR: "10.0.0.0/24", Public: true}))
	add(NewSubnet(Subnet{Name: "kept", Network: net.Out("id"), CIDR: "10.0.1.0/24"}))
	add(NewRule("rule", Rule{Subnet: sub.Out("id"), Port: 80}))
	gw := add(NewGateway(Gateway{Name: "gw", Network: net.Out("id")}))
	add(NewRoute(Route{Name: "r", Network: net.Out("id"), Target: gw.Out("id")}))
	replaced := add(NewTemplate(Template{Name: "replaced", Image: v}))
	updated := add(NewTemplate(Template{Name: "updated", Script: resource.Text(resource.Lit(v))}))
	add(NewGroup(Group{Name: "a", Template: replaced.Out("id"), Version: replaced.Out("version")}))
	add(NewGroup(Group{Name: "b", Template: updated.Out("id"), Version: updated.Out("version")}))
	add(NewVolume(Volume{Name: "v", Size: 1 + version, Encrypted: true}))
	add(NewVolume(Volume{Name: "only" + v}))
	return g
}
