package channels

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"kops.local/kops/internal/contract/labels"
)

// makeRoom deletes an object that cannot be updated as wanted because some fields are immutable,
// such as the selector of a workload or the role of a binding. It reports whether it did. The
// object must be replaceable, the existing one must have the same add-on's label, and its
// replacement must be valid: otherwise the cluster would be left with neither.
func (a *Applier) makeRoom(ctx context.Context, r dynamic.ResourceInterface, o *unstructured.Unstructured) (bool, error) {
	if !replaceable(o) {
		return false, nil
	}
	old, err := existing(ctx, r, o)
	if err != nil || old == nil {
		return false, err
	}
	addon := o.GetLabels()[labels.Addon]
	if old.GetLabels()[labels.Addon] != addon || old.GetDeletionTimestamp() != nil {
		return false, nil
	}
	twin := o.DeepCopy()
	twin.SetName(o.GetName() + "-anew") // the name itself is taken
	if _, err := r.Create(ctx, twin, metav1.CreateOptions{FieldManager: fieldManager, DryRun: []string{metav1.DryRunAll}}); err != nil {
		return false, nil //nolint:nilerr // the error of applying it is more informative
	}
	if err := a.remove(ctx, old.GroupVersionKind().GroupKind(), old); err != nil {
		return false, err
	}
	a.Log.Warn("removed to create it again: its changed fields are immutable", "addon", addon, "object", nameOf(o))
	return true, nil
}

// replaceable reports whether everything that is removed with an object comes back with its
// successor. With other objects, data are lost (a StatefulSet's claims may be), addresses (a
// Service's), or what controllers have created for them: custom kinds in users' add-ons may
// represent anything.
func replaceable(o *unstructured.Unstructured) bool {
	switch o.GroupVersionKind().GroupKind().String() {
	case "Deployment.apps", "DaemonSet.apps", "Job.batch",
		"RoleBinding.rbac.authorization.k8s.io", "ClusterRoleBinding.rbac.authorization.k8s.io",
		"StorageClass.storage.k8s.io", "CSIDriver.storage.k8s.io", "PriorityClass.scheduling.k8s.io":
		return true
	}
	return false
}
