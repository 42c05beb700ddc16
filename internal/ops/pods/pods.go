// Package pods answers what several operations ask about pods. It must not know nodes'
// machines or platforms.
package pods

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// pageSize is how many pods one answer holds at most.
const pageSize = 500

// List returns the pods of all namespaces that match a field selector, page by page.
func List(ctx context.Context, client kubernetes.Interface, fieldSelector string) ([]corev1.Pod, error) {
	var all []corev1.Pod
	for o := (metav1.ListOptions{Limit: pageSize, FieldSelector: fieldSelector}); ; {
		page, err := client.CoreV1().Pods("").List(ctx, o)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if o.Continue = page.Continue; o.Continue == "" {
			return all, nil
		}
	}
}

// Ready reports whether a pod is ready.
func Ready(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// Finished reports whether all containers of a pod have ended for good.
func Finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}
