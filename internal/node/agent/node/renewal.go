package node

import (
	"slices"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/host"
)

// Renewal is the part of a machine's graph that holds certificates which are due, and
// what follows them because it reads them at its start alone.
func Renewal(g *graph.Graph, due func(*host.Certificate) bool) (*graph.Graph, error) {
	out := &graph.Graph{}
	taken := func(a resource.Address) bool { _, ok := out.Get(a); return ok }
	for n := range g.All() {
		c, is := n.Want.(*host.Certificate)
		if is && !due(c) || !is && !slices.ContainsFunc(n.Kind.Schema().Refs(n.Want), taken) {
			continue
		}
		n.After = slices.DeleteFunc(slices.Clone(n.After), func(a resource.Address) bool { return !taken(a) })
		if err := out.Add(n); err != nil {
			return nil, err
		}
	}
	return out, nil
}
