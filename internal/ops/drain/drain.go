// Package drain empties nodes, and predicts what will block that.
//
// A drain uses the API server's evictions, which respect the pods' disruption budgets. It must not
// know machines, platforms or rollouts.
package drain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/ops/kubeclient"
	"kops.local/kops/internal/ops/pods"
)

// Drainer empties nodes of one cluster. It is safe for concurrent use.
type Drainer struct {
	Client *kubeclient.Client
	Now    func() time.Time
	Sleep  func(context.Context, time.Duration) error
}

// Options specify how one node is drained.
type Options struct {
	// Timeout is how long it may take; 0 means no limit.
	Timeout time.Duration
	// Dead means that the node's kubelet does not respond: terminating pods are not waited for.
	Dead bool
	// On receives each change of a pod; it may be nil.
	On func(Pod)
}

// State is a pod's state during a drain.
type State string

// States of pods.
const (
	Evicted State = "evicted" // it is terminating within its grace period
	Blocked State = "blocked" // its budget does not allow the eviction
	Gone    State = "gone"
)

// Pod is the state of one pod of a node.
type Pod struct {
	Namespace, Name string
	State           State
	// Why says what blocks it, in the API server's words.
	Why string
	// Left is how many pods are left on the node.
	Left int
}

// lookPause is the time between two checks of what is left on a node, evictPause between two
// attempts to evict a pod (kubectl's: 5 s).
const (
	lookPause  = time.Second
	evictPause = 5 * time.Second
	// requestTime limits one request.
	requestTime = 20 * time.Second
	// overduePause is how long after its grace period a pod is still waited for if the kubelet does
	// not respond.
	overduePause = 30 * time.Second
)

// Cordon keeps new pods and the load balancers of Services away from a node. A node that no longer
// exists is not an error.
func (d *Drainer) Cordon(ctx context.Context, node string) error {
	return d.patch(ctx, node, fmt.Sprintf(`{"metadata":{"labels":{%q:""}},"spec":{"unschedulable":true}}`, labels.NoLoadBalancer), "cordon")
}

// Uncordon undoes Cordon.
func (d *Drainer) Uncordon(ctx context.Context, node string) error {
	return d.patch(ctx, node, fmt.Sprintf(`{"metadata":{"labels":{%q:null}},"spec":{"unschedulable":null}}`, labels.NoLoadBalancer), "uncordon")
}

func (d *Drainer) patch(ctx context.Context, node, patch, verb string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	_, err := d.Client.Nodes().Patch(ctx, node, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("%s node %s: %w", verb, node, err)
	}
	return nil
}

// Drain evicts the pods on a node, except for those of daemon sets and static pods, and returns
// when they are gone. Another Drain continues one that was interrupted. The error is of the class
// NotYet when the timeout expires.
func (d *Drainer) Drain(ctx context.Context, node string, o Options) error {
	r := &run{Drainer: d, node: node, o: o}
	var over time.Time
	if o.Timeout > 0 {
		over = d.Now().Add(o.Timeout)
	}
	for {
		err := r.update(ctx)
		if err == nil && len(r.remaining) == 0 {
			return nil
		}
		if err == nil {
			err = r.evict(ctx)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("drain node %s: %w", node, context.Cause(ctx))
		}
		if err != nil && !isTemporary(err) {
			return fmt.Errorf("drain node %s: %w", node, err)
		}
		if o.Timeout > 0 && !d.Now().Before(over) {
			return r.timeoutError(err)
		}
		if err := d.Sleep(ctx, lookPause); err != nil {
			return fmt.Errorf("drain node %s: %w", node, err)
		}
	}
}

// isTemporary reports whether a failed request should be retried: the API server may be down while
// its machine is replaced.
func isTemporary(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true // no response
	}
	code := status.Status().Code
	return code == 429 || code >= 500
}

// pod is a pod to evict.
type pod struct {
	corev1.Pod
	state State
	tried time.Time
	why   string
}

// run is the state of one drain.
type run struct {
	*Drainer
	node      string
	o         Options
	remaining map[types.UID]*pod // nil before the first look
}

// update updates the list of what is left.
func (r *run) update(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	found, err := r.pods(ctx)
	if err != nil {
		return err
	}
	there := map[types.UID]*pod{}
	for _, p := range found {
		known := r.remaining[p.UID]
		if known == nil {
			known = &pod{}
		}
		known.Pod = p
		there[p.UID] = known
	}
	before := r.remaining
	r.remaining = there
	for uid, p := range before {
		if there[uid] == nil {
			r.report(p, Gone, "")
		}
	}
	for _, p := range there {
		if p.DeletionTimestamp != nil {
			r.report(p, Evicted, "")
		}
	}
	if r.o.Dead {
		maps.DeleteFunc(there, func(_ types.UID, p *pod) bool { return p.DeletionTimestamp != nil })
	}
	return nil
}

// pods lists the pods to evict. They are selected only once, as that takes a request for each
// daemon set.
func (r *run) pods(ctx context.Context) ([]corev1.Pod, error) {
	if r.remaining == nil {
		return r.podsToEvict(ctx)
	}
	all, err := r.Client.Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + r.node})
	if err != nil {
		return nil, err
	}
	var out []corev1.Pod
	overdue := false
	for _, p := range all.Items {
		if r.remaining[p.UID] != nil {
			out = append(out, p)
			overdue = overdue || r.isOverdue(&p)
		}
	}
	if overdue && !r.isKubeletAlive(ctx) {
		out = slices.DeleteFunc(out, func(p corev1.Pod) bool { return r.isOverdue(&p) })
	}
	return out, nil
}

// podsToEvict lists the pods of the node that a drain evicts: all but static pods and the pods of
// daemon sets. Pods whose daemon set is gone are evicted, and so are finished ones.
func (r *run) podsToEvict(ctx context.Context) ([]corev1.Pod, error) {
	all, err := pods.List(ctx, r.Client, "spec.nodeName="+r.node)
	if err != nil {
		return nil, err
	}
	var out []corev1.Pod
	for _, p := range all {
		owner := metav1.GetControllerOf(&p)
		if _, static := p.Annotations[corev1.MirrorPodAnnotationKey]; static {
			continue
		}
		if owner != nil && owner.APIVersion == appsv1.SchemeGroupVersion.String() && owner.Kind == "DaemonSet" && !pods.Finished(&p) {
			_, err := r.Client.DaemonSets(p.Namespace).Get(ctx, owner.Name, metav1.GetOptions{})
			if err == nil {
				continue
			}
			if !apierrors.IsNotFound(err) {
				return nil, fmt.Errorf("get the daemon set of pod %s/%s: %w", p.Namespace, p.Name, err)
			}
		}
		out = append(out, p)
	}
	return out, nil
}

// isOverdue reports whether a pod should have terminated well before now.
func (r *run) isOverdue(p *corev1.Pod) bool {
	return p.DeletionTimestamp != nil && r.Now().Sub(p.DeletionTimestamp.Time) > overduePause
}

// isKubeletAlive reports whether the node's kubelet responds; without it, no pod terminates.
func (r *run) isKubeletAlive(ctx context.Context) bool {
	n, err := r.Client.Nodes().Get(ctx, r.node, metav1.GetOptions{})
	if err != nil {
		return !apierrors.IsNotFound(err)
	}
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// report reports a pod's state if it has changed.
func (r *run) report(p *pod, s State, why string) {
	if p.state == s && p.why == why {
		return
	}
	p.state, p.why = s, why
	if r.o.On != nil {
		r.o.On(Pod{Namespace: p.Namespace, Name: p.Name, State: s, Why: why, Left: len(r.remaining)})
	}
}

// evict requests the eviction of each pod that is not terminating.
func (r *run) evict(ctx context.Context) error {
	for _, uid := range slices.Sorted(maps.Keys(r.remaining)) {
		p := r.remaining[uid]
		if p.DeletionTimestamp != nil || !p.tried.IsZero() && r.Now().Sub(p.tried) < evictPause {
			continue
		}
		p.tried = r.Now()
		switch err := r.end(ctx, p); {
		case err == nil:
			r.report(p, Evicted, "")
		case apierrors.IsNotFound(err):
		case isBlocked(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause): // its namespace is about to delete it
			r.report(p, Blocked, refusalReason(err))
		default:
			return fmt.Errorf("evict pod %s/%s: %w", p.Namespace, p.Name, err)
		}
	}
	return nil
}

// end evicts a pod, which then has its grace period to terminate.
func (r *run) end(ctx context.Context, p *pod) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	return r.Client.Evict(ctx, &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace}, DeleteOptions: &metav1.DeleteOptions{}})
}

// isBlocked reports whether a budget refuses an eviction, as opposed to the server's rate limits; if
// a pod has several budgets, the server responds with an internal error.
func isBlocked(err error) bool {
	return apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) || apierrors.IsInternalError(err) && strings.Contains(err.Error(), "PodDisruptionBudget")
}

// refusalReason returns why a budget refuses.
func refusalReason(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		for _, c := range status.Status().Details.Causes {
			if c.Type == policyv1.DisruptionBudgetCause && c.Message != "" {
				return c.Message
			}
		}
	}
	return err.Error()
}

// timeoutError returns the error of a drain that timed out, which names what is left.
func (r *run) timeoutError(last error) error {
	var left []string
	for _, p := range r.remaining {
		text := p.Namespace + "/" + p.Name
		if p.state == Blocked {
			text += ": " + p.why
		} else if p.DeletionTimestamp != nil {
			text += ": it is ending"
		}
		left = append(left, text)
	}
	slices.Sort(left)
	err := fmt.Errorf("node %s is not empty after %v; it still runs %s", r.node, r.o.Timeout, strings.Join(left, "; "))
	if len(left) == 0 {
		err = fmt.Errorf("node %s is not empty after %v: %w", r.node, r.o.Timeout, last)
	}
	return fault.Wrap(fault.NotYet, err, "let the budget allow an eviction (more replicas, or a budget that allows one), or continue without it (option:FailOnDrainError)")
}
