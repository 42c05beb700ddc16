// Package drain empties nodes, and says before what will be in its way.
//
// A drain asks the API server to evict each pod, which keeps the pods' disruption
// budgets. It must not know machines, platforms or rollouts.
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
	"k8s.io/client-go/kubernetes"

	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/ops/pods"
)

// Drainer empties nodes of one cluster. It is safe for concurrent use.
type Drainer struct {
	Client kubernetes.Interface
	Now    func() time.Time
	Sleep  func(context.Context, time.Duration) error
}

// Options say how one node is drained.
type Options struct {
	// Timeout is how long it may take; 0: as long as it takes.
	Timeout time.Duration
	// Dead says that the node's kubelet does not answer: pods that are ending are not waited for.
	Dead bool
	// On receives each change of a pod; nil: nobody does.
	On func(Pod)
}

// State is what became of a pod.
type State string

// States of pods.
const (
	Evicted State = "evicted" // it is ending, in its own time
	Blocked State = "blocked" // its budget does not let it go
	Gone    State = "gone"
)

// Pod is what became of one pod of a node.
type Pod struct {
	Namespace, Name string
	State           State
	// Why says what blocks it, in the API server's words.
	Why string
	// Left is how many pods are left on the node.
	Left int
}

// lookPause is between two looks at what is left on a node, evictPause between two
// tries to evict a pod (kubectl's own: 5 s).
const (
	lookPause  = time.Second
	evictPause = 5 * time.Second
	// requestTime bounds one request.
	requestTime = 20 * time.Second
	// overduePause is how long after its end a pod is still waited for where no kubelet answers.
	overduePause = 30 * time.Second
)

// Cordon keeps new pods and the balancers of Services away from a node. A node that is gone is done.
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
	_, err := d.Client.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("%s node %s: %w", verb, node, err)
	}
	return nil
}

// Drain evicts what runs on a node, but for the pods of daemon sets and static pods,
// and returns when it is gone. A drain that was cut off is continued by the next one.
// The error is of the class NotYet when the time is over.
func (d *Drainer) Drain(ctx context.Context, node string, o Options) error {
	r := &run{Drainer: d, node: node, o: o}
	var over time.Time
	if o.Timeout > 0 {
		over = d.Now().Add(o.Timeout)
	}
	for {
		err := r.look(ctx)
		if err == nil && len(r.left) == 0 {
			return nil
		}
		if err == nil {
			err = r.evict(ctx)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("drain node %s: %w", node, context.Cause(ctx))
		}
		if err != nil && !passing(err) {
			return fmt.Errorf("drain node %s: %w", node, err)
		}
		if o.Timeout > 0 && !d.Now().Before(over) {
			return r.late(err)
		}
		if err := d.Sleep(ctx, lookPause); err != nil {
			return fmt.Errorf("drain node %s: %w", node, err)
		}
	}
}

// passing reports whether a failed request is worth another: the API server may be away
// while its machine is replaced.
func passing(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true // no answer
	}
	code := status.Status().Code
	return code == 429 || code >= 500
}

// pod is one that must go.
type pod struct {
	corev1.Pod
	state State
	tried time.Time
	why   string
}

// run is one drain under way.
type run struct {
	*Drainer
	node string
	o    Options
	left map[types.UID]*pod // nil before the first look
}

// look finds out what is left.
func (r *run) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	found, err := r.pods(ctx)
	if err != nil {
		return err
	}
	there := map[types.UID]*pod{}
	for _, p := range found {
		known := r.left[p.UID]
		if known == nil {
			known = &pod{}
		}
		known.Pod = p
		there[p.UID] = known
	}
	before := r.left
	r.left = there
	for uid, p := range before {
		if there[uid] == nil {
			r.tell(p, Gone, "")
		}
	}
	for _, p := range there {
		if p.DeletionTimestamp != nil {
			r.tell(p, Evicted, "")
		}
	}
	if r.o.Dead {
		maps.DeleteFunc(there, func(_ types.UID, p *pod) bool { return p.DeletionTimestamp != nil })
	}
	return nil
}

// pods lists those that must go. Which of the node's pods these are is found out once, as
// that takes a request for each daemon set.
func (r *run) pods(ctx context.Context) ([]corev1.Pod, error) {
	if r.left == nil {
		return r.leaving(ctx)
	}
	all, err := r.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + r.node})
	if err != nil {
		return nil, err
	}
	var out []corev1.Pod
	overdue := false
	for _, p := range all.Items {
		if r.left[p.UID] != nil {
			out = append(out, p)
			overdue = overdue || r.overdue(&p)
		}
	}
	if overdue && !r.alive(ctx) {
		out = slices.DeleteFunc(out, func(p corev1.Pod) bool { return r.overdue(&p) })
	}
	return out, nil
}

// leaving lists the pods of the node that a drain evicts: all but static pods and the pods of
// daemon sets. A pod whose daemon set is gone is evicted, and so is one that has finished.
func (r *run) leaving(ctx context.Context) ([]corev1.Pod, error) {
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
			_, err := r.Client.AppsV1().DaemonSets(p.Namespace).Get(ctx, owner.Name, metav1.GetOptions{})
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

// overdue reports whether a pod should have ended well before now.
func (r *run) overdue(p *corev1.Pod) bool {
	return p.DeletionTimestamp != nil && r.Now().Sub(p.DeletionTimestamp.Time) > overduePause
}

// alive reports whether the node's kubelet answers, without which no pod ends.
func (r *run) alive(ctx context.Context) bool {
	n, err := r.Client.CoreV1().Nodes().Get(ctx, r.node, metav1.GetOptions{})
	if err != nil {
		return !apierrors.IsNotFound(err)
	}
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// tell tells a pod's state, when it is another than before.
func (r *run) tell(p *pod, s State, why string) {
	if p.state == s && p.why == why {
		return
	}
	p.state, p.why = s, why
	if r.o.On != nil {
		r.o.On(Pod{Namespace: p.Namespace, Name: p.Name, State: s, Why: why, Left: len(r.left)})
	}
}

// evict asks for the end of each pod that is not ending.
func (r *run) evict(ctx context.Context) error {
	for _, uid := range slices.Sorted(maps.Keys(r.left)) {
		p := r.left[uid]
		if p.DeletionTimestamp != nil || !p.tried.IsZero() && r.Now().Sub(p.tried) < evictPause {
			continue
		}
		p.tried = r.Now()
		switch err := r.end(ctx, p); {
		case err == nil:
			r.tell(p, Evicted, "")
		case apierrors.IsNotFound(err):
		case blocked(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause): // its namespace is about to delete it
			r.tell(p, Blocked, said(err))
		default:
			return fmt.Errorf("evict pod %s/%s: %w", p.Namespace, p.Name, err)
		}
	}
	return nil
}

// end evicts a pod, which has its own time to end.
func (r *run) end(ctx context.Context, p *pod) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	return r.Client.PolicyV1().Evictions(p.Namespace).Evict(ctx, &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace}, DeleteOptions: &metav1.DeleteOptions{}})
}

// blocked reports whether a budget refuses an eviction, and not the server's own
// bounds; several budgets of one pod are answered with an error of the server.
func blocked(err error) bool {
	return apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) || apierrors.IsInternalError(err) && strings.Contains(err.Error(), "PodDisruptionBudget")
}

// said is why a budget refuses.
func said(err error) string {
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

// late is the error of a drain whose time is over, which names what is left.
func (r *run) late(last error) error {
	var left []string
	for _, p := range r.left {
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
