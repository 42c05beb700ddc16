package fakecloud

import (
	"context"
	"errors"
	"slices"
	"testing"

	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/test/kindtest"
)

func TestKinds(t *testing.T) {
	const cluster = "a.example.com"
	t.Run("network", func(t *testing.T) {
		kindtest.Run(t, &networks, New(), kindtest.Life[Network]{Cluster: cluster, Want: Network{Cluster: cluster, Name: cluster, CIDR: "10.0.0.0/8"}})
	})
	t.Run("balancer", func(t *testing.T) {
		kindtest.Run(t, &balancers, New(), kindtest.Life[Balancer]{Cluster: cluster,
			Want: Balancer{Cluster: cluster, Name: "api." + cluster, Network: resource.Lit("network-x")}})
	})
	t.Run("machines", func(t *testing.T) {
		text := func(s string) resource.Content { return resource.Text(resource.Lit(s)) }
		kindtest.Run(t, &machines, New(), kindtest.Life[Machines]{Cluster: cluster,
			Want: Machines{Cluster: cluster, Group: "nodes", Name: "nodes." + cluster, Network: resource.Lit("network-x"), Type: "small", Count: 1, Start: text("one")},
			Changes: []kindtest.Change[Machines]{
				{Name: "type", Do: func(m *Machines) { m.Type = "big" }},
				{Name: "count", Do: func(m *Machines) { m.Count = 3 }},
				{Name: "start", Do: func(m *Machines) { m.Start = text("two") }},
			}})
	})
}

func TestTheWorldObeysTests(t *testing.T) {
	w, ctx := New(), context.Background()
	a := &Network{Cluster: "a", Name: "a"}
	if err := networks.Create(ctx, w, a); err != nil {
		t.Fatal(err)
	}
	if err := networks.Create(ctx, w, &Network{Cluster: "b", Name: "a"}); err == nil {
		t.Error("two networks of one name")
	}
	id := w.AddNetwork("ours", "10.0.0.0/8")
	if got, want := w.Objects(), []string{"fake_network/a", "fake_network/ours"}; !slices.Equal(got, want) {
		t.Errorf("objects %q, want %q", got, want)
	}
	for _, c := range []struct {
		scope resource.Scope
		want  int
	}{{resource.Scope{Cluster: "a"}, 1}, {resource.Scope{Cluster: "b"}, 0}, {resource.Scope{Cluster: "b", Adopted: []string{id}}, 1}} {
		if got, err := networks.List(ctx, w, c.scope); err != nil || len(got) != c.want {
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
	if err := networks.Delete(ctx, w, a); !errors.Is(err, no) {
		t.Errorf("error %v", err)
	}
	if !w.Lose("fake_network/a") || w.Lose("fake_network/a") {
		t.Error("an object is lost once")
	}
}
