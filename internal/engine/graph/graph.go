// Package graph holds desired resources, and the order that their references imply.
//
// It must not know how resources are observed, planned or rendered.
package graph

import (
	"errors"
	"fmt"
	"iter"

	"kops.local/kops/internal/engine/resource"
)

// Graph is a set of nodes. The zero Graph is empty.
type Graph struct {
	nodes map[resource.Address]resource.Node
	order []resource.Address
}

// Add adds nodes. References must be to nodes that were added earlier, possibly in the same call,
// and to outputs that their kinds have; so a graph cannot contain a cycle, and its order of
// addition is a valid order of creation.
func (g *Graph) Add(ns ...resource.Node) error {
	for _, n := range ns {
		if err := g.check(n); err != nil {
			return err
		}
		if g.nodes == nil {
			g.nodes = map[resource.Address]resource.Node{}
		}
		g.nodes[n.Address] = n
		g.order = append(g.order, n.Address)
	}
	return nil
}

func (g *Graph) check(n resource.Node) error {
	if n.Name == "" {
		return fmt.Errorf("a resource of kind %s has no name", n.Address.Kind)
	}
	if _, dup := g.nodes[n.Address]; dup {
		return fmt.Errorf("%s is declared twice", n.Address)
	}
	var errs []error
	for _, r := range n.Refs() {
		if _, ok := g.nodes[r]; !ok {
			errs = append(errs, fmt.Errorf("%s refers to %s, which is not declared before it", n.Address, r))
		}
	}
	n.Kind.Schema().EachRef(n.Want, func(a resource.Address, attr string) {
		used, ok := g.nodes[a]
		if !ok {
			return
		}
		if _, ok := used.Kind.Schema().Output(attr); !ok {
			errs = append(errs, fmt.Errorf("%s refers to %s.%s, and resources of that kind have no such output", n.Address, a, attr))
		}
	})
	return errors.Join(errs...)
}

// All yields the nodes, each after the nodes it refers to.
func (g *Graph) All() iter.Seq[resource.Node] {
	return func(yield func(resource.Node) bool) {
		for _, a := range g.order {
			if !yield(g.nodes[a]) {
				return
			}
		}
	}
}

// Len returns the number of nodes.
func (g *Graph) Len() int { return len(g.order) }

// Get returns a node.
func (g *Graph) Get(a resource.Address) (resource.Node, bool) { n, ok := g.nodes[a]; return n, ok }

// Select returns the graph of the nodes that keep accepts. These must not refer to nodes that are
// left out: nothing would resolve the references.
func (g *Graph) Select(keep func(resource.Node) bool) *Graph {
	out := &Graph{nodes: map[resource.Address]resource.Node{}}
	for n := range g.All() {
		if keep(n) {
			out.nodes[n.Address] = n
			out.order = append(out.order, n.Address)
		}
	}
	return out
}
