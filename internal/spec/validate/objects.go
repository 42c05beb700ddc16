package validate

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/diag"
)

// Objects checks the additional objects that a user keeps with a cluster.
func Objects(objects []api.Object) diag.List {
	c := newCheck(Input{})
	c.rule = "scheduler-configuration"
	schedulers := 0
	for _, o := range objects {
		u, ok := o.(*unstructured.Unstructured)
		if !ok || u.GetKind() != "KubeSchedulerConfiguration" {
			continue
		}
		c.object = u.GetKind() + "/" + u.GetName()
		if schedulers++; schedulers > 1 {
			c.Bad("", "", "is a second KubeSchedulerConfiguration, but the scheduler reads only one", "remove one of them")
		}
		if file, found, err := unstructured.NestedString(u.Object, "clientConnection", "kubeconfig"); found || err != nil {
			c.Bad("clientConnection.kubeconfig", file, "is set by kops", "remove it")
		}
	}
	return c.findings
}
