package channels

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/test/kubetest"
)

// clock is the real clock, but records how long it slept.
type clock struct{ slept time.Duration }

func (c *clock) Now() time.Time { return time.Now().Add(c.slept) }

func (c *clock) Sleep(ctx context.Context, d time.Duration) error {
	c.slept += d
	return ctx.Err()
}

// cluster is an API server, an Applier for it, and the store with the channel.
type cluster struct {
	*Applier
	files store.Store
	url   string
}

func newCluster(t *testing.T, config *rest.Config) *cluster {
	t.Helper()
	a, err := NewApplier(config)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	backends := store.Backends{store.Folders()}
	files, err := backends.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	a.Fetch, a.Clock, a.Log = NewFetch(backends, nil), &clock{}, slog.New(slog.DiscardHandler)
	a.Issuer = pki.Issuer{Rand: rand.Reader, Now: time.Now, Generate: func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }}
	return &cluster{a, files, "file://" + dir + "/addons/bootstrap-channel.yaml"}
}

// publish writes a channel with one manifest for each add-on.
func (c *cluster) publish(t *testing.T, addons []api.Addon, manifests map[string]string) {
	t.Helper()
	list := &api.Addons{}
	list.Kind, list.Name = api.KindAddons, "bootstrap"
	put := func(key string, text []byte) {
		if _, err := c.files.Put(t.Context(), "addons/"+key, text, store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range addons {
		a.Manifest, a.ManifestHash = a.Name+"/default.yaml", digest([]byte(manifests[a.Name]))
		list.Spec.Addons = append(list.Spec.Addons, a)
		put(a.Manifest, []byte(manifests[a.Name]))
	}
	text, err := yaml.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	put("bootstrap-channel.yaml", text)
}

func (c *cluster) pass(t *testing.T) error {
	t.Helper()
	return c.Pass(t.Context(), []string{c.url})
}

func (c *cluster) get(t *testing.T, resource, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	group, resource, ok := strings.Cut(resource, "/")
	if !ok {
		group, resource = "", group
	}
	o, err := c.Client.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}).Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func (c *cluster) version(t *testing.T, addon string) Version {
	t.Helper()
	var v Version
	if text := c.get(t, "namespaces", "", "kube-system").GetAnnotations()["addons.k8s.io/"+addon]; text != "" {
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
	}
	return v
}

// node creates a Node with labels.
func (c *cluster) node(t *testing.T, name string, labels map[string]any) {
	t.Helper()
	n := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": name, "labels": labels}}}
	if _, err := c.Client.Resource(nodes()).Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func configMap(addon, name, value string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: ConfigMap
metadata:
  name: %s
  namespace: kube-system
  labels: {addon.kops.k8s.io/name: %s, app.kubernetes.io/managed-by: kops}
data:
  value: %q
`, name, addon, value)
}

func pruneMaps(addon string) *api.PruneSpec {
	return &api.PruneSpec{Kinds: []api.PruneKind{
		{Kind: "ConfigMap", LabelSelector: "addon.kops.k8s.io/name=" + addon + ",app.kubernetes.io/managed-by=kops"},
		{Group: "karpenter.sh", Kind: "NodePool", LabelSelector: "addon.kops.k8s.io/name=" + addon},
	}}
}

func TestAgainstARealAPIServer(t *testing.T) {
	config := kubetest.Start(t)
	for name, test := range map[string]func(*testing.T, *cluster){
		"an add-on is applied and recorded": testApplied,
		"what a manifest no longer holds":   testPruned,
		"what is never pruned":              testNeverPruned,
		"what cannot be changed":            testRecreated,
		"a kind and its objects":            testDefined,
		"an add-on that is not healthy":     testAwaited,
		"an add-on with an authority":       testKeypairs,
		"nodes are marked":                  testMarked,
		"a failure is not contagious":       testIsolated,
		"labels of the own node":            testLabelled,
		"labels do not wait for add-ons":    labelsDoNotWait,
		"readiness":                         testReadiness,
		"several documents":                 testPlain,
		"an add-on that was dropped":        testDroppedAddon,
		"what is not ours stays":            testNotOurs,
		"a channel that cannot be right":    testLostChannel,
		"channels are kept apart":           testApart,
		"an add-on of another name":         testRenamed,
		"an add-on that never ran":          testNeverRan,
		"finalizers go first":               testFinalizers,
		"what users created stays":          testUsers,
	} {
		t.Run(name, func(t *testing.T) { test(t, newCluster(t, config)) })
	}
}

// testUsers: a user's ConfigMap of the name that an add-on uses is not changed, unless the add-on is the
// user's own, which has no label in its file.
func testUsers(t *testing.T, c *cluster) {
	r := c.Client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("kube-system")
	for _, name := range []string{"users", "users-too"} {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": map[string]any{"value": "mine"}}}
		if _, err := r.Create(t.Context(), o, metav1.CreateOptions{FieldManager: "kubectl-create"}); err != nil {
			t.Fatal(err)
		}
	}
	ours, own := api.Addon{Name: "ours.addons.k8s.io"}, api.Addon{Name: "own.example.com"}
	unlabelled := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: users-too, namespace: kube-system}\ndata: {value: newer}\n"
	c.publish(t, []api.Addon{ours, own}, map[string]string{ours.Name: configMap(ours.Name, "users", "ours"), own.Name: unlabelled})
	for range 2 {
		if err := c.pass(t); err != nil {
			t.Fatal(err)
		}
	}
	// and one that a user's add-on has applied is not an add-on's of kops
	c.publish(t, []api.Addon{ours, own}, map[string]string{ours.Name: configMap(ours.Name, "users-too", "ours"), own.Name: unlabelled})
	if err := c.pass(t); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"users": "mine", "users-too": "newer"} {
		if v, _, _ := unstructured.NestedString(c.get(t, "configmaps", "kube-system", name).Object, "data", "value"); v != want {
			t.Errorf("%s has the value %q, want %q", name, v, want)
		}
	}
}

func testApplied(t *testing.T, c *cluster) {
	addon := api.Addon{Name: "one.addons.k8s.io", ID: "k8s-1.12"}
	c.publish(t, []api.Addon{addon}, map[string]string{addon.Name: configMap(addon.Name, "one", "a")})
	if err := c.pass(t); err != nil {
		t.Fatal(err)
	}
	o := c.get(t, "configmaps", "kube-system", "one")
	if o == nil || o.GetManagedFields()[0].Manager != "kops" || o.GetManagedFields()[0].Operation != metav1.ManagedFieldsOperationApply {
		t.Fatalf("got %v", o)
	}
	first := c.version(t, addon.Name)
	if want := (Version{c.url, "k8s-1.12", digest([]byte(configMap(addon.Name, "one", "a"))), 1}); first != want {
		t.Errorf("recorded %+v, want %+v", first, want)
	}

	// a recorded object is not applied again, even if it was edited
	patch := []byte(`{"data":{"value":"edited"}}`)
	r := c.Client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("kube-system")
	if _, err := r.Patch(t.Context(), "one", types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
		t.Fatal(err)
	}
	if err := c.pass(t); err != nil {
		t.Fatal(err)
	}
	value := func() any {
		v, _, _ := unstructured.NestedString(c.get(t, "configmaps", "kube-system", "one").Object, "data", "value")
		return v
	}
	if value() != "edited" {
		t.Errorf("an unchanged add-on was applied again: %v", value())
	}

	// different content is applied, and overwrites changes by other clients
	c.publish(t, []api.Addon{addon}, map[string]string{addon.Name: configMap(addon.Name, "one", "b")})
	if err := c.pass(t); err != nil || value() != "b" {
		t.Errorf("%v: %v", value(), err)
	}
	// and so is another ID of the same content
	addon.ID = "k8s-1.16"
	c.publish(t, []api.Addon{addon}, map[string]string{addon.Name: configMap(addon.Name, "one", "b")})
	if err := c.pass(t); err != nil || c.version(t, addon.Name).ID != "k8s-1.16" {
		t.Errorf("recorded %+v: %v", c.version(t, addon.Name), err)
	}
}

func testPruned(t *testing.T, c *cluster) {
	addon := api.Addon{Name: "two.addons.k8s.io", Prune: pruneMaps("two.addons.k8s.io")}
	c.publish(t, []api.Addon{addon}, map[string]string{addon.Name: configMap(addon.Name, "kept", "1") + "---\n" + configMap(addon.Name, "dropped", "1") + "---\n" + configMap("other", "others", "1")})
	if err := c.pass(t); err != nil {
		t.Fatal(err)
	}
	c.publish(t, []api.Addon{addon}, map[string]string{addon.Name: configMap(addon.Name, "kept", "2")})
	if err := c.pass(t); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"kept": true, "dropped": false, "others": true} {
		if got := c.get(t, "configmaps", "kube-system", name) != nil; got != want {
			t.Errorf("%s exists: %v", name, got)
		}
	}
	c.publish(t, []api.Addon{addon}, map[string]string{addon.Name: ""})
	if err := c.pass(t); err != nil || c.get(t, "configmaps", "kube-system", "kept") != nil {
		t.Errorf("an empty manifest removes nothing: %v", err)
	}
	// an add-on without Prune removes nothing
	addon.Prune = nil
	c.publish(t, []api.Addon{addon}, map[string]string{addon.Name: configMap(addon.Name, "stays", "1")})
	if err := c.pass(t); err != nil {
		t.Fatal(err)
	}
	c.publish(t, []api.Addon{addon}, map[string]string{addon.Name: configMap(addon.Name, "next", "1")})
	if err := c.pass(t); err != nil || c.get(t, "configmaps", "kube-system", "stays") == nil {
		t.Errorf("an object is gone: %v", err)
	}
}

// A selector may be too wide, and a list of kinds too long.
func testNeverPruned(t *testing.T, c *cluster) {
	const ours = "labels: {addon.kops.k8s.io/name: wide, app.kubernetes.io/managed-by: kops}}\n"
	addon := api.Addon{Name: "wide", Prune: &api.PruneSpec{Kinds: []api.PruneKind{
		{Kind: "Namespace", LabelSelector: "app.kubernetes.io/managed-by=kops"}, {Kind: "PersistentVolumeClaim", LabelSelector: "app.kubernetes.io/managed-by=kops"},
		{Kind: "ConfigMap", LabelSelector: "app.kubernetes.io/managed-by=kops"},
	}}}
	other := api.Addon{Name: "narrow"}
	c.publish(t, []api.Addon{addon, other}, map[string]string{other.Name: configMap(other.Name, "others", "1"),
		addon.Name: "apiVersion: v1\nkind: Namespace\nmetadata: {name: home, " + ours + "---\n" + configMap(addon.Name, "own", "1") + "---\n" +
			"apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: disk, namespace: kube-system, " + ours +
			"spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n"})
	if err := c.pass(t); err != nil {
		t.Fatal(err)
	}
	c.publish(t, []api.Addon{addon, other}, map[string]string{other.Name: configMap(other.Name, "others", "1"), addon.Name: ""})
	if err := c.pass(t); err != nil {
		t.Fatal(err)
	}
	for _, o := range []struct {
		resource, namespace, name string
		there                     bool
	}{{"namespaces", "", "home", true}, {"persistentvolumeclaims", "kube-system", "disk", true}, {"configmaps", "kube-system", "others", true}, {"configmaps", "kube-system", "own", false}} {
		got := c.get(t, o.resource, o.namespace, o.name)
		if there := got != nil && got.GetDeletionTimestamp() == nil; there != o.there {
			t.Errorf("%s %s is there: %t", o.resource, o.name, there)
		}
	}
}

const widgets = `apiVersion: example.com/v1
kind: Widget
metadata: {name: w, namespace: widgets}
spec: {size: 3}
---
apiVersion: v1
kind: Namespace
metadata: {name: widgets}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets, singular: widget}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

// eventually runs passes until one succeeds.
func (c *cluster) eventually(t *testing.T) {
	t.Helper()
	var err error
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if err = c.pass(t); err == nil {
			return
		}
	}
	t.Fatal(err)
}

func testDefined(t *testing.T, c *cluster) {
	addon := api.Addon{Name: "widgets.addons.k8s.io", Namespace: "widgets"}
	c.publish(t, []api.Addon{addon}, map[string]string{addon.Name: widgets})
	c.eventually(t) // the API server serves a new kind shortly after it is defined
	if c.get(t, "example.com/widgets", "widgets", "w") == nil {
		t.Error("the object of the new kind does not exist")
	}
	if c.get(t, "namespaces", "", "widgets").GetAnnotations()["addons.k8s.io/widgets.addons.k8s.io"] == "" {
		t.Error("the version is not recorded in the add-on's own namespace")
	}
}

const deploymentText = `apiVersion: apps/v1
kind: Deployment
metadata: {name: slow, namespace: kube-system}
spec:
  replicas: 2
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec: {containers: [{name: c, image: example.com/i}]}
`

func testAwaited(t *testing.T, c *cluster) {
	addon := api.Addon{Name: "slow.addons.k8s.io"}
	c.publish(t, []api.Addon{addon}, map[string]string{addon.Name: deploymentText})
	c.Settle = 3 * time.Second
	err := c.pass(t)
	if err == nil || !strings.Contains(err.Error(), "add-on slow.addons.k8s.io: Deployment kube-system/slow: ") {
		t.Fatalf("got %v", err)
	}
	if slept := c.Clock.(*clock).slept; slept != 3*time.Second {
		t.Errorf("waited %s", slept)
	}
	if c.get(t, "apps/deployments", "kube-system", "slow") == nil || c.version(t, addon.Name).isComplete() {
		t.Errorf("recorded %+v", c.version(t, addon.Name))
	}
	// the test plays the controller, because no pods run
	status := []byte(`{"status":{"observedGeneration":1,"replicas":2,"updatedReplicas":2,"availableReplicas":2,"readyReplicas":2}}`)
	r := c.Client.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}).Namespace("kube-system")
	if _, err := r.Patch(t.Context(), "slow", types.MergePatchType, status, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	if err := c.pass(t); err != nil || !c.version(t, addon.Name).isComplete() {
		t.Errorf("recorded %+v: %v", c.version(t, addon.Name), err)
	}
}

const issuers = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: issuers.cert-manager.io}
spec:
  group: cert-manager.io
  names: {kind: Issuer, plural: issuers, singular: issuer}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

func testKeypairs(t *testing.T, c *cluster) {
	addon := api.Addon{Name: "hook.addons.k8s.io", NeedsPKI: true}
	publish := func(more ...api.Addon) {
		c.publish(t, append([]api.Addon{addon}, more...), map[string]string{addon.Name: configMap(addon.Name, "hook", "1"), "certmanager.io": issuers})
	}
	publish()
	if err := c.pass(t); err == nil || !strings.Contains(err.Error(), "Issuer kube-system/hook.addons.k8s.io") {
		t.Fatalf("without cert-manager: %v", err)
	}
	publish(api.Addon{Name: "certmanager.io"})
	c.eventually(t)
	secret := c.get(t, "secrets", "kube-system", "hook.addons.k8s.io-ca")
	if kind, _, _ := unstructured.NestedString(secret.Object, "type"); kind != "kubernetes.io/tls" {
		t.Errorf("the secret is of type %s", kind)
	}
	ref, _, _ := unstructured.NestedString(c.get(t, "cert-manager.io/issuers", "kube-system", addon.Name).Object, "spec", "ca", "secretName")
	if ref != "hook.addons.k8s.io-ca" {
		t.Errorf("the issuer signs with %q", ref)
	}
	// a lost secret is created again although the version is recorded; an existing one stays
	r := c.Client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace("kube-system")
	if err := r.Delete(t.Context(), secret.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.eventually(t)
	again := c.get(t, "secrets", "kube-system", secret.GetName())
	if again == nil || again.GetUID() == secret.GetUID() {
		t.Fatalf("got %v", again)
	}
	addon.ID = "next"
	publish(api.Addon{Name: "certmanager.io"})
	c.eventually(t)
	if now := c.get(t, "secrets", "kube-system", secret.GetName()); now.GetResourceVersion() != again.GetResourceVersion() {
		t.Error("the authority of an add-on was changed")
	}
	// and both are removed with the add-on
	c.publish(t, []api.Addon{{Name: "certmanager.io"}}, map[string]string{"certmanager.io": issuers})
	c.mustPass(t)
	if c.get(t, "secrets", "kube-system", secret.GetName()) != nil || c.get(t, "cert-manager.io/issuers", "kube-system", addon.Name) != nil {
		t.Error("the authority of an add-on that was dropped is still there")
	}
}

func testMarked(t *testing.T, c *cluster) {
	c.node(t, "cp-1", map[string]any{"node-role.kubernetes.io/control-plane": ""})
	c.node(t, "w-1", map[string]any{"node-role.kubernetes.io/node": ""})
	marks := func() []string {
		var out []string
		for _, n := range []string{"cp-1", "w-1"} {
			if _, ok := c.get(t, "nodes", "", n).GetAnnotations()["kops.k8s.io/needs-update"]; ok {
				out = append(out, n)
			}
		}
		return out
	}
	addon := api.Addon{Name: "roll.addons.k8s.io"}
	begun := Record{Version: Version{Channel: c.url}, Objects: []identity{}} // which was never applied completely
	if err := c.record(t.Context(), Addon{Addon: addon}, begun); err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		roll string
		want []string
	}{{"all", nil}, {"control-plane", []string{"cp-1"}}, {"workers", []string{"cp-1", "w-1"}}} { // the first version marks none
		addon.NeedsRollingUpdate = step.roll
		c.publish(t, []api.Addon{addon}, map[string]string{addon.Name: configMap(addon.Name, "roll", fmt.Sprint(i))})
		if err := c.pass(t); err != nil {
			t.Fatal(err)
		}
		if got := marks(); !slices.Equal(got, step.want) {
			t.Errorf("%s: marked %v, want %v", step.roll, got, step.want)
		}
	}

	// A key that is reread at runtime does not affect nodes; the rest of its object does.
	live := func(mode, repair string) string {
		text := configMap(addon.Name, "roll", mode)
		if repair == "" {
			return text
		}
		return strings.Replace(text, "metadata:", "metadata:\n  annotations: {kops.k8s.io/live-keys: repair.yaml}", 1) + "  repair.yaml: " + repair + "\n"
	}
	addon.NeedsRollingUpdate = "all"
	for _, step := range []struct {
		mode, repair string
		want         []string
	}{{"x", "", []string{"cp-1", "w-1"}}, {"x", "first", nil}, {"x", "second", nil}, {"x", "", nil}, {"y", "second", []string{"cp-1", "w-1"}}} {
		for _, n := range []string{"cp-1", "w-1"} {
			if err := c.mergeMetadata(t.Context(), nodes(), n, "annotations", map[string]any{"kops.k8s.io/needs-update": nil}); err != nil {
				t.Fatal(err)
			}
		}
		c.publish(t, []api.Addon{addon}, map[string]string{addon.Name: live(step.mode, step.repair)})
		if err := c.pass(t); err != nil {
			t.Fatal(err)
		}
		if got := marks(); !slices.Equal(got, step.want) {
			t.Errorf("%+v: marked %v", step, got)
		}
	}
}

func testIsolated(t *testing.T, c *cluster) {
	names := []string{"bad-kind.io", "bad-yaml.io", "good.io"}
	var addons []api.Addon
	for _, n := range names {
		addons = append(addons, api.Addon{Name: n})
	}
	manifests := map[string]string{
		"bad-kind.io": "apiVersion: example.org/v1\nkind: Unknown\nmetadata: {name: x}\n---\n" + configMap("bad-kind.io", "beside", "1"),
		"bad-yaml.io": "kind: ConfigMap\nkind: ConfigMap\n", "good.io": configMap("good.io", "good", "1"),
	}
	c.publish(t, addons, manifests)
	err := c.pass(t)
	for _, want := range []string{"add-on bad-kind.io: apply Unknown x: ", "add-on bad-yaml.io: read the manifest: document 1: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if !c.version(t, "good.io").isComplete() || c.version(t, "bad-kind.io").isComplete() || c.get(t, "configmaps", "kube-system", "beside") == nil {
		t.Error("the good add-on is not recorded, or the bad one is, or its good object is missing")
	}
	// a manifest whose digest does not match the channel's is not applied
	if _, err := c.files.Put(t.Context(), "addons/good.io/default.yaml", []byte(configMap("good.io", "evil", "1")), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	c.publish(t, nil, nil)
	list := "kind: Addons\nmetadata: {name: bootstrap}\nspec:\n  addons:\n  - {name: good.io, id: x, manifest: good.io/default.yaml, manifestHash: " + strings.Repeat("0", 64) + "}\n"
	if _, err := c.files.Put(t.Context(), "addons/bootstrap-channel.yaml", []byte(list), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.pass(t); err == nil || !strings.Contains(err.Error(), "but the channel names") || c.get(t, "configmaps", "kube-system", "evil") != nil {
		t.Errorf("got %v", err)
	}
}

func testLabelled(t *testing.T, c *cluster) {
	c.node(t, "own", nil)
	labels, err := ParseLabels("node-role.kubernetes.io/control-plane,example.com/a=b")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.LabelNode(t.Context(), "own", labels); err != nil {
		t.Fatal(err)
	}
	n := c.get(t, "nodes", "", "own")
	for k, v := range map[string]string{"node-role.kubernetes.io/control-plane": "", "kops.k8s.io/kops-controller-pki": "",
		"node.kubernetes.io/exclude-from-external-load-balancers": "", "example.com/a": "b"} {
		if got, ok := n.GetLabels()[k]; !ok || got != v {
			t.Errorf("label %s is %q, %v", k, got, ok)
		}
	}
	if err := c.LabelNode(t.Context(), "own", labels); err != nil || c.get(t, "nodes", "", "own").GetResourceVersion() != n.GetResourceVersion() {
		t.Errorf("labels that are there are set again: %v", err)
	}
	if err := c.LabelNode(t.Context(), "absent", labels); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
}

func testPlain(t *testing.T, c *cluster) {
	text := configMap("x", "first", "1") + "---\n" + configMap("x", "second", "1")
	if _, err := c.files.Put(t.Context(), "plain.yaml", []byte(text), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	url := c.files.About().URL + "/plain.yaml"
	if err := c.Pass(t.Context(), []string{url}); err != nil || c.get(t, "configmaps", "kube-system", "second") == nil {
		t.Fatal(err)
	}
	states, err := c.Compare(t.Context(), []string{url})
	if err != nil || len(states) != 1 || states[0].Outdated || !strings.HasPrefix(states[0].Addon.Name, "manifest-") {
		t.Errorf("got %+v, %v", states, err)
	}
}
