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
	// remembered is how long the marks of a group are used without asking again.
	remembered = 30 * time.Second
	// groupPeriod is how often it is looked whether a group has others.
	groupPeriod = 20 * time.Second
)

// Groups is the source of truth of what nodes are: not the nodes themselves,
// whose kubelets may say what they like.
type Groups interface {
	// GroupOf returns the instance group of a node, or an error of class
	// fault.Gone when nothing is known of the node.
	GroupOf(ctx context.Context, node *corev1.Node) (string, error)
	// Marks returns the labels and taints of the nodes of a group.
	Marks(ctx context.Context, group string) (Marks, error)
}

// GroupOf returns the group under which the machine of the node's name is registered.
func (s Stored) GroupOf(ctx context.Context, node *corev1.Node) (string, error) {
	m, err := s.Machine(ctx, node.Name)
	return m.InstanceGroup, err
}

var _ Groups = Stored{}

// Labeller keeps the labels and taints of nodes as their groups say. Those that their groups
// never had are left alone.
type Labeller struct {
	Nodes  corev1client.NodeInterface
	Groups Groups
	Now    func() time.Time
	// Sleep waits; nil: a group's change is seen when its nodes are looked at again.
	Sleep func(context.Context, time.Duration) error
	Log   *slog.Logger

	mu    sync.Mutex
	known map[string]groupMarks
}

// groupMarks are the marks of a group as they were at a time.
type groupMarks struct {
	Marks
	at time.Time
}

// Run watches nodes until the context ends, and looks at all of them when a group changes.
func (l *Labeller) Run(ctx context.Context) error {
	concerns := func(before, now *corev1.Node) bool {
		return before.ResourceVersion == now.ResourceVersion || !maps.Equal(before.Labels, now.Labels) // the first is a resync
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	changed := make(chan struct{})
	var looking sync.WaitGroup
	if l.Sleep != nil {
		looking.Go(func() { l.watchGroups(ctx, changed) })
	}
	err := eachNode(ctx, l.Nodes, l.Log.With("task", "labels"), concerns, changed, l.Apply)
	stop()
	looking.Wait()
	return err
}

// watchGroups tells when a group has other marks than it had, until the context ends.
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

// Apply gives a node the labels and taints of its group that it lacks or has otherwise, and
// removes those that its group had and has no more. A node of which nothing is known is
// left alone.
func (l *Labeller) Apply(ctx context.Context, node *corev1.Node) error {
	group, err := l.Groups.GroupOf(ctx, node)
	if fault.Is(err, fault.Gone) {
		l.Log.Debug("nothing is known of a node", "node", node.Name)
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

// marks returns the marks of a group, from memory for a short time.
func (l *Labeller) marks(ctx context.Context, group string) (Marks, error) {
	l.mu.Lock()
	k, ok := l.known[group]
	l.mu.Unlock()
	if ok && l.Now().Sub(k.at) < remembered {
		return k.Marks, nil
	}
	return l.read(ctx, group)
}

// read asks for the marks of a group, and remembers them.
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
