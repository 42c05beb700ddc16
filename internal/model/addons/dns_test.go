package addons_test

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"kops.local/kops/api"
	"kops.local/kops/internal/model/addons"
)

// Replicas of the DNS server run on different nodes, and a third of them, or any that is not ready, may be
// evicted.
func TestDNSServersAreApart(t *testing.T) {
	none := func(*api.ClusterSpec) {}
	for name, in := range map[string]addons.Input{"aws": cluster(t, none), "local": local(t, none)} {
		made := build(t, in)
		pod := object[appsv1.Deployment](t, made, "coredns.addons.k8s.io", "Deployment", "coredns").Spec.Template.Spec
		keys := map[string]corev1.UnsatisfiableConstraintAction{}
		for _, s := range pod.TopologySpreadConstraints {
			keys[s.TopologyKey] = s.WhenUnsatisfiable
		}
		if _, zoned := keys["topology.kubernetes.io/zone"]; zoned != (name == "aws") || keys["kubernetes.io/hostname"] != corev1.DoNotSchedule {
			t.Errorf("%s: %v", name, keys)
		}
		budget := object[policyv1.PodDisruptionBudget](t, made, "coredns.addons.k8s.io", "PodDisruptionBudget", "kube-dns").Spec
		if budget.MaxUnavailable.String() != "33%" || budget.UnhealthyPodEvictionPolicy == nil || *budget.UnhealthyPodEvictionPolicy != policyv1.AlwaysAllow {
			t.Errorf("%s: %+v", name, budget)
		}
	}
}

// After a takeover, the controller of kOps runs until its machine is replaced, with the rights of ours.
func TestTheControllerOfKOpsKeepsItsRights(t *testing.T) {
	made := build(t, cluster(t, func(*api.ClusterSpec) {}))
	role := object[rbacv1.Role](t, made, "kops-controller.addons.k8s.io", "Role", "kops-controller")
	may := func(verb, group, resource, name string) bool {
		return slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
			return slices.Contains(r.Verbs, verb) && slices.Contains(r.APIGroups, group) && slices.Contains(r.Resources, resource) &&
				(len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, name))
		})
	}
	for _, verb := range []string{"get", "list", "watch", "patch", "update", "delete", "create"} {
		if !may(verb, "coordination.k8s.io", "leases", "kops-controller-leader") || !may(verb, "", "configmaps", "kops-controller-leader") {
			t.Errorf("it may not %s what its leader holds", verb)
		}
	}
	if !may("create", "", "events", "") || may("delete", "coordination.k8s.io", "leases", "kube-scheduler") || may("get", "", "configmaps", "coredns") {
		t.Errorf("%+v", role.Rules)
	}
}
