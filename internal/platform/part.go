package platform

import (
	"fmt"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/resource"
)

// Part is a part of a platform's model: its name for errors, and the function that declares its
// resources.
type Part struct {
	Name  string
	Nodes func() ([]resource.Node, error)
}

// AddParts adds the parts of a cluster's model to a graph, in their order.
func AddParts(g *graph.Graph, cluster string, parts []Part) error {
	for _, p := range parts {
		nodes, err := p.Nodes()
		if err == nil {
			err = g.Add(nodes...)
		}
		if err != nil {
			return fmt.Errorf("model the %s of %s: %w", p.Name, cluster, err)
		}
	}
	return nil
}
