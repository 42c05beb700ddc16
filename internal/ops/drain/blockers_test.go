package drain

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func newPod(name, node string, change ...func(*corev1.Pod)) corev1.Pod {
	yes := true
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", Labels: map[string]string{"app": "shop"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "r", Controller: &yes}}},
		Spec:   corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
	for _, f := range change {
		f(&p)
	}
	return p
}

func newBudget(name string, s policyv1.PodDisruptionBudgetStatus) policyv1.PodDisruptionBudget {
	return policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop"}, Status: s,
		Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "shop"}}}}
}

func volume(v corev1.VolumeSource) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: v})
	}
}

func TestBlockers(t *testing.T) {
	full := policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 2, DesiredHealthy: 2, ExpectedPods: 2}
	for name, c := range map[string]struct {
		w    World
		want string
	}{
		"nothing": {World{Pods: []corev1.Pod{newPod("a", "n1")}}, ""},
		"a budget that never allows any": {World{Pods: []corev1.Pod{newPod("a", "n1"), newPod("b", "n2"), newPod("c", "n3")}, Budgets: []policyv1.PodDisruptionBudget{newBudget("shop", full)}},
			"budget shop/shop blocks [shop/a shop/b] [n1 n2]: it never allows an eviction: it requires 2 of 2 pods ready\n"},
		"a budget of pods that are not ready": {World{Pods: []corev1.Pod{newPod("a", "n1")}, Budgets: []policyv1.PodDisruptionBudget{newBudget("shop", policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 1, DesiredHealthy: 2, ExpectedPods: 3})}},
			"budget shop/shop blocks [shop/a] [n1]: it allows no eviction now: 1 of 3 pods are ready, and it requires 2\n"},
		"a budget that allows one":   {World{Pods: []corev1.Pod{newPod("a", "n1")}, Budgets: []policyv1.PodDisruptionBudget{newBudget("shop", policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1})}}, ""},
		"a budget of pods elsewhere": {World{Pods: []corev1.Pod{newPod("a", "n3")}, Budgets: []policyv1.PodDisruptionBudget{newBudget("shop", full)}}, ""},
		"two budgets of one pod": {World{Pods: []corev1.Pod{newPod("a", "n1")}, Budgets: []policyv1.PodDisruptionBudget{newBudget("x", policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1}), newBudget("y", policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1})}},
			"budget shop/y blocks [shop/a] [n1]: more than one disruption budget selects the pod, including shop/x, so it cannot be evicted\n"},
		"a pod that is not ready, which its budget lets go": {World{Pods: []corev1.Pod{newPod("a", "n1", func(p *corev1.Pod) { p.Status.Conditions = nil })}, Budgets: []policyv1.PodDisruptionBudget{func() policyv1.PodDisruptionBudget {
			b, always := newBudget("shop", full), policyv1.AlwaysAllow
			b.Spec.UnhealthyPodEvictionPolicy = &always
			return b
		}()}}, ""},
		"a daemon, a static pod and one that is ending": {World{Budgets: []policyv1.PodDisruptionBudget{newBudget("shop", full)}, Pods: []corev1.Pod{
			newPod("a", "n1", func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "DaemonSet" }),
			newPod("b", "n1", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }),
			newPod("c", "n1", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} })}}, ""},
		"local data": {World{LocalClaims: map[string]bool{"shop/disk": true}, Pods: []corev1.Pod{
			newPod("a", "n1", volume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})),
			newPod("b", "n1", volume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}})),
			newPod("c", "n2", volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}})),
			newPod("d", "n2", volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "disk"}})),
			newPod("e", "n2", volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "far"}}))}},
			"local shop/a [] [n1]: the data of its volume data (emptyDir) is deleted\n" +
				"local shop/c [] [n2]: its volume data is the folder /data of the node, which is lost with the machine\n" +
				"local shop/d [] [n2]: its claim disk is bound to a disk of the node: its data is lost with the machine, and no other node can run the pod\n"},
		"nobody's": {World{Pods: []corev1.Pod{newPod("a", "n1", func(p *corev1.Pod) { p.OwnerReferences = nil })}},
			"unmanaged shop/a [] [n1]: no controller recreates it: it is deleted permanently\n"},
		"long": {World{Timeout: 15 * time.Minute, Pods: []corev1.Pod{newPod("a", "n1", grace(10*time.Minute)), newPod("b", "n1", grace(time.Hour)), newPod("c", "n1", grace(time.Minute))}},
			"grace shop/a [] [n1]: it may take 10m0s to terminate\ngrace shop/b [] [n1]: it may take 1h0m0s to terminate, longer than the drain timeout (15m0s)\n"},
	} {
		t.Run(name, func(t *testing.T) {
			c.w.Nodes = []string{"n1", "n2"}
			var got strings.Builder
			for _, b := range Blockers(c.w) {
				word := ""
				if b.Blocks {
					word = "blocks "
				}
				fmt.Fprintf(&got, "%s %s %s%v %v: %s\n", b.Kind, b.Name, word, b.Pods, b.Nodes, b.Message)
			}
			if d := cmp.Diff(c.want, got.String()); d != "" {
				t.Error(d)
			}
		})
	}
}

func grace(d time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		s := int64(d / time.Second)
		p.Spec.TerminationGracePeriodSeconds = &s
	}
}
