package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"kops.local/kops/internal/engine/fault"
)

// remembered is how long the labels of a group are believed without asking.
const remembered = 30 * time.Second

// Groups is the source of truth of what nodes are: not the nodes themselves,
// whose kubelets may say what they like.
type Groups interface {
	// GroupOf returns the instance group of a node, or an error of class
	// fault.Gone when nothing is known of the node.
	GroupOf(ctx context.Context, node *corev1.Node) (string, error)
	// Labels returns the labels of the nodes of a group.
	Labels(ctx context.Context, group string) (map[string]string, error)
}

// GroupOf returns the group under which the machine of the node's name is registered.
func (s Stored) GroupOf(ctx context.Context, node *corev1.Node) (string, error) {
	m, err := s.Machine(ctx, node.Name)
	return m.InstanceGroup, err
}

var _ Groups = Stored{}

// Labeller keeps the labels of nodes as their groups say. Other labels of a
// node are left alone.
type Labeller struct {
	Nodes  corev1client.NodeInterface
	Groups Groups
	Now    func() time.Time
	Log    *slog.Logger

	mu    sync.Mutex
	known map[string]groupLabels
}

// groupLabels are the labels of a group as they were at a time.
type groupLabels struct {
	labels map[string]string
	at     time.Time
}

// Run watches nodes until the context ends.
func (l *Labeller) Run(ctx context.Context) error {
	concerns := func(before, now *corev1.Node) bool {
		return before.ResourceVersion == now.ResourceVersion || !maps.Equal(before.Labels, now.Labels) // the first is a resync
	}
	return eachNode(ctx, l.Nodes, l.Log.With("task", "labels"), concerns, l.Apply)
}

// Apply gives a node the labels of its group that it lacks or has otherwise.
// A node of which nothing is known is left alone.
func (l *Labeller) Apply(ctx context.Context, node *corev1.Node) error {
	group, err := l.Groups.GroupOf(ctx, node)
	if fault.Is(err, fault.Gone) {
		l.Log.Debug("nothing is known of a node", "node", node.Name)
		return nil
	}
	if err != nil {
		return fmt.Errorf("find the group of the node: %w", err)
	}
	want, err := l.labels(ctx, group)
	if err != nil {
		return err
	}
	lacks := map[string]string{}
	for k, v := range want {
		if now, ok := node.Labels[k]; !ok || now != v {
			lacks[k] = v
		}
	}
	if len(lacks) == 0 {
		return nil
	}
	there, err := change(ctx, l.Nodes, node, nodePatch{Metadata: nodeMetadata{Labels: lacks}})
	if err != nil {
		return fmt.Errorf("set labels: %w", err)
	}
	if there {
		l.Log.Info("labelled", "node", node.Name, "group", group, "labels", len(lacks))
	}
	return nil
}

// labels returns the labels of a group, from memory for a short time.
func (l *Labeller) labels(ctx context.Context, group string) (map[string]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k, ok := l.known[group]; ok && l.Now().Sub(k.at) < remembered {
		return k.labels, nil
	}
	labels, err := l.Groups.Labels(ctx, group)
	if err != nil {
		return nil, err
	}
	if l.known == nil {
		l.known = map[string]groupLabels{}
	}
	l.known[group] = groupLabels{labels, l.Now()}
	return labels, nil
}

// LiveNodes asks the API server about nodes.
type LiveNodes struct{ Client corev1client.NodeInterface }

var _ Nodes = LiveNodes{}

// State asks for the Node.
func (n LiveNodes) State(ctx context.Context, name string) (NodeState, error) {
	node, err := n.Client.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return NodeAbsent, nil
	case err != nil:
		return 0, err
	case node.DeletionTimestamp != nil:
		return 0, errors.New("the node is being deleted")
	case isReady(node):
		return NodeReady, nil
	}
	return NodeNotReady, nil
}

func isReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
