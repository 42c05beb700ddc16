package fakecloud

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/servers"
	"kops.local/kops/internal/platform/servers/serverstest"
	"kops.local/kops/internal/test/kindtest"
	"kops.local/kops/provider"
	"kops.local/kops/provider/value"
)

// internalKind returns the internal form of a public kind.
func internalKind(k interface{ As(target any) bool }) (out resource.Any) {
	k.As(&out)
	return out
}

func TestKinds(t *testing.T) {
	const cluster = "a.example.com"
	t.Run("network", func(t *testing.T) {
		kindtest.RunAny(t, internalKind(New().networks()), struct{}{}, kindtest.Life[Network]{Cluster: cluster, Want: Network{Cluster: cluster, Name: cluster, CIDR: "10.0.0.0/8"}})
	})
	t.Run("balancer", func(t *testing.T) {
		kindtest.RunAny(t, internalKind(New().balancers()), struct{}{}, kindtest.Life[Balancer]{Cluster: cluster,
			Want: Balancer{Cluster: cluster, Name: "api." + cluster, Network: value.Lit("network-x")}})
	})
	t.Run("machines", func(t *testing.T) {
		text := func(s string) value.Content { return value.Text(value.Lit(s)) }
		kindtest.RunAny(t, internalKind(New().machines()), struct{}{}, kindtest.Life[Machines]{Cluster: cluster,
			Want: Machines{Cluster: cluster, Group: "nodes", Name: "nodes." + cluster, Network: value.Lit("network-x"), Type: "small", Count: 1, Most: 3, Start: text("one")},
			Changes: []kindtest.Change[Machines]{
				{Name: "network", Do: func(m *Machines) { m.Network = value.Lit("network-y") }},
				{Name: "type", Do: func(m *Machines) { m.Type = "big" }},
				{Name: "count", Do: func(m *Machines) { m.Count = 3 }},
				{Name: "most", Do: func(m *Machines) { m.Count, m.Most = 1, 2 }},
				{Name: "start", Do: func(m *Machines) { m.Start = text("two") }},
			}})
	})
}

func TestTheWorldFollowsTests(t *testing.T) {
	w, ctx := New(), context.Background()
	a := &Network{Cluster: "a", Name: "a"}
	if err := w.networks().Create(ctx, a); err != nil {
		t.Fatal(err)
	}
	if err := w.networks().Create(ctx, &Network{Cluster: "b", Name: "a"}); err == nil {
		t.Error("two networks of one name")
	}
	id := w.AddNetwork("ours", "10.0.0.0/8")
	if got, want := w.Objects(), []string{"fake_network/a", "fake_network/ours"}; !slices.Equal(got, want) {
		t.Errorf("objects %q, want %q", got, want)
	}
	for _, c := range []struct {
		scope provider.Scope
		want  int
	}{{provider.Scope{Cluster: "a"}, 1}, {provider.Scope{Cluster: "b"}, 0}, {provider.Scope{Cluster: "b", Adopted: []string{id}}, 1}} {
		if got, err := w.networks().List(ctx, c.scope); err != nil || len(got) != c.want {
			t.Errorf("%+v: %d networks, %v", c.scope, len(got), err)
		}
	}
	no := errors.New("no")
	w.Refuse(func(verb, address string) error {
		if verb == "delete" && address == "fake_network/a" {
			return no
		}
		return nil
	})
	if err := w.networks().Delete(ctx, a); !errors.Is(err, no) {
		t.Errorf("error %v", err)
	}
	if !w.Lose("fake_network/a") || w.Lose("fake_network/a") {
		t.Error("an object is lost once")
	}
}

// A group exists as long as it has machines.
func TestGroupsFollowFromTheirMachines(t *testing.T) {
	w, ctx := New(), context.Background()
	k := internalKind(w.machines())
	group := func(name string, count int) *Machines {
		return &Machines{Cluster: "a", Group: name, Name: groupName("a", name), Network: value.Lit("network-x"), Type: "small", Count: count, Most: 2, Start: value.Text(value.Lit("#!/bin/sh"))}
	}
	if !k.Vacant(group("nodes", 0)) || k.Vacant(group("nodes", 1)) {
		t.Error("only a group without machines is not created")
	}
	for _, g := range []*Machines{group("nodes", 2), group("more", 1)} {
		if _, err := k.Create(ctx, struct{}{}, g); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := w.Objects(), []string{"fake_machines/more.a", "fake_machines/nodes.a"}; !slices.Equal(got, want) {
		t.Errorf("objects %q, want %q", got, want)
	}
	if !w.Lose("fake_machines/nodes.a") || w.Lose("fake_machines/nodes.a") {
		t.Error("a group is lost once")
	}
	no := errors.New("no")
	w.Refuse(func(verb, address string) error {
		if verb == "delete" && address == "fake_machines/more.a" {
			return no
		}
		return nil
	})
	left, err := k.Observe(ctx, struct{}{}, resource.Scope{Cluster: "a"})
	if err != nil || len(left) != 1 || left[0].Key != "more.a" || k.Holds(left[0].Got) != "1 machine" {
		t.Fatalf("left are %+v, %v", left, err)
	}
	if err := k.Delete(ctx, struct{}{}, left[0].Got); !errors.Is(err, no) {
		t.Errorf("error %v", err)
	}
}

func TestFleet(t *testing.T) {
	start := func(s string) value.Content { return value.Text(value.Lit(s)) }
	serverstest.Run(t, serverstest.Subject[Machines, struct{}]{
		Base:     resource.Kind[Machines, struct{}]{Name: machinesKind, API: "provider", Key: func(m *Machines) string { return m.Name }},
		Machines: []string{"Type", "Network", "Start"}, Others: []string{"Count", "Most"},
		New: func(testing.TB) (f *servers.Fleet[Machines, struct{}], _ struct{}) {
			New().fleet().As(&f)
			return f, struct{}{}
		},
		Want: func(_ struct{}, cluster, group string, least, most int, small bool, userData string) *Machines {
			m := &Machines{Cluster: cluster, Group: group, Name: groupName(cluster, group), Network: value.Lit("network-x"), Type: "big", Count: least, Most: most, Start: start(userData)}
			if small {
				m.Type = "small"
			}
			return m
		}})
}

// A machine that would be created differently now is marked as outdated, and a terminated
// machine is replaced by the next update.
func TestMachinesAreReplacedByAnUpdate(t *testing.T) {
	w, ctx := New(), context.Background()
	p := w.Provider()
	c := &api.Cluster{}
	c.Name = "a.example.com"
	spec := Machines{Cluster: c.Name, Group: "nodes", Name: "nodes." + c.Name, Network: value.Lit("network-x"), Type: "small", Count: 2, Start: value.Text(value.Lit("#!/bin/sh"))}
	k := w.machines()
	first := spec
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	update := func() {
		t.Helper()
		have, err := k.List(ctx, provider.Scope{Cluster: c.Name})
		ok(err)
		next := spec
		ok(k.Update(ctx, have[0], &next))
	}
	outdated := func() (out []string) {
		t.Helper()
		groups, err := p.Machines(ctx, c, nil)
		ok(err)
		for _, m := range groups[0].Machines {
			out = append(out, fmt.Sprint(m.Name, " ", m.Outdated))
		}
		return out
	}
	ok(k.Create(ctx, &first))
	spec.Type = "big"
	update()
	if got := outdated(); !slices.Equal(got, []string{"nodes-0 true", "nodes-1 true"}) {
		t.Errorf("after a change: %v", got)
	}
	made, err := p.Roll.Drift(ctx, c, []provider.Machine{{Name: "nodes-0"}, {Name: "absent"}})
	ok(err)
	var inside platform.Provider
	if p.As(&inside); inside.Fleet.Roll.Deregister != nil || inside.Fleet.Roll.Refills {
		t.Error("the platform can what it cannot")
	}
	served, err := inside.Fleet.Roll.Drift(ctx, nil, c, nil, []platform.Machine{{Name: "nodes-0"}})
	ok(err)
	if got := served["nodes-0"].Changes; !slices.Equal(got, []platform.Change{{Field: "spec.machineType", Have: "small", Want: "big"}}) {
		t.Errorf("inside it is made of %+v", served)
	}
	if len(made) != 1 || len(made["nodes-0"].Changes) != 1 || made["nodes-0"].Changes[0] != (provider.Change{Field: "spec.machineType", Have: "small", Want: "big"}) {
		t.Errorf("made of %+v", made)
	}
	ok(p.Roll.Terminate(ctx, c, provider.Machine{Name: "nodes-0"}))
	ok(inside.Fleet.Roll.Terminate(ctx, nil, c, platform.Machine{Name: "nodes-0"}))
	if have, err := k.List(ctx, provider.Scope{Cluster: c.Name}); err != nil || have[0].Count != 1 {
		t.Errorf("observed are %+v, %v", have, err)
	}
	update()
	if got := outdated(); !slices.Equal(got, []string{"nodes-0-2 false", "nodes-1 true"}) {
		t.Errorf("after an update: %v", got)
	}
	spec.Type = "small"
	update()
	if got := outdated(); !slices.Equal(got, []string{"nodes-0-2 true", "nodes-1 false"}) {
		t.Errorf("after the way back: %v", got)
	}
	spec.Count = 1
	update()
	ok(k.Delete(ctx, &first))
	ok(k.Create(ctx, &first))
	if got := outdated(); !slices.Equal(got, []string{"nodes-0-3 false", "nodes-1-2 false"}) {
		t.Errorf("created again: %v", got)
	}
}
