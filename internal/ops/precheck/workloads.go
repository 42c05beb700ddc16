package precheck

import (
	"context"
	"fmt"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/internal/ops/kubeclient"
)

// budgets stops the upgrade for budgets that never allow an eviction, as machines with such pods
// cannot be drained. Budgets that allow none at present, because pods are down, are a warning.
func (j *judge) budgets() {
	for _, b := range j.Budgets {
		s := b.Status
		if s.ExpectedPods == 0 || s.DisruptionsAllowed > 0 {
			continue
		}
		name := "PodDisruptionBudget/" + b.Namespace + "/" + b.Name
		if s.DesiredHealthy >= s.ExpectedPods {
			j.stop(name, fmt.Sprintf("never allows the eviction of one of its %d pods: %s", s.ExpectedPods, requirement(&b)),
				"run more replicas, or lower its requirement; a rolling update would wait at the machines of these pods")
			continue
		}
		j.warn(name, fmt.Sprintf("allows no eviction now: %d of its pods are healthy, and it requires %d", s.CurrentHealthy, s.DesiredHealthy),
			"find out why its pods are not ready; a rolling update waits for them")
	}
}

// requirement describes what a budget requires, in terms of its spec.
func requirement(b *policyv1.PodDisruptionBudget) string {
	if m := b.Spec.MaxUnavailable; m != nil {
		return "spec.maxUnavailable is " + m.String()
	}
	if m := b.Spec.MinAvailable; m != nil {
		return "spec.minAvailable is " + m.String()
	}
	return "it requires all of them"
}

func observeBudgets(ctx context.Context, c *kubeclient.Client, s *Observation) error {
	list, err := c.PodDisruptionBudgets("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the disruption budgets: %w", err)
	}
	s.Budgets = list.Items
	return nil
}
