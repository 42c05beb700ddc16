package fakecloud

import (
	"context"
	"errors"
	"slices"
	"testing"

	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/test/kindtest"
	"kops.local/kops/provider"
	"kops.local/kops/provider/value"
)

// inside is a kind as it serves inside.
func inside(k interface{ As(target any) bool }) (out resource.Any) {
	k.As(&out)
	return out
}

func TestKinds(t *testing.T) {
	const cluster = "a.example.com"
	t.Run("network", func(t *testing.T) {
		kindtest.RunAny(t, inside(New().networks()), struct{}{}, kindtest.Life[Network]{Cluster: cluster, Want: Network{Cluster: cluster, Name: cluster, CIDR: "10.0.0.0/8"}})
	})
	t.Run("balancer", func(t *testing.T) {
		kindtest.RunAny(t, inside(New().balancers()), struct{}{}, kindtest.Life[Balancer]{Cluster: cluster,
			Want: Balancer{Cluster: cluster, Name: "api." + cluster, Network: value.Lit("network-x")}})
	})
	t.Run("machines", func(t *testing.T) {
		text := func(s string) value.Content { return value.Text(value.Lit(s)) }
		kindtest.RunAny(t, inside(New().machines()), struct{}{}, kindtest.Life[Machines]{Cluster: cluster,
			Want: Machines{Cluster: cluster, Group: "nodes", Name: "nodes." + cluster, Network: value.Lit("network-x"), Type: "small", Count: 1, Start: text("one")},
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
