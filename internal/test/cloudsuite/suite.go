package cloudsuite

import (
	"maps"
	"slices"
	"testing"

	"kops.local/kops/internal/test/clitest"
	"kops.local/kops/internal/test/turns"
)

// life is the part that every run has.
const life = "life"

// parts are the parts of the suite, in their order.
func parts() []part {
	return []part{
		{name: life, test: (*World).live},
		{name: "no names", test: (*World).liveNameless},
		{name: "large", test: (*World).liveLarge},
		{name: "neighbours", test: (*World).checkNeighbours},
		{name: "two updates at once", test: (*World).updateTwice},
		{name: "throttled", test: (*World).checkThrottling},
		{name: "lost answers", test: (*World).checkLostAnswers},
		{name: "cut", test: (*World).checkCuts},
		{name: "cut and deleted", test: (*World).checkLeftovers},
		{name: "killed", test: (*World).checkKills},
		{"permissions", (*World).checkPermissions, func(c *Cloud) bool { return c.Deny != nil }},
		{"quotas", (*World).checkQuotas, func(c *Cloud) bool { return c.FillUp != nil }},
		{"machine type", (*World).checkMachineType, func(c *Cloud) bool { return c.NoType != "" }},
		{"blocked deletion", (*World).checkBlockedDeletion, func(c *Cloud) bool { return c.Block != nil }},
		{name: "machines", test: (*World).checkMachines},
	}
}

// part is a part of the suite, which gets an empty account.
type part struct {
	name string
	test func(*World)
	can  func(*Cloud) bool // whether the description has what it needs; nil: always
}

// partsOf returns the parts of the suite for a cloud.
func partsOf(c *Cloud) []part {
	out := parts()
	for _, title := range slices.Sorted(maps.Keys(c.Topologies)) {
		out = append(out, part{name: title, test: func(w *World) { w.liveIn(c.Topologies[title]) }})
	}
	for _, b := range c.Balancers {
		out = append(out, part{name: "a balancer comes and goes, " + b.Type, test: func(w *World) { w.changeBalancer(b) }})
	}
	for _, s := range c.Shared {
		out = append(out, part{name: "in a network of others, " + s.Title, test: func(w *World) { w.liveWith(s) }})
	}
	for _, title := range slices.Sorted(maps.Keys(c.Tests)) {
		out = append(out, part{name: title, test: c.Tests[title]})
	}
	return out
}

// Run tests a cloud.
func Run(t *testing.T, c *Cloud) {
	all, isMine := partsOf(c), func(string) bool { return true }
	c.checkNames(t, all)
	if c.Turns > 1 {
		isMine = turns.ItemsOfTurn(t, c.Turns)
	}
	for _, p := range all {
		switch {
		case c.Cannot[p.name] != "" || p.name != life && !isMine(p.name):
		case p.can != nil && !p.can(c):
			t.Errorf("the description lacks what the part %q needs: add it, or say in Cannot why not", p.name)
		default:
			t.Run(p.name, func(t *testing.T) { p.test(New(t, c)) })
		}
	}
}

// checkNames checks that what a description leaves out and adds belongs to parts of the suite.
func (c *Cloud) checkNames(t *testing.T, all []part) {
	changed := map[string]bool{roll: true}
	for _, round := range changes() {
		for _, x := range round {
			changed[x.title] = true
		}
	}
	for _, b := range c.Balancers {
		changed[balancer+b.Type] = true
	}
	for title := range c.Changed {
		if !changed[title] {
			t.Errorf("Changed names %q, which is no change", title)
		}
	}
	for what := range c.Budgets {
		if !slices.ContainsFunc(rows(), func(r row) bool { return r.what == what }) {
			t.Errorf("Budgets names %q, which is no row", what)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Cannot)) {
		if !changed[name] && !slices.ContainsFunc(all, func(p part) bool { return p.name == name }) {
			t.Errorf("Cannot names %q, which is no part", name)
		}
		t.Logf("NOT TESTED HERE: %s: %s", name, c.Cannot[name])
	}
}

// Benchmark prints the table of requests and time at 50 ms latency.
func Benchmark(b *testing.B, c *Cloud) {
	for b.Loop() {
		for _, measure := range []func(*World){(*World).measureSmall, (*World).measureNameless, (*World).measureLarge} {
			w := New(b, c)
			w.latency = benchLatency
			measure(w)
		}
	}
}

// Main runs the tests of a package. The suite kills this program where it runs as kops.
func Main(m *testing.M) { clitest.Main(m) }
