package clusterstore_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store/clusterstore"
)

const name = "demo.example.com"

func create(t *testing.T, s *clusterstore.Store, c *clusterstore.Contents) *clusterstore.Contents {
	t.Helper()
	out, err := s.Save(t.Context(), nil, c)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func load(t *testing.T, s *clusterstore.Store) *clusterstore.Contents {
	t.Helper()
	c, err := s.Load(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// checkSame compares the exported fields of contents.
func checkSame(t *testing.T, want, got *clusterstore.Contents) {
	t.Helper()
	if diff := cmp.Diff(want.Spec, got.Spec); diff != "" {
		t.Errorf("cluster (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want.Groups, got.Groups); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want.Additional, got.Additional); diff != "" {
		t.Errorf("additional objects (-want +got):\n%s", diff)
	}
}

func testSave(t *testing.T, w *world) {
	made := demo(name, 3)
	made.Additional = []api.Object{&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "cm"}, "data": map[string]any{"n": "1"}}}}
	first := create(t, w.client(t), made)
	checkSame(t, first, load(t, w.client(t)))
	want := []string{".kops/demo.example.com/pack", "demo.example.com/clusteraddons/default", "demo.example.com/config",
		"demo.example.com/instancegroup/nodes-00", "demo.example.com/instancegroup/nodes-01", "demo.example.com/instancegroup/nodes-02"}
	if diff := cmp.Diff(want, w.raw(t)); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	group := `apiVersion: kops.k8s.io/v1alpha2
kind: InstanceGroup
metadata:
  creationTimestamp: "2026-01-02T03:04:05Z"
  name: nodes-01
spec:
  machineType: t3.medium
  role: Node
`
	if diff := cmp.Diff(group, w.get(t, name+"/instancegroup/nodes-01")); diff != "" {
		t.Errorf("stored group (-want +got):\n%s", diff)
	}
	if made.Spec.CreationTimestamp != (api.Cluster{}).CreationTimestamp {
		t.Error("what was saved was changed")
	}

	// The spec of one group changes, another group is deleted, one is new, and of the cluster only a label
	// changes.
	w.Pass(1e9)
	now := first.Clone()
	now.Groups = append(now.Groups[:1:1], now.Groups[2], demo(name, 4).Groups[3])
	now.Groups[0].Spec.MachineType = "t3.large"
	now.Spec.Labels = map[string]string{"team": "a"}
	now.Additional = nil
	second, err := w.client(t).Save(t.Context(), first, now)
	if err != nil {
		t.Fatal(err)
	}
	got := load(t, w.client(t))
	checkSame(t, second, got)
	if len(got.Groups) != 3 || got.Group("nodes-01") != nil || got.Group("nodes-00").Spec.MachineType != "t3.large" || len(got.Additional) != 0 {
		t.Errorf("after the change: %+v", got)
	}
	generations := []int64{got.Spec.Generation, got.Group("nodes-00").Generation, got.Group("nodes-02").Generation, got.Group("nodes-03").Generation}
	if !slices.Equal(generations, []int64{0, 1, 0, 0}) {
		t.Errorf("generations of cluster, changed, unchanged and new group: %v", generations)
	}
	if a, b := got.Group("nodes-00").CreationTimestamp, got.Group("nodes-03").CreationTimestamp; a.Unix()+1 != b.Unix() {
		t.Errorf("times of creation: %v, %v", a, b)
	}
	if first.Groups[0].Spec.MachineType != "t3.medium" {
		t.Error("the clone shares groups with what was loaded")
	}
}

func testCreatedOnce(t *testing.T, w *world) {
	create(t, w.client(t), demo(name, 1))
	other := demo(name, 2)
	other.Spec.Spec.KubernetesVersion = "1.34.0"
	_, err := w.client(t).Save(t.Context(), nil, other)
	if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "create Cluster/demo.example.com") {
		t.Errorf("a second creation: %v; want a conflict", err)
	}
	got := load(t, w.client(t))
	if got.Spec.Spec.KubernetesVersion != "1.35.0" || len(got.Groups) != 1 {
		t.Errorf("after a second creation: %+v", got)
	}
	if _, err := w.client(t).Load(t.Context(), "other.example.com"); !fault.Is(err, fault.Gone) ||
		!strings.HasPrefix(err.Error(), `cluster "other.example.com" not found in the state store `) {
		t.Errorf("load of no cluster: %v", err)
	}
	for _, bad := range []string{"", "a/b", ".kops", ".."} {
		if _, err := w.client(t).Load(t.Context(), bad); !fault.Is(err, fault.Permanent) {
			t.Errorf("load of %q: %v", bad, err)
		}
	}
}

func testLostEdit(t *testing.T, w *world) {
	create(t, w.client(t), demo(name, 2))
	a, b := w.client(t), w.client(t)
	readA, readB := load(t, a), load(t, b)
	editA, editB := readA.Clone(), readB.Clone()
	editA.Groups[0].Spec.MachineType = "of-a"
	editB.Groups[0].Spec.MachineType = "of-b"
	if _, err := a.Save(t.Context(), readA, editA); err != nil {
		t.Fatal(err)
	}
	_, err := b.Save(t.Context(), readB, editB)
	if !fault.Is(err, fault.Conflict) || fault.Remedy(err) != "read it again and repeat the change" ||
		!strings.Contains(err.Error(), "change InstanceGroup/nodes-00 of cluster demo.example.com: ") ||
		!strings.Contains(err.Error(), "was changed by someone since it was read; your change was not made") {
		t.Errorf("an edit of what another has changed: %v, remedy %q", err, fault.Remedy(err))
	}
	if got := load(t, w.client(t)).Group("nodes-00").Spec.MachineType; got != "of-a" {
		t.Errorf("the group is %s", got)
	}
	// Edits of different documents do not conflict.
	editB.Groups[0].Spec.MachineType = readB.Groups[0].Spec.MachineType
	editB.Groups[1].Spec.MachineType = "of-b"
	if _, err := b.Save(t.Context(), readB, editB); err != nil {
		t.Errorf("an edit beside another's: %v", err)
	}
	got := load(t, w.client(t))
	if got.Groups[0].Spec.MachineType != "of-a" || got.Groups[1].Spec.MachineType != "of-b" {
		t.Errorf("after both: %s, %s", got.Groups[0].Spec.MachineType, got.Groups[1].Spec.MachineType)
	}
	// Nor does a deletion override an edit that it has not seen.
	without := readB.Clone()
	without.Groups = without.Groups[1:]
	if _, err := b.Save(t.Context(), readB, without); !fault.Is(err, fault.Conflict) {
		t.Errorf("a deletion of what another has changed: %v", err)
	}
	if load(t, w.client(t)).Group("nodes-00") == nil {
		t.Error("the group is gone")
	}
}

func testOnlyDifferences(t *testing.T, w *world) {
	create(t, w.client(t), demo(name, 3))
	// kOps writes the same content in another form; that is not a change.
	odd := "kind: InstanceGroup\napiVersion: kops.k8s.io/v1alpha2\nmetadata: {name: nodes-00}\nspec: {role: Node}\n# a note\n"
	w.put(t, name+"/instancegroup/nodes-00", odd)
	s := w.client(t)
	read := load(t, s)
	edit := read.Clone()
	edit.Groups[1].Spec.MachineType = "m5.large"
	if _, err := s.Save(t.Context(), read, edit); err != nil {
		t.Fatal(err)
	}
	if got := w.get(t, name+"/instancegroup/nodes-00"); got != odd {
		t.Errorf("an unchanged group was rewritten:\n%s", got)
	}
	if got := load(t, s).Group("nodes-01").Spec.MachineType; got != "m5.large" {
		t.Errorf("the changed group is %s", got)
	}
}

func testKopsState(t *testing.T, w *world) {
	w.put(t, name+"/config", `apiVersion: kops/v1alpha2
kind: Cluster
metadata:
  creationTimestamp: "2025-05-06T07:08:09Z"
  generation: 3
spec:
  cloudProvider: aws
  kubernetesVersion: 1.34.1
  someFieldOfTheFuture: 1
`)
	w.put(t, name+"/instancegroup/control-plane-a", "apiVersion: kops.k8s.io/v1alpha2\nkind: InstanceGroup\nmetadata:\n  name: control-plane-a\nspec:\n  role: Master\n")
	w.put(t, name+"/instancegroup/nodes", "apiVersion: kops.k8s.io/v1alpha3\nkind: InstanceGroup\nmetadata: {}\nspec:\n  role: Node\n")
	w.put(t, name+"/clusteraddons/default", "")
	w.put(t, name+"/cluster.spec", "old")
	w.put(t, name+"/instancegroup/sub/folder", "not a group")
	got := load(t, w.client(t))
	if got.Spec.Name != name || got.Spec.Generation != 3 || got.Spec.Spec.CloudProvider.AWS == nil ||
		got.Spec.Spec.ConfigStore.Base != w.client(t).URL()+"/"+name {
		t.Errorf("cluster: %+v", got.Spec)
	}
	if len(got.Groups) != 2 || got.Groups[0].Spec.Role != api.RoleControlPlane || got.Groups[1].Name != "nodes" ||
		got.Groups[1].Labels[api.LabelCluster] != name {
		t.Errorf("groups: %+v", got.Groups)
	}
	if len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0].String(), "someFieldOfTheFuture") ||
		!strings.Contains(got.Warnings[0].String(), name+"/config") {
		t.Errorf("warnings: %v", got.Warnings)
	}
	edit := got.Clone()
	edit.Spec.Spec.KubernetesVersion = "1.35.0"
	before := w.get(t, name+"/config")
	if _, err := w.client(t).Save(t.Context(), got, edit); err == nil || !strings.Contains(err.Error(), "does not know: spec.someFieldOfTheFuture; your") || w.get(t, name+"/config") != before {
		t.Errorf("an edit that drops a field: %v", err)
	}
	edit.Rewrite(edit.Spec)
	after, err := w.client(t).Save(t.Context(), got, edit)
	if err != nil || after.Spec.Generation != 4 {
		t.Errorf("an edit: %+v, %v", after, err)
	}
	w.put(t, name+"/instancegroup/renamed", "apiVersion: kops.k8s.io/v1alpha2\nkind: InstanceGroup\nmetadata:\n  name: nodes\nspec:\n  role: Node\n")
	if _, err := w.client(t).Load(t.Context(), name); err == nil || !strings.Contains(err.Error(),
		`instancegroup/renamed: metadata.name: must be the name under which the file is stored, "renamed", got "nodes"`) {
		t.Errorf("a group under another's name: %v", err)
	}
}

func testClustersFound(t *testing.T, w *world) {
	s := w.client(t)
	if names, err := s.Names(t.Context()); len(names) != 0 || err != nil {
		t.Errorf("an empty store: %q, %v", names, err)
	}
	for _, n := range []string{"b.example.com", "a.example.com", "a-b.example.com"} {
		create(t, s, demo(n, 1))
	}
	w.put(t, "broken.example.com/config", "kind: Cluster\napiVersion: kops.k8s.io/v1alpha2\nspec: [")
	w.put(t, "a.example.com/secrets/config", `{"Data":""}`)
	w.put(t, "a.example.com/addons/mine/config", "comes before the config of the cluster")
	w.put(t, "copies/a.example.com/config", "of no cluster: its name would have a slash")
	w.put(t, ".kops/x/config", "ours")
	w.put(t, "config", "of nobody")
	names, err := s.Names(t.Context())
	want := []string{"a-b.example.com", "a.example.com", "b.example.com", "broken.example.com"}
	if err != nil || !slices.Equal(names, want) {
		t.Errorf("names: %q, %v", names, err)
	}
	clusters, warnings, err := s.Clusters(t.Context())
	if err != nil || len(clusters) != 3 || clusters[1].Name != "a.example.com" || clusters[1].Spec.ConfigStore.Base != s.URL()+"/a.example.com" {
		t.Errorf("clusters: %+v, %v", clusters, err)
	}
	if len(warnings) != 1 || !warnings[0].Warning || warnings[0].Object != "Cluster/broken.example.com" {
		t.Errorf("warnings: %v", warnings)
	}
}

func TestClustersOfNames(t *testing.T) {
	w := inMemory()
	create(t, w.client(t), demo("a.example.com", 0))
	create(t, w.client(t), demo("b.example.com", 0))
	w.put(t, "broken.example.com/config", "kind: Cluster\nspec: [")
	s := w.client(t, func(c *clusterstore.Config) { c.State = unlistableStore{c.State} })
	got, warnings, err := s.ClustersNamed(t.Context(), "b.example.com", "a.example.com")
	if err != nil || len(got) != 2 || len(warnings) != 0 || got[0].Name != "b.example.com" || got[1].Spec.ConfigStore.Base != s.URL()+"/a.example.com" {
		t.Errorf("%+v, %v, %v", got, warnings, err)
	}
	if _, _, err := s.ClustersNamed(t.Context(), "a.example.com", "c.example.com"); !fault.Is(err, fault.Gone) || err.Error() != `cluster not found "c.example.com"` {
		t.Errorf("one that is not: %v", err)
	}
	if _, _, err := s.ClustersNamed(t.Context(), "broken.example.com"); err == nil || !strings.Contains(err.Error(), "broken.example.com/config") {
		t.Errorf("one that cannot be read: %v", err)
	}
	if _, _, err := s.ClustersNamed(t.Context(), "../x"); !fault.Is(err, fault.Permanent) {
		t.Errorf("a name that is none: %v", err)
	}
}

// Other programs may have put objects into the bucket whose keys no store of ours can hold.
func TestClustersBesideOddKeys(t *testing.T) {
	w := inMemory()
	create(t, w.client(t), demo(name, 1))
	s := w.client(t, func(c *clusterstore.Config) {
		c.State = overlistingStore{w.open(), []string{"/config", "/x/config", "//x/config", "../x/config", "./config"}}
	})
	if names, err := s.Names(t.Context()); err != nil || !slices.Equal(names, []string{name}) {
		t.Errorf("names: %q, %v", names, err)
	}
}

func TestBadContentsAreNotSaved(t *testing.T) {
	w := inMemory()
	s := w.client(t)
	twice := demo(name, 2)
	twice.Groups[1].Name = twice.Groups[0].Name
	badGroup := demo(name, 1)
	badGroup.Groups[0].Name = "../config"
	nested := demo(name, 1)
	nested.Groups[0].Name = "a/b" // it would be written, but never read again
	for what, c := range map[string]*clusterstore.Contents{"two groups of a name": twice, "a way out": badGroup, "a group in a folder": nested, "no name": demo("", 1), "a folder": demo("a/b", 1)} {
		if _, err := s.Save(t.Context(), nil, c); !fault.Is(err, fault.Permanent) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if keys := w.raw(t); keys != nil {
		t.Errorf("something was written: %q", keys)
	}
	was := create(t, s, demo(name, 1))
	other := was.Clone()
	other.Spec.Name = "other.example.com"
	if _, err := s.Save(t.Context(), was, other); !fault.Is(err, fault.Permanent) {
		t.Errorf("another name: %v", err)
	}
}

func TestStoreErrorsAreNotHidden(t *testing.T) {
	w := inMemory()
	broken := errors.New("the disk is on fire")
	create(t, w.client(t), demo(name, 1))
	s := w.client(t, func(c *clusterstore.Config) { c.State = failingStore{c.State, broken} })
	if _, err := s.Load(t.Context(), name); !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "read cluster demo.example.com: ") {
		t.Errorf("load: %v", err)
	}
	if _, err := s.Save(t.Context(), nil, demo("new.example.com", 1)); !errors.Is(err, broken) {
		t.Errorf("save: %v", err)
	}
	if _, warnings, err := s.Clusters(t.Context()); err != nil || len(warnings) != 1 || !strings.Contains(warnings[0].String(), "on fire") {
		t.Errorf("clusters: %v, %v", warnings, err)
	}
}

// TestRemainsAreNotTakenOver checks that nothing is written if a deleted cluster has left files
// behind.
func TestRemainsAreNotTakenOver(t *testing.T) {
	w := inMemory()
	const rest = name + "/instancegroup/nodes-00"
	w.put(t, rest, "kind: InstanceGroup")
	_, err := w.client(t).Save(t.Context(), nil, demo(name, 1))
	if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), rest) {
		t.Errorf("the error is %v", err)
	}
	if keys := w.raw(t); !slices.Equal(keys, []string{rest}) {
		t.Errorf("the store holds %q", keys)
	}
}
