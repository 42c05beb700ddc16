// Package pods answers questions about pods that several operations have. It must not know nodes'
// machines or platforms.
package pods

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/internal/ops/kubeclient"
)

// List returns the pods of all namespaces that match a field selector.
func List(ctx context.Context, client *kubeclient.Client, fieldSelector string) ([]corev1.Pod, error) {
	var all []corev1.Pod
	for page, err := range client.Pods("").Pages(ctx, metav1.ListOptions{FieldSelector: fieldSelector}) {
		if err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
	}
	return all, nil
}

// Ready reports whether a pod is ready.
func Ready(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// Finished reports whether all containers of a pod have terminated for good.
func Finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}
