package channels

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kops.local/kops/api"
)

// workload returns a Deployment; labelled is the add-on it is labelled with.
func workload(name, labelled, selector, pods string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: %s, namespace: kube-system, labels: {%s}}
spec:
  selector: {matchLabels: {%s}}
  template:
    metadata: {labels: {%s}}
    spec: {containers: [{name: c, image: i}]}
`, name, labelled, selector, pods)
}

func binding(role string) string {
	return "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: anew}\n" +
		"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: " + role + "}\n"
}

// A cluster that kOps created has workloads of the same names with other selectors.
func testRecreated(t *testing.T, c *cluster) {
	const ours = "addon.kops.k8s.io/name: anew.io, app.kubernetes.io/managed-by: kops"
	deployments := c.Client.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}).Namespace("kube-system")
	for name, labels := range map[string]string{"anew": ours, "unsound": ours, "somebodys": "who: knows"} {
		objects, err := decode([]byte(workload(name, labels, "app: old, instance: x", "app: old, instance: x")))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := deployments.Create(t.Context(), objects[0], metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	stateful := func(labels, app string) string {
		return strings.Replace(workload("data", labels, "app: "+app, "app: "+app), "kind: Deployment", "kind: StatefulSet", 1)
	}
	data, err := decode([]byte(stateful(ours, "old")))
	if err != nil {
		t.Fatal(err)
	}
	sets := c.Client.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}).Namespace("kube-system")
	if _, err := sets.Create(t.Context(), data[0], metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	addon := api.Addon{Name: "anew.io"}
	pass := func(texts ...string) error {
		c.publish(t, []api.Addon{addon}, map[string]string{addon.Name: strings.Join(texts, "---\n")})
		return c.pass(t)
	}
	selector := func(resource, name string) string {
		got, _, err := unstructured.NestedStringMap(c.get(t, "apps/"+resource, "kube-system", name).Object, "spec", "selector", "matchLabels")
		if err != nil {
			t.Fatal(err)
		}
		return got["app"]
	}
	err = pass(binding("view"), stateful("", "new"), workload("anew", "", "app: new", "app: new"), workload("unsound", "", "app: new", "app: other"), workload("somebodys", "", "app: new", "app: new"))
	if selector("deployments", "anew") != "new" {
		t.Errorf("a workload keeps its selector: %v", err)
	}
	if selector("deployments", "unsound") != "old" || selector("deployments", "somebodys") != "old" {
		t.Error("a workload was removed in whose place nothing can come, or that is not ours")
	}
	if selector("statefulsets", "data") != "old" || !strings.Contains(fmt.Sprint(err), "apply StatefulSet kube-system/data: ") {
		t.Errorf("a workload with data was removed: %v", err)
	}
	if err == nil || !strings.Contains(err.Error(), "apply Deployment kube-system/somebodys: ") || strings.Contains(err.Error(), "kube-system/anew: Deployment.apps") {
		t.Errorf("got %v", err)
	}
	if err := pass(binding("edit")); err != nil {
		t.Error(err)
	}
	role, _, err := unstructured.NestedString(c.get(t, "rbac.authorization.k8s.io/clusterrolebindings", "", "anew").Object, "roleRef", "name")
	if err != nil || role != "edit" {
		t.Errorf("the binding is to the role %q: %v", role, err)
	}
}
