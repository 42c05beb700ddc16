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

const (
	// remembered is how long the marks of a group are cached.
	remembered = 30 * time.Second
	// groupPeriod is how often groups are checked for changed marks.
	groupPeriod = 20 * time.Second
)

// Groups is the source of truth for nodes' labels and taints. The nodes themselves
// are not, because their kubelets may set what they like.
type Groups interface {
	// GroupOf returns the instance group of a node, or an error of class fault.Gone if
	// the node is unknown.
	GroupOf(ctx context.Context, node *corev1.Node) (string, error)
	// Marks returns the labels and taints for the nodes of a group.
	Marks(ctx context.Context, group string) (Marks, error)
}

// GroupOf returns the group for which the machine with the node's name is registered.
func (s Stored) GroupOf(ctx context.Context, node *corev1.Node) (string, error) {
	m, err := s.Machine(ctx, node.Name)
	return m.InstanceGroup, err
}

var _ Groups = Stored{}

// Labeller keeps the labels and taints of nodes as their groups specify. Those that their
// groups never had are left alone.
type Labeller struct {
	Nodes  corev1client.NodeInterface
	Groups Groups
	Now    func() time.Time
	// Sleep waits; if nil, a group's change is noticed when its nodes are next checked.
	Sleep func(context.Context, time.Duration) error
	Log   *slog.Logger

	mu    sync.Mutex
	known map[string]groupMarks
}

// groupMarks are the marks of a group at a point in time.
type groupMarks struct {
	Marks
	readAt time.Time
}

// Run watches nodes until the context ends, and checks all of them when a group changes.
func (l *Labeller) Run(ctx context.Context) error {
	concerns := func(before, now *corev1.Node) bool {
		return before.ResourceVersion == now.ResourceVersion || !maps.Equal(before.Labels, now.Labels) // equal versions mean a resync
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	changed := make(chan struct{})
	var looking sync.WaitGroup
	if l.Sleep != nil {
		looking.Go(func() { l.watchGroups(ctx, changed) })
	}
	err := forEachNode(ctx, l.Nodes, l.Log.With("task", "labels"), concerns, changed, l.Apply)
	stop()
	looking.Wait()
	return err
}

// watchGroups sends on changed when a group's marks have changed, until the context ends.
func (l *Labeller) watchGroups(ctx context.Context, changed chan<- struct{}) {
	for l.Sleep(ctx, groupPeriod) == nil {
		l.mu.Lock()
		before := maps.Clone(l.known)
		l.mu.Unlock()
		other := false
		for group, was := range before {
			now, err := l.read(ctx, group)
			other = other || err == nil && !now.equal(was.Marks)
		}
		if !other {
			continue
		}
		select {
		case changed <- struct{}{}:
		case <-ctx.Done():
		}
	}
}

// Apply sets the labels and taints of the node's group that are missing or different, and
// removes those that its group had and no longer has. It leaves an unknown node alone.
func (l *Labeller) Apply(ctx context.Context, node *corev1.Node) error {
	group, err := l.Groups.GroupOf(ctx, node)
	if fault.Is(err, fault.Gone) {
		l.Log.Debug("a node is not known yet", "node", node.Name)
		return nil
	}
	if err != nil {
		return fmt.Errorf("find the group of the node: %w", err)
	}
	want, err := l.marks(ctx, group)
	if err != nil {
		return err
	}
	p := patchOf(node, want, l.Now())
	if p.isEmpty() {
		return nil
	}
	there, err := change(ctx, l.Nodes, node, p)
	if err == nil {
		err = p.check(there, node)
	}
	if err != nil {
		return fmt.Errorf("set labels and taints: %w", err)
	}
	if there {
		l.Log.Info("labelled", "node", node.Name, "group", group, "labels", len(p.Metadata.Labels), "taints", p.Spec != nil)
	}
	return nil
}

// marks returns the marks of a group, cached for a short time.
func (l *Labeller) marks(ctx context.Context, group string) (Marks, error) {
	l.mu.Lock()
	k, ok := l.known[group]
	l.mu.Unlock()
	if ok && l.Now().Sub(k.readAt) < remembered {
		return k.Marks, nil
	}
	return l.read(ctx, group)
}

// read reads the marks of a group, and caches them.
func (l *Labeller) read(ctx context.Context, group string) (Marks, error) {
	m, err := l.Groups.Marks(ctx, group)
	if err != nil {
		return Marks{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = map[string]groupMarks{}
	}
	l.known[group] = groupMarks{m, l.Now()}
	return m, nil
}

// LiveNodes reads nodes from the API server.
type LiveNodes struct{ Client corev1client.NodeInterface }

var _ Nodes = LiveNodes{}

// State reads the Node and returns its state.
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
