package drain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"kops.local/kops/api/status"
	"kops.local/kops/internal/ops/pods"
)

// Kinds of blockers.
const (
	KindBudget    = "budget"    // a disruption budget that allows no eviction
	KindLocal     = "local"     // data on the node's own disk
	KindUnmanaged = "unmanaged" // a pod that nothing would recreate
	KindGrace     = "grace"     // a pod that may take long to terminate
)

// Blocker is something that will delay or block a drain.
type Blocker = status.Blocker

// World is the input for predicting blockers.
type World struct {
	// Nodes are the names of the nodes to drain.
	Nodes   []string
	Pods    []corev1.Pod
	Budgets []policyv1.PodDisruptionBudget
	// LocalClaims are the claims, as namespace/name, that are bound to a node's local disk.
	LocalClaims map[string]bool
	// Timeout is how long one drain may take; 0 means no limit.
	Timeout time.Duration
}

// Blockers predicts what will block or delay the drains of some nodes.
func Blockers(w World) []Blocker {
	var moving []*corev1.Pod // the pods to evict
	for i := range w.Pods {
		if p := &w.Pods[i]; slices.Contains(w.Nodes, p.Spec.NodeName) && isEvictable(p) {
			moving = append(moving, p)
		}
	}
	out := w.budgets(moving)
	for _, p := range moving {
		if !pods.Finished(p) {
			out = append(out, w.podBlockers(p)...)
		}
	}
	slices.SortStableFunc(out, func(a, b Blocker) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return out
}

func rank(b Blocker) int {
	if b.Blocks {
		return 0
	}
	return 1
}

// isEvictable reports whether a drain evicts a pod.
func isEvictable(p *corev1.Pod) bool {
	_, static := p.Annotations[corev1.MirrorPodAnnotationKey]
	owner := metav1.GetControllerOf(p)
	return !static && (owner == nil || owner.Kind != "DaemonSet") && p.DeletionTimestamp == nil
}

// budgets reports the budgets that allow no eviction now, or never will.
func (w World) budgets(moving []*corev1.Pod) []Blocker {
	covering := map[string][]string{} // the budgets that select a pod
	var out []Blocker
	for i := range w.Budgets {
		b := &w.Budgets[i]
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil {
			continue // does not apply to any of these pods
		}
		name := b.Namespace + "/" + b.Name
		found := Blocker{Kind: KindBudget, Name: name, Blocks: true}
		for _, p := range moving {
			if p.Namespace != b.Namespace || !selector.Matches(labels.Set(p.Labels)) || !isProtected(p, b) {
				continue
			}
			key := p.Namespace + "/" + p.Name
			covering[key] = append(covering[key], name)
			add(&found, p)
			if len(covering[key]) == 2 { // the API server does not evict pods with two budgets
				out = append(out, Blocker{Kind: KindBudget, Name: name, Pods: []string{key}, Nodes: []string{p.Spec.NodeName}, Blocks: true,
					Message: fmt.Sprintf("more than one disruption budget selects the pod, including %s, so it cannot be evicted", covering[key][0]),
					Remedy:  "delete one of the budgets, or narrow its selector"})
			}
		}
		if len(found.Pods) > 0 && b.Status.DisruptionsAllowed == 0 {
			found.Message, found.Remedy = allowsNone(b)
			out = append(out, found)
		}
	}
	return out
}

func add(b *Blocker, p *corev1.Pod) {
	b.Pods = append(b.Pods, p.Namespace+"/"+p.Name)
	if !slices.Contains(b.Nodes, p.Spec.NodeName) {
		b.Nodes = append(b.Nodes, p.Spec.NodeName)
	}
}

// isProtected reports whether a budget prevents the eviction of a pod.
func isProtected(p *corev1.Pod, b *policyv1.PodDisruptionBudget) bool {
	if p.Status.Phase == corev1.PodPending || pods.Finished(p) {
		return false
	}
	always := b.Spec.UnhealthyPodEvictionPolicy != nil && *b.Spec.UnhealthyPodEvictionPolicy == policyv1.AlwaysAllow
	return !always || pods.Ready(p)
}

// allowsNone explains why a budget allows no eviction, and what helps.
func allowsNone(b *policyv1.PodDisruptionBudget) (message, remedy string) {
	s := b.Status
	if s.CurrentHealthy < s.DesiredHealthy {
		return fmt.Sprintf("it allows no eviction now: %d of %d pods are ready, and it requires %d", s.CurrentHealthy, s.ExpectedPods, s.DesiredHealthy),
			"find out why the others are not ready; the drain waits until they are"
	}
	return fmt.Sprintf("it never allows an eviction: it requires %d of %d pods ready", s.DesiredHealthy, s.ExpectedPods),
		"run more replicas, or let the budget allow one: kubectl edit pdb -n " + b.Namespace + " " + b.Name
}

// longGrace is the termination grace period from which a pod is reported.
const longGrace = 5 * time.Minute

// podBlockers returns the findings about one pod that will be evicted.
func (w World) podBlockers(p *corev1.Pod) []Blocker {
	name := p.Namespace + "/" + p.Name
	one := func(kind, message, remedy string) Blocker {
		return Blocker{Kind: kind, Name: name, Nodes: []string{p.Spec.NodeName}, Message: message, Remedy: remedy}
	}
	var out []Blocker
	if metav1.GetControllerOf(p) == nil {
		out = append(out, one(KindUnmanaged, "no controller recreates it: it is deleted permanently", "make it part of a Deployment, StatefulSet or Job"))
	}
	for _, v := range p.Spec.Volumes {
		switch claim := v.PersistentVolumeClaim; {
		case v.EmptyDir != nil && v.EmptyDir.Medium != corev1.StorageMediumMemory:
			out = append(out, one(KindLocal, fmt.Sprintf("the data of its volume %s (emptyDir) is deleted", v.Name), ""))
		case v.HostPath != nil:
			out = append(out, one(KindLocal, fmt.Sprintf("its volume %s is the folder %s of the node, which is lost with the machine", v.Name, v.HostPath.Path), ""))
		case claim != nil && w.LocalClaims[p.Namespace+"/"+claim.ClaimName]:
			b := one(KindLocal, fmt.Sprintf("its claim %s is bound to a disk of the node: its data is lost with the machine, and no other node can run the pod", claim.ClaimName),
				"move the data, then delete the claim and the pod")
			out = append(out, b)
		}
	}
	grace := time.Duration(0)
	if s := p.Spec.TerminationGracePeriodSeconds; s != nil {
		grace = time.Duration(*s) * time.Second
	}
	switch {
	case w.Timeout > 0 && grace > w.Timeout:
		out = append(out, one(KindGrace, fmt.Sprintf("it may take %v to terminate, longer than the drain timeout (%v)", grace, w.Timeout), "increase the timeout: option:DrainTimeout "+grace.String()))
	case grace >= longGrace:
		out = append(out, one(KindGrace, fmt.Sprintf("it may take %v to terminate", grace), ""))
	}
	return out
}
