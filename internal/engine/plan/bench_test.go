package plan_test

import (
	"fmt"
	"testing"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/test/sim"
)

// many declares a network, and a number of groups with a subnet, a template and three rules each.
func many(b *testing.B, groups int) *graph.Graph {
	g := &graph.Graph{}
	add := func(n resource.Node) resource.Node {
		if err := g.Add(n); err != nil {
			b.Fatal(err)
		}
		return n
	}
	network := add(sim.NewNetwork(sim.Network{Name: "main", CIDR: "10.0.0.0/8"}))
	for i := range groups {
		name := fmt.Sprintf("nodes-%05d.a.example.com", i)
		s := add(sim.NewSubnet(sim.Subnet{Name: name, Network: network.Out("id"), CIDR: name, Zone: "a"}))
		t := add(sim.NewTemplate(sim.Template{Name: name, Image: "image", Script: resource.Text(resource.Lit(name))}))
		add(sim.NewGroup(sim.Group{Name: name, Template: t.Out("id"), Version: t.Out("version"), Subnets: []resource.Value{s.Out("id")}}))
		for port := range 3 {
			add(sim.NewRule(fmt.Sprint(name, port), sim.Rule{Subnet: s.Out("id"), Port: port}))
		}
	}
	return g
}

// existing returns a snapshot in which everything in the graph exists, but with another note or size.
func existing(g *graph.Graph) plan.Snapshot {
	ids := map[resource.Address]string{}
	lookup := func(a resource.Address, attr string) (string, bool) {
		if attr == "version" {
			return "1", true
		}
		return ids[a], true
	}
	have := plan.Snapshot{}
	for n := range g.All() {
		ids[n.Address] = fmt.Sprintf("%s-%d", n.Address.Kind, len(ids))
		got := n.Kind.Schema().Resolved(n.Want, lookup)
		switch x := got.(type) {
		case *sim.Network:
			x.ID = ids[n.Address]
		case *sim.Subnet:
			x.ID = ids[n.Address]
		case *sim.Template:
			x.ID, x.Version = ids[n.Address], 1
		case *sim.Group:
			x.ID, x.Size = ids[n.Address], 1
		case *sim.Rule:
			x.ID, x.Note = ids[n.Address], "another"
		}
		have[n.Address.Kind] = append(have[n.Address.Kind], resource.Object{Key: n.Kind.KeyOf(got), Got: got})
	}
	return have
}

// BenchmarkMake plans clusters of many groups: all new, all existing but changed, and half of them
// existing but not wanted. Ten times the groups should take ten times as long.
func BenchmarkMake(b *testing.B) {
	for _, groups := range []int{200, 2000} {
		g := many(b, groups)
		for _, c := range []struct {
			name string
			want *graph.Graph
			have plan.Snapshot
		}{{"create", g, plan.Snapshot{}}, {"update", g, existing(g)}, {"prune", many(b, groups/2), existing(g)}, {"delete", &graph.Graph{}, existing(g)}} {
			b.Run(fmt.Sprintf("%s/%d", c.name, groups), func(b *testing.B) {
				for b.Loop() {
					if _, err := plan.Make(c.want, c.have, sim.Kinds(), plan.Options{Prune: true}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
