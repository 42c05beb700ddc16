package controller

import (
	"context"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"kops.local/kops/internal/engine/fault"
)

// Prefixes finds which additional addresses the cloud routes to machines.
type Prefixes interface {
	// Prefix returns the address range of a node's machine, and assigns one if it has none;
	// the error is of class fault.Gone if the node is unknown.
	Prefix(ctx context.Context, node *corev1.Node) (string, error)
}

// Ranger sets nodes' pod ranges to the ranges of their machines. A node that has a
// range keeps it.
type Ranger struct {
	Nodes    corev1client.NodeInterface
	Prefixes Prefixes
	Log      *slog.Logger
}

// Run watches nodes until the context ends.
func (r *Ranger) Run(ctx context.Context) error {
	lacks := func(_, now *corev1.Node) bool { return now.Spec.PodCIDR == "" }
	return forEachNode(ctx, r.Nodes, r.Log.With("task", "pod address ranges"), lacks, nil, r.Apply)
}

// Apply sets a node's range.
func (r *Ranger) Apply(ctx context.Context, node *corev1.Node) error {
	if node.Spec.PodCIDR != "" {
		return nil
	}
	prefix, err := r.Prefixes.Prefix(ctx, node)
	if fault.Is(err, fault.Gone) {
		r.Log.Debug("a node is not known yet", "node", node.Name)
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
