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

// youth is the age up to which a node that is ready is left alone, as its
// machine may be so new that the list of machines does not show it yet.
const youth = 15 * time.Second

// Machines finds the nodes whose machine no longer exists. Both methods return an error when that
// is not certain.
type Machines interface {
	// Gone returns the names of those nodes whose machines have ended for good.
	Gone(ctx context.Context, nodes []*corev1.Node) ([]string, error)
	// Alive returns the node names that a machine has.
	Alive(ctx context.Context, names []string) ([]string, error)
}

// Lifecycle removes the nodes of machines that are gone, and their pods, and notes that they are
// dead. Kubernetes itself removes no node, and removes pods only 40 seconds later; until then it
// sends them traffic of their Services. A cloud's own controller may remove the node first, which
// is noted as well.
type Lifecycle struct {
	Nodes    corev1client.NodeInterface
	Pods     corev1client.PodsGetter
	Machines Machines
	Dead     *Dead
	// Period is how often nodes are compared with machines.
	Period time.Duration
	Clock  bootstrap.Clock
	Log    *slog.Logger

	// known are nodes by their names that were there and whose machines were not gone:
	// somebody else may remove them before their machines are known to be gone.
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

// Once removes the nodes whose machines are gone by now. A node that it cannot
// remove does not keep it from removing others.
func (l *Lifecycle) Once(ctx context.Context) error {
	// The nodes come first: the machine of every node among them was there before
	// the machines are listed.
	there, err := nodesByName(ctx, l.Nodes)
	if err != nil {
		return err
	}
	if l.known == nil {
		l.known = map[string]*corev1.Node{}
	}
	maps.Copy(l.known, there)
	gone, err := l.Machines.Gone(ctx, slices.Collect(maps.Values(l.known)))
	if err != nil {
		return err
	}
	var dead []*corev1.Node
	for _, name := range gone {
		if n := there[name]; n == nil || mayGo(n, l.Clock.Now()) {
			dead = append(dead, l.known[name])
		}
	}
	// They are noted first: as soon as the node is gone, its kubelet may create it again.
	errs := []error{l.Dead.note(ctx, dead, l.Machines.Alive)}
	for _, n := range dead {
		delete(l.known, n.Name)
		errs = append(errs, l.remove(ctx, n))
	}
	return errors.Join(errs...)
}

// remove removes a node and its pods. The node may have been removed by another, such as a
// rolling update, which leaves the pods.
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

// removePods removes the pods of a node that is gone, at once: nothing is left to stop. Pods that
// cause an error are left to Kubernetes.
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

// mayGo says of a node without a machine that it need not be waited for.
func mayGo(n *corev1.Node, now time.Time) bool {
	return n.DeletionTimestamp == nil && (!isReady(n) || now.Sub(n.CreationTimestamp.Time) > youth)
}
