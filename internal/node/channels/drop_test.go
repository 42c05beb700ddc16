package channels

import (
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kops.local/kops/api"
	"kops.local/kops/internal/store"
)

// list publishes a channel of add-ons that consist of a manifest only.
func (c *cluster) list(t *testing.T, manifests map[string]string) {
	t.Helper()
	var addons []api.Addon
	for _, name := range slices.Sorted(maps.Keys(manifests)) {
		addons = append(addons, api.Addon{Name: name})
	}
	c.publish(t, addons, manifests)
}

// sibling returns the same cluster with another channel.
func (c *cluster) sibling(t *testing.T) *cluster {
	t.Helper()
	dir := t.TempDir()
	files, err := store.Backends{store.Folders()}.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{c.Applier, files, "file://" + dir + "/addons/bootstrap-channel.yaml"}
}

func (c *cluster) mustPass(t *testing.T) {
	t.Helper()
	if err := c.pass(t); err != nil {
		t.Fatal(err)
	}
}

// expectMaps checks which ConfigMaps exist in kube-system.
func (c *cluster) expectMaps(t *testing.T, when string, want map[string]bool) {
	t.Helper()
	for name, want := range want {
		if got := c.get(t, "configmaps", "kube-system", name) != nil; got != want {
			t.Errorf("%s: %s exists: %v", when, name, got)
		}
	}
}

// bareConfigMap returns a ConfigMap without labels.
func bareConfigMap(name string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", namespace: kube-system}\n"
}

func testDroppedAddon(t *testing.T, c *cluster) {
	const cron = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: cron}\nspec: {schedule: '@daily', jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: 'i:1'}]}}}}}\n"
	const role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: leaves}\nrules: []\n"
	const kind = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: gadgets.example.net}\nspec:\n" +
		"  group: example.net\n  names: {kind: Gadget, plural: gadgets, singular: gadget}\n  scope: Namespaced\n" +
		"  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]\n"
	stays := configMap("stays.io", "stays-1", "1")
	both := map[string]string{"stays.io": stays, "leaves.io": "apiVersion: v1\nkind: Namespace\nmetadata: {name: leaves}\n---\n" + kind + "---\n" +
		"apiVersion: example.net/v1\nkind: Gadget\nmetadata: {name: g}\n---\n" + configMap("leaves.io", "leaves-1", "1") + "---\n" + bareConfigMap("leaves-2") + "---\n" + cron + "---\n" + role}
	c.list(t, both)
	c.eventually(t)
	// a later version that no longer contains one of the objects, and does not prune, still keeps track of it
	both["leaves.io"] = strings.Replace(both["leaves.io"], "leaves-1", "leaves-3", 1)
	c.list(t, both)
	c.mustPass(t)
	c.expectMaps(t, "applied", map[string]bool{"stays-1": true, "leaves-1": true, "leaves-2": true, "leaves-3": true})

	c.list(t, map[string]string{"stays.io": stays})
	states, err := c.Compare(t.Context(), []string{c.url})
	if err != nil || len(states) != 2 || states[0].Dropped || !states[1].Dropped || states[1].Addon.Name != "leaves.io" {
		t.Fatalf("got %+v, %v", states, err)
	}
	removed, kept, err := c.PreviewRemoval(t.Context(), states[1])
	if want := []string{"ConfigMap kube-system/leaves-1", "ClusterRole leaves", "CronJob default/cron", "ConfigMap kube-system/leaves-2", "ConfigMap kube-system/leaves-3", "Gadget default/g"}; err != nil || !hasSameNames(removed, want) {
		t.Errorf("would remove %v, want %v: %v", removed, want, err)
	}
	if want := []string{"CustomResourceDefinition gadgets.example.net", "Namespace leaves"}; !hasSameNames(kept, want) {
		t.Errorf("would keep %v, want %v", kept, want)
	}
	c.expectMaps(t, "shown", map[string]bool{"leaves-1": true})

	c.mustPass(t)
	c.expectMaps(t, "dropped", map[string]bool{"stays-1": true, "leaves-1": false, "leaves-2": false, "leaves-3": false})
	for what, want := range map[[3]string]bool{
		{"batch/cronjobs", "default", "cron"}: false, {"rbac.authorization.k8s.io/clusterroles", "", "leaves"}: false, {"example.net/gadgets", "default", "g"}: false,
		{"namespaces", "", "leaves"}: true, {"apiextensions.k8s.io/customresourcedefinitions", "", "gadgets.example.net"}: true,
	} {
		if got := c.get(t, what[0], what[1], what[2]) != nil; got != want {
			t.Errorf("%v exists: %v", what, got)
		}
	}
	if a := c.get(t, "namespaces", "", "kube-system").GetAnnotations(); a["addons.k8s.io/leaves.io"] != "" || a["addons.k8s.io/stays.io"] == "" {
		t.Errorf("recorded %v", a)
	}
	c.list(t, both)
	c.mustPass(t)
	c.expectMaps(t, "listed again", map[string]bool{"leaves-2": true, "leaves-3": true})
}

func hasSameNames(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

func testNotOurs(t *testing.T, c *cluster) {
	names := []string{"own", "made-anew", "disowned", "alike"}
	manifest := ""
	for _, n := range names[:3] {
		manifest += configMap("mixed.io", n, "1") + "---\n"
	}
	c.list(t, map[string]string{"mixed.io": manifest, "else.io": bareConfigMap("else")})
	c.mustPass(t)
	r := c.Client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("kube-system")
	create := func(name string, labels map[string]any) {
		t.Helper()
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "labels": labels}}}
		if _, err := r.Create(t.Context(), o, metav1.CreateOptions{FieldManager: "somebody"}); err != nil {
			t.Fatal(err)
		}
	}
	// objects were changed by others: one recreated under the same name, one without its label,
	// and a new one with our labels
	if err := r.Delete(t.Context(), "made-anew", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	create("made-anew", nil)
	if _, err := r.Patch(t.Context(), "disowned", types.MergePatchType, []byte(`{"metadata":{"labels":{"addon.kops.k8s.io/name":null}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	create("alike", map[string]any{"addon.kops.k8s.io/name": "mixed.io", "app.kubernetes.io/managed-by": "kops"})
	// and kOps applied an add-on of this channel
	create("of-kops", map[string]any{"addon.kops.k8s.io/name": "taken.io", "app.kubernetes.io/managed-by": "kops"})
	text := `{"channel":"` + c.url + `","id":"k8s-1.12","manifestHash":"0","systemGeneration":1}`
	if err := c.annotate(t.Context(), namespaces(), "kube-system", "addons.k8s.io/taken.io", text); err != nil {
		t.Fatal(err)
	}
	c.list(t, map[string]string{"else.io": bareConfigMap("else")})
	c.mustPass(t)
	c.expectMaps(t, "dropped", map[string]bool{"own": false, "made-anew": true, "disowned": true, "alike": true, "of-kops": true, "else": true})
	if got := c.get(t, "namespaces", "", "kube-system").GetAnnotations()["addons.k8s.io/taken.io"]; got != text {
		t.Errorf("the record of kOps is now %q", got)
	}
}

func testLostChannel(t *testing.T, c *cluster) {
	manifests := map[string]string{"kept-a.io": bareConfigMap("kept-a"), "kept-b.io": bareConfigMap("kept-b")}
	c.list(t, manifests)
	c.mustPass(t)
	broken := strings.Repeat("0", 64)
	for text, says := range map[string]string{
		"\n": "bootstrap-channel.yaml: it is empty",
		"kind: Addons\nmetadata: {name: bootstrap}\n":                                                             "lists no add-on",
		"kind: Addons\nspec: {addons: []}\n":                                                                      "lists no add-on, but kept-a.io, kept-b.io",
		"kind: Addons\nspec: {addons: [{name: kept-a.io}]}\n":                                                     "no name or no manifest",
		"kind: Addons\nspec: {addons: [{name: kept-a.io, manifest: a, mistyped: 1}]}\n":                           "mistyped",
		"kind: Addons\nspec: {addons: [":                                                                          "document 1",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other, namespace: kube-system}\n":                      "lists no add-on",
		"kind: Addons\nspec: {addons: [{name: new.io, manifest: absent.yaml, manifestHash: " + broken + "}]}\n":   "absent.yaml",
		"kind: Addons\nspec: {addons: [{name: new.io, manifest: kept-a.io/default.yaml, manifestHash: '000'}]}\n": "but the channel names",
	} {
		if _, err := c.files.Put(t.Context(), "addons/bootstrap-channel.yaml", []byte(text), store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := c.pass(t); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, want %q", text, err, says)
		}
		c.expectMaps(t, text, map[string]bool{"kept-a": true, "kept-b": true})
	}
	// an unreadable channel protects what another one dropped, because it may list it
	c.list(t, map[string]string{"kept-a.io": bareConfigMap("kept-a")})
	if err := c.Pass(t.Context(), []string{c.url, c.url + ".absent"}); err == nil || !strings.Contains(err.Error(), ".absent") {
		t.Errorf("got %v", err)
	}
	c.expectMaps(t, "beside an absent channel", map[string]bool{"kept-a": true, "kept-b": true})
	c.mustPass(t)
	c.expectMaps(t, "read", map[string]bool{"kept-a": true, "kept-b": false})
}

func testApart(t *testing.T, c *cluster) {
	other := c.sibling(t)
	c.list(t, map[string]string{"apart-1.io": bareConfigMap("apart-1"), "apart-2.io": bareConfigMap("apart-2")})
	other.list(t, map[string]string{"apart-3.io": bareConfigMap("apart-3"), "apart-4.io": bareConfigMap("apart-4")})
	urls := []string{c.url, other.url}
	if err := c.Pass(t.Context(), urls); err != nil {
		t.Fatal(err)
	}
	c.mustPass(t) // of only one channel
	c.expectMaps(t, "one channel", map[string]bool{"apart-1": true, "apart-3": true, "apart-4": true})
	// an add-on that another channel lists now stays, and belongs to that channel
	c.list(t, map[string]string{"apart-1.io": bareConfigMap("apart-1")})
	other.list(t, map[string]string{"apart-2.io": bareConfigMap("apart-2"), "apart-3.io": bareConfigMap("apart-3")})
	if err := c.Pass(t.Context(), urls); err != nil {
		t.Fatal(err)
	}
	c.expectMaps(t, "moved", map[string]bool{"apart-1": true, "apart-2": true, "apart-3": true, "apart-4": false})
	other.mustPass(t)
	c.mustPass(t)
	before := c.get(t, "namespaces", "", "kube-system").GetResourceVersion()
	c.list(t, map[string]string{"apart-1.io": bareConfigMap("apart-1"), "apart-2.io": bareConfigMap("apart-2")}) // which both list
	for range 2 {
		if err := c.Pass(t.Context(), urls); err != nil {
			t.Fatal(err)
		}
	}
	if now := c.get(t, "namespaces", "", "kube-system").GetResourceVersion(); now != before {
		t.Error("an add-on that two channels list is recorded again and again")
	}
	c.list(t, map[string]string{"apart-1.io": bareConfigMap("apart-1")})
	c.expectMaps(t, "read alone", map[string]bool{"apart-2": true})
	other.list(t, map[string]string{"apart-3.io": bareConfigMap("apart-3")})
	other.mustPass(t)
	c.expectMaps(t, "dropped by the second channel", map[string]bool{"apart-1": true, "apart-2": false, "apart-3": true})
}

func testRenamed(t *testing.T, c *cluster) {
	c.list(t, map[string]string{"old-name.io": bareConfigMap("shared") + "---\n" + bareConfigMap("only-old")})
	c.mustPass(t)
	// while the new one cannot be applied, nothing of the old one is removed
	c.list(t, map[string]string{"new-name.io": bareConfigMap("shared") + "---\napiVersion: example.org/v1\nkind: Unknown\nmetadata: {name: x}\n"})
	if err := c.pass(t); err == nil {
		t.Error("an object of an unknown kind was applied")
	}
	c.expectMaps(t, "not applied", map[string]bool{"shared": true, "only-old": true})
	c.list(t, map[string]string{"new-name.io": bareConfigMap("shared")})
	c.mustPass(t)
	c.expectMaps(t, "applied", map[string]bool{"shared": true, "only-old": false})
}

func testNeverRan(t *testing.T, c *cluster) {
	manifests := map[string]string{"runs.io": bareConfigMap("runs"), "never-ran.io": bareConfigMap("never-ran") + "---\n" + strings.ReplaceAll(deploymentText, "slow", "never-ran")}
	c.list(t, manifests)
	if err := c.pass(t); err == nil || !strings.Contains(err.Error(), "never-ran.io") {
		t.Fatalf("got %v", err)
	}
	c.list(t, map[string]string{"runs.io": bareConfigMap("runs")})
	c.mustPass(t)
	c.expectMaps(t, "dropped", map[string]bool{"runs": true, "never-ran": false})
	if c.get(t, "apps/deployments", "kube-system", "never-ran") != nil {
		t.Error("the deployment of an add-on that never ran is still there")
	}
}

func testFinalizers(t *testing.T, c *cluster) {
	held := strings.Replace(bareConfigMap("held"), "{name", "{finalizers: [example.com/slow], name", 1)
	c.list(t, map[string]string{"rest.io": bareConfigMap("rest"), "held.io": held + "---\n" + bareConfigMap("controller")})
	c.mustPass(t)
	c.list(t, map[string]string{"rest.io": bareConfigMap("rest")})
	for range 2 {
		if err := c.pass(t); err == nil || !strings.Contains(err.Error(), "once ConfigMap kube-system/held is gone, which has the finalizers example.com/slow") {
			t.Errorf("got %v", err)
		}
		c.expectMaps(t, "held", map[string]bool{"held": true, "controller": true})
	}
	r := c.Client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("kube-system")
	if _, err := r.Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	c.mustPass(t)
	c.expectMaps(t, "let go", map[string]bool{"held": false, "controller": false, "rest": true})
}
