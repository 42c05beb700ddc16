package graph_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/resource"
)

type testObject struct {
	Uses []resource.Value
	ID   string `res:"out,id" out:"id"`
}

func kind() *resource.Kind[testObject, any] { return &resource.Kind[testObject, any]{Name: "thing"} }

func node(name string, uses ...resource.Node) resource.Node {
	t := testObject{}
	for _, u := range uses {
		t.Uses = append(t.Uses, u.Out("id"))
	}
	return kind().New(name, t)
}

func names(g *graph.Graph) (out []string) {
	for n := range g.All() {
		out = append(out, n.Name)
	}
	return out
}

func TestNodesComeAfterWhatTheyReferTo(t *testing.T) {
	a := node("a")
	b := node("b", a)
	c := node("c")
	c.After = []resource.Address{b.Address}
	g := &graph.Graph{}
	if err := g.Add(a, b, c); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"a", "b", "c"}, names(g)); d != "" || g.Len() != 3 {
		t.Errorf("%d nodes: %s", g.Len(), d)
	}
	if n, ok := g.Get(b.Address); !ok || n.Name != "b" {
		t.Errorf("got %v %v", n.Address, ok)
	}
	if _, ok := g.Get(resource.Address{Kind: "thing", Name: "x"}); ok {
		t.Error("found what is not there")
	}
	for n := range g.All() {
		if n.Name == "a" {
			break // a loop may end early
		}
		t.Errorf("%s before a", n.Name)
	}
}

func TestWhatCannotBeAdded(t *testing.T) {
	a := node("a")
	self := node("self")
	self.Want = &testObject{Uses: []resource.Value{self.Out("id")}}
	wrong := node("b")
	wrong.Want = &testObject{Uses: []resource.Value{a.Out("colour")}}
	late := node("late")
	late.After = []resource.Address{{Kind: "role", Name: "r"}}
	for _, c := range []struct {
		name string
		add  []resource.Node
		want string
	}{
		{"twice", []resource.Node{a, a}, "thing/a is declared twice"},
		{"no name", []resource.Node{node("")}, "a resource of kind thing has no name"},
		{"forward reference", []resource.Node{node("b", a), a}, "thing/b refers to thing/a, which is not declared before it"},
		{"itself", []resource.Node{self}, "thing/self refers to thing/self, which is not declared before it"},
		{"an unknown output", []resource.Node{a, wrong}, "thing/b refers to thing/a.colour, and resources of that kind have no such output"},
		{"an unknown order", []resource.Node{late}, "thing/late refers to role/r, which is not declared before it"},
		{"two unknown references", []resource.Node{node("b", a, node("x"))}, "thing/b refers to thing/a, which is not declared before it\nthing/b refers to thing/x, which is not declared before it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := &graph.Graph{}
			if err := g.Add(c.add...); err == nil || err.Error() != c.want {
				t.Errorf("error %v, want %s", err, c.want)
			}
			if strings.Contains(strings.Join(names(g), " "), "b") {
				t.Error("a refused node is in the graph")
			}
		})
	}
}

func TestSelectKeepsOrderAndReferences(t *testing.T) {
	a, g := node("a"), &graph.Graph{}
	if err := g.Add(a, node("b", a), node("c")); err != nil {
		t.Fatal(err)
	}
	got := g.Select(func(n resource.Node) bool { return n.Name != "a" })
	if d := cmp.Diff([]string{"b", "c"}, names(got)); d != "" || got.Len() != 2 {
		t.Error(d)
	}
	b, _ := got.Get(resource.Address{Kind: "thing", Name: "b"})
	if d := cmp.Diff([]resource.Address{a.Address}, b.Refs()); d != "" {
		t.Error(d)
	}
	if g.Len() != 3 {
		t.Error("the original changed")
	}
}

func TestTheZeroGraphIsEmpty(t *testing.T) {
	var g graph.Graph
	if g.Len() != 0 || len(names(&g)) != 0 || g.Select(func(resource.Node) bool { return true }).Len() != 0 {
		t.Error("it holds something")
	}
}
