package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"kops.local/kops/internal/bootstrap"
)

const (
	// lifecyclePeriod is how often nodes are compared with machines.
	lifecyclePeriod = 5 * time.Second
	// youth is the age up to which a node that is ready is left alone, as its
	// machine may be so new that the list of machines does not show it yet.
	youth = 15 * time.Second
)

// MachineNames lists the machines that exist.
type MachineNames interface {
	// MachineNames returns the names that the machines' nodes have.
	MachineNames(ctx context.Context) ([]string, error)
}

// Lifecycle removes the nodes of machines that are gone, as the controller of a
// cloud does where there is one, and their pods. Kubernetes itself removes these
// 40 seconds later, and until then sends to them whatever is for their Services.
type Lifecycle struct {
	Nodes    corev1client.NodeInterface
	Pods     corev1client.PodsGetter
	Machines MachineNames
	// Self is the machine that this process runs on. A list of machines without
	// it is not believed: it would be the end of every node.
	Self  string
	Clock bootstrap.Clock
	Log   *slog.Logger
}

// Run compares nodes with machines until the context ends.
func (l *Lifecycle) Run(ctx context.Context) error {
	for {
		if err := l.Once(ctx); err != nil && ctx.Err() == nil {
			l.Log.Warn("cannot remove the nodes of machines that are gone; trying again", "error", err)
		}
		if err := l.Clock.Sleep(ctx, lifecyclePeriod); err != nil {
			return err
		}
	}
}

// Once removes the nodes whose machines are gone by now. A node that it cannot
// remove does not keep it from removing others.
func (l *Lifecycle) Once(ctx context.Context) error {
	// The nodes come first: the machine of every node among them was there before
	// the machines are listed.
	nodes, err := l.Nodes.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the nodes: %w", err)
	}
	machines, err := l.Machines.MachineNames(ctx)
	if err != nil {
		return err
	}
	if !slices.Contains(machines, l.Self) {
		return fmt.Errorf("the list of machines lacks %s, on which this runs, and so is not believed: is its folder mounted?", l.Self)
	}
	var errs []error
	for i := range nodes.Items {
		n := &nodes.Items[i]
		if slices.Contains(machines, n.Name) || !mayGo(n, l.Clock.Now()) {
			continue
		}
		err := l.Nodes.Delete(ctx, n.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &n.UID}})
		switch {
		case apierrors.IsNotFound(err), apierrors.IsConflict(err): // gone, or another node of that name by now
		case err != nil:
			errs = append(errs, fmt.Errorf("delete the node %s: %w", n.Name, err))
		default:
			l.Log.Info("removed the node of a machine that is gone", "node", n.Name)
			errs = append(errs, l.removePods(ctx, n.Name))
		}
	}
	return errors.Join(errs...)
}

// removePods removes the pods of a node that is gone, at once: nothing is left to
// stop. Those of an error are left to Kubernetes.
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
