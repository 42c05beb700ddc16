package drain

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/internal/ops/kubeclient"
	"kops.local/kops/internal/ops/pods"
)

// Observe gathers what Blockers needs for drains of some nodes. The claims bound to disks of nodes
// are only queried if a pod has a claim.
func Observe(ctx context.Context, client *kubeclient.Client, nodes []string, timeout time.Duration) (World, error) {
	w := World{Nodes: nodes, Timeout: timeout, LocalClaims: map[string]bool{}}
	var err error
	if w.Pods, err = pods.List(ctx, client, ""); err != nil {
		return w, fmt.Errorf("list the pods: %w", err)
	}
	claims := slices.ContainsFunc(w.Pods, func(p corev1.Pod) bool {
		return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil })
	})
	budgets, err := client.PodDisruptionBudgets("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return w, fmt.Errorf("list the disruption budgets: %w", err)
	}
	w.Budgets = budgets.Items
	if !claims {
		return w, nil
	}
	volumes, err := client.PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return w, fmt.Errorf("list the volumes: %w", err)
	}
	for _, v := range volumes.Items {
		if onNode(&v) && v.Spec.ClaimRef != nil {
			w.LocalClaims[v.Spec.ClaimRef.Namespace+"/"+v.Spec.ClaimRef.Name] = true
		}
	}
	return w, nil
}

// onNode reports whether a volume is on a node's own disk.
func onNode(v *corev1.PersistentVolume) bool { return v.Spec.Local != nil || v.Spec.HostPath != nil }
