package api

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestDeepCopySharesNothing(t *testing.T) {
	c := &Cluster{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"k": "v"}}}
	c.Spec.Networking.Subnets = []ClusterSubnetSpec{{Name: "s"}}
	c.Spec.Networking.Kubenet = &KubenetNetworkingSpec{}
	d := c.DeepCopy()
	d.Labels["k"], d.Spec.Networking.Subnets[0].Name = "w", "t"
	if c.Labels["k"] != "v" || c.Spec.Networking.Subnets[0].Name != "s" {
		t.Errorf("changed through its copy: %v", c)
	}
	if d.Name != "a" || d.Spec.Networking.Kubenet == nil {
		t.Errorf("the copy lacks something: %v", d)
	}
	l := &List[Cluster]{Items: []Cluster{*c}}
	l.DeepCopyObject().(*List[Cluster]).Items[0].Labels["k"] = "w"
	if c.Labels["k"] != "v" {
		t.Errorf("changed through the copy of a list: %v", c)
	}
	if (*Keyset)(nil).DeepCopy() != nil {
		t.Error("the copy of nothing is something")
	}
}

func TestCloudProviderID(t *testing.T) {
	for _, c := range []struct {
		name    string
		cluster Cluster
		want    CloudProviderID
	}{
		{"none", Cluster{}, ""},
		{"one", Cluster{Spec: ClusterSpec{CloudProvider: CloudProviderSpec{DO: &DOSpec{}}}}, CloudDO},
		{"the label for metal beats the spec", Cluster{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{LabelMetalCloud: "metal"}},
			Spec:       ClusterSpec{CloudProvider: CloudProviderSpec{AWS: &AWSSpec{}}},
		}, CloudMetal},
		{"another label does not", Cluster{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{LabelMetalCloud: "aws"}},
			Spec:       ClusterSpec{CloudProvider: CloudProviderSpec{GCE: &GCESpec{}}},
		}, CloudGCE},
		{"a platform without a member", Cluster{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{LabelMetalCloud: "acme"}}}, "acme"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.cluster.CloudProviderID(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestNameReturnsTheKind(t *testing.T) {
	for want, o := range map[string]Object{
		"InstanceGroup/nodes": &InstanceGroup{ObjectMeta: metav1.ObjectMeta{Name: "nodes"}},
		"ConfigMap/a":         &unstructured.Unstructured{Object: map[string]any{"kind": "ConfigMap", "metadata": map[string]any{"name": "a"}}},
	} {
		if got := Name(o); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
