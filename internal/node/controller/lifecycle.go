package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"kops.local/kops/internal/node/bootstrap"
)

// youth is the age up to which a ready node is left alone, because its machine may
// be so new that the list of machines does not include it yet.
const youth = 15 * time.Second

// Machines finds the nodes whose machine no longer exists. Both methods return an error if that
// is not certain.
type Machines interface {
	// ListTerminated returns the names of the nodes whose machines are terminated for good.
	ListTerminated(ctx context.Context, nodes []*corev1.Node) ([]string, error)
	// ListExisting returns those of the names that belong to an existing machine.
	ListExisting(ctx context.Context, names []string) ([]string, error)
}

// Lifecycle removes the nodes of machines that are gone, and their pods, and records that they
// are dead. Kubernetes itself does not remove nodes, and removes pods only 40 seconds later;
// until then it sends them their Services' traffic. A cloud controller manager may remove the
// node first, which is recorded as well.
type Lifecycle struct {
	Nodes    corev1client.NodeInterface
	Pods     corev1client.PodsGetter
	Machines Machines
	Dead     *Dead
	// Period is how often nodes are compared with machines.
	Period time.Duration
	Clock  bootstrap.Clock
	Log    *slog.Logger

	// known holds nodes that existed and whose machines were not gone, by name: they
	// may be removed by others before their machines are known to be gone.
	known map[string]*corev1.Node
}

// Run compares nodes with machines until the context ends.
func (l *Lifecycle) Run(ctx context.Context) error {
	for {
		if err := l.Once(ctx); err != nil && ctx.Err() == nil {
			l.Log.Warn("cannot remove the nodes of machines that are gone; trying again", "error", err)
		}
		if err := l.Clock.Sleep(ctx, l.Period); err != nil {
			return err
		}
	}
}

// Once removes the nodes whose machines are gone by now. If it cannot remove one,
// it still removes the others.
func (l *Lifecycle) Once(ctx context.Context) error {
	// Nodes are listed first: the machine of every node in the list existed before the
	// machines are listed.
	there, err := nodesByName(ctx, l.Nodes)
	if err != nil {
		return err
	}
	if l.known == nil {
		l.known = map[string]*corev1.Node{}
	}
	maps.Copy(l.known, there)
	gone, err := l.Machines.ListTerminated(ctx, slices.Collect(maps.Values(l.known)))
	if err != nil {
		return err
	}
	var dead []*corev1.Node
	for _, name := range gone {
		if n := there[name]; n == nil || isRemovable(n, l.Clock.Now()) {
			dead = append(dead, l.known[name])
		}
	}
	// They are recorded first: as soon as a node is deleted, its kubelet may create it again.
	errs := []error{l.Dead.update(ctx, dead, l.Machines.ListExisting)}
	for _, n := range dead {
		delete(l.known, n.Name)
		errs = append(errs, l.remove(ctx, n))
	}
	return errors.Join(errs...)
}

// remove removes a node and its pods. The node may already have been removed, for example
// by a rolling update, which leaves the pods.
func (l *Lifecycle) remove(ctx context.Context, n *corev1.Node) error {
	err := l.Nodes.Delete(ctx, n.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &n.UID}})
	switch {
	case apierrors.IsConflict(err): // another node has the name by now
		return nil
	case err == nil:
		l.Log.Info("removed the node of a machine that is gone", "node", n.Name)
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("delete the node %s: %w", n.Name, err)
	}
	return l.removePods(ctx, n.Name)
}

// removePods removes the pods of a node that is gone, at once: no process is left to stop. Pods
// that cause an error are left to Kubernetes.
func (l *Lifecycle) removePods(ctx context.Context, node string) error {
	pods, err := l.Pods.Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return fmt.Errorf("list the pods of the node %s: %w", node, err)
	}
	var errs []error
	for _, p := range pods.Items {
		err := l.Pods.Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &p.UID}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs = append(errs, fmt.Errorf("delete the pod %s/%s of the node %s, which is gone: %w", p.Namespace, p.Name, node, err))
		}
	}
	return errors.Join(errs...)
}

// isRemovable reports whether a node without a machine may be removed now.
func isRemovable(n *corev1.Node, now time.Time) bool {
	return n.DeletionTimestamp == nil && (!isReady(n) || now.Sub(n.CreationTimestamp.Time) > youth)
}
