package precheck

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/ops/health"
	"kops.local/kops/internal/spec/versions"
)

// oldestKubelet is how many minor versions a kubelet may be older than the API server (Kubernetes,
// Version Skew Policy).
const oldestKubelet = 3

// isControlPlane reports whether a node has an API server.
func isControlPlane(n *corev1.Node) bool {
	_, apiServer := n.Labels[labels.APIServer]
	return apiServer || health.IsControlPlane(n)
}

// nodes stops the upgrade for control planes that are not ready: replacing the next one may be one
// too many.
func (j *judge) nodes() {
	for _, n := range j.Observation.Nodes {
		i := slices.IndexFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
		if i < 0 || n.Status.Conditions[i].Status != corev1.ConditionTrue {
			why := "is not ready"
			if i >= 0 && n.Status.Conditions[i].Message != "" {
				why += ": " + n.Status.Conditions[i].Message
			}
			j.add("Node/"+n.Name, why, "see why: kops doctor", !health.IsControlPlane(&n))
		}
		if n.Spec.Unschedulable {
			j.warn("Node/"+n.Name, "is cordoned", "replace it, or make it schedulable again: kubectl uncordon "+n.Name)
		}
	}
}

// skew stops the upgrade if a machine would be too far behind the API servers, or would skip a
// minor version.
func (j *judge) skew() {
	for _, n := range j.Observation.Nodes {
		v, err := versions.ParseVersion(n.Status.NodeInfo.KubeletVersion)
		if err != nil || v.Major != j.Target.Major {
			continue
		}
		behind := int(j.Target.Minor) - int(v.Minor)
		const roll = "replace its machine first: kops rolling-update cluster --yes"
		switch {
		case health.IsControlPlane(&n) && behind > 1:
			j.stop("Node/"+n.Name, fmt.Sprintf("is a control plane machine and still runs %s: no minor version may be skipped on the way to %s", v, j.Target), roll)
		case behind > oldestKubelet:
			j.stop("Node/"+n.Name, fmt.Sprintf("runs kubelet %s, but API servers of %s support only kubelets of 1.%d and later", v, j.Target, j.Target.Minor-oldestKubelet), roll)
		case behind > 1:
			j.warn("Node/"+n.Name, fmt.Sprintf("still runs %s, %d minor versions behind %s", v, behind, j.Target), roll)
		}
	}
	if j.Version.Major == j.Target.Major && j.Version.Minor+1 < j.Target.Minor {
		j.stop("", fmt.Sprintf("the API server runs %s: no minor version may be skipped on the way to %s", j.Version, j.Target), "finish the upgrade to the next minor version first: kops reconcile cluster --yes")
	}
}
