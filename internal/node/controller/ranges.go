package controller

import (
	"context"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"kops.local/kops/internal/engine/fault"
)

// Prefixes knows which additional addresses the cloud routes to machines.
type Prefixes interface {
	// Prefix returns the range of addresses of a node's machine, which gets one
	// where it has none, or an error of class fault.Gone when nothing is known of the node.
	Prefix(ctx context.Context, node *corev1.Node) (string, error)
}

// Ranger gives nodes the ranges of their machines for their pods. A node that has
// a range keeps it.
type Ranger struct {
	Nodes    corev1client.NodeInterface
	Prefixes Prefixes
	Log      *slog.Logger
}

// Run watches nodes until the context ends.
func (r *Ranger) Run(ctx context.Context) error {
	lacks := func(_, now *corev1.Node) bool { return now.Spec.PodCIDR == "" }
	return eachNode(ctx, r.Nodes, r.Log.With("task", "addresses of pods"), lacks, nil, r.Apply)
}

// Apply gives a node its range.
func (r *Ranger) Apply(ctx context.Context, node *corev1.Node) error {
	if node.Spec.PodCIDR != "" {
		return nil
	}
	prefix, err := r.Prefixes.Prefix(ctx, node)
	if fault.Is(err, fault.Gone) {
		r.Log.Debug("nothing is known of a node", "node", node.Name)
		return nil
	}
	if err != nil {
		return fmt.Errorf("find the addresses of the machine: %w", err)
	}
	there, err := change(ctx, r.Nodes, node, nodePatch{Spec: map[string]any{"podCIDR": prefix, "podCIDRs": []string{prefix}}})
	if err != nil {
		return fmt.Errorf("set the range of the node: %w", err)
	}
	if there {
		r.Log.Info("gave a node its range", "node", node.Name, "range", prefix)
	}
	return nil
}
