package kops_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kops.local/kops"
	"kops.local/kops/api"
	"kops.local/kops/fakecloud"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/spec/newcluster"
	"kops.local/kops/internal/store"
)

// Values that later releases may infer differently are stored, whoever wrote the objects.
func TestObjectsWrittenByHandArePinned(t *testing.T) {
	b := newBench(t)
	s, err := b.stores().Open(t.Context(), "memory://channels")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), "ours.yaml", []byte(ours), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	c, err := b.NewCluster(t.Context(), request("memory://channels/ours.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	spec := &c.Spec.Spec
	spec.KubernetesVersion, spec.Networking.NonMasqueradeCIDR = "", ""
	for i := range spec.EtcdClusters {
		spec.EtcdClusters[i].Manager = nil
	}
	spec.Channel = "memory://channels/none.yaml"
	_, err = b.Clusters().Create(t.Context(), c.Objects())
	expectTexts(t, err, "memory://channels/none.yaml", "; or write spec.kubernetesVersion")
	spec.Channel = "memory://channels/ours.yaml"
	if _, err := b.Clusters().Create(t.Context(), c.Objects()); err != nil {
		t.Fatal(err)
	}
	if c, err = b.Clusters().Get(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	spec = &c.Spec.Spec
	if spec.KubernetesVersion != "1.35.4" || spec.Networking.NonMasqueradeCIDR != "100.64.0.0/10" {
		t.Errorf("stored are Kubernetes %q and the range %q", spec.KubernetesVersion, spec.Networking.NonMasqueradeCIDR)
	}
	for _, e := range spec.EtcdClusters {
		if e.Manager == nil || e.Manager.BackupRetentionDays == nil || *e.Manager.BackupRetentionDays != 90 {
			t.Errorf("etcd %s keeps its backups as %+v says", e.Name, e.Manager)
		}
	}
}

// anotherObject returns an additional object of a cluster.
func anotherObject(cluster, object string) api.Object {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	o.SetName(object)
	o.SetLabels(map[string]string{api.LabelCluster: cluster})
	return o
}

func TestObjectsAreRemovedTogetherOrNotAtAll(t *testing.T) {
	b := newBench(t)
	const other = "b.example.com"
	b.describe(func(*newcluster.Options) {})
	b.describe(func(o *newcluster.Options) { o.ClusterName = other })
	key := &api.SSHCredential{Spec: api.SSHCredentialSpec{
		PublicKey: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICL7aKqY83UOAV7YVsPM8gCxSK1d4qPtyLU1AIaszE0e me@host"}}
	key.Name, key.Labels = "admin", map[string]string{api.LabelCluster: other}
	if _, err := b.Clusters().Create(t.Context(), []api.Object{anotherObject(name, "one"), anotherObject(name, "two"), key}); err != nil {
		t.Fatal(err)
	}
	left := func() (objects, keys int) {
		t.Helper()
		c, err := b.Clusters().Get(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		all, err := b.Keys().List(t.Context(), other)
		if err != nil {
			t.Fatal(err)
		}
		return len(c.Additional), len(all)
	}
	c, err := b.Clusters().Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	for what, o := range map[string]api.Object{"a cluster": c.Spec, "a group": c.Groups[0]} {
		if _, err := b.Clusters().Remove(t.Context(), []api.Object{anotherObject(name, "one"), o}, true); err == nil {
			t.Errorf("%s was removed without its resources", what)
		}
	}
	if _, err := b.Clusters().Remove(t.Context(), []api.Object{anotherObject(name, "one"), key, anotherObject(other, "one")}, true); !fault.Is(err, fault.Gone) {
		t.Errorf("what is not there: %v", err)
	}
	wanted := []api.Object{anotherObject(name, "one"), key}
	for _, apply := range []bool{false, true} {
		if objects, keys := left(); objects != 2 || keys != 1 {
			t.Errorf("%d objects and %d keys are left too early", objects, keys)
		}
		gone, err := b.Clusters().Remove(t.Context(), wanted, apply)
		if want := []string{"ConfigMap/one", "sshpublickey/93:fb:ff:e9:9e:cf:32:e1:ce:76:b6:cf:13:f2:1e:a2"}; err != nil || !slices.Equal(gone, want) {
			t.Errorf("removed are %q, %v", gone, err)
		}
	}
	if objects, keys := left(); objects != 1 || keys != 0 {
		t.Errorf("%d objects and %d keys are left", objects, keys)
	}
}

// readOnly is a store with a part that cannot be written.
type readOnly struct {
	store.Store
	part string
}

func (r readOnly) Put(ctx context.Context, key string, data []byte, o store.PutOptions) (store.Version, error) {
	if strings.HasPrefix(key, r.part) {
		return "", fault.New(fault.Denied, "%s is read only", key)
	}
	return r.Store.Put(ctx, key, data, o)
}

func TestRemovedObjectsAreReportedBeforeAnError(t *testing.T) {
	b := newBench(t)
	const other = "b.example.com"
	b.describe(func(*newcluster.Options) {})
	b.describe(func(o *newcluster.Options) { o.ClusterName = other })
	objects := []api.Object{anotherObject(name, "one"), anotherObject(other, "one"), anotherObject(name, "two"), anotherObject(other, "two")}
	if _, err := b.Clusters().Create(t.Context(), objects); err != nil {
		t.Fatal(err)
	}
	c := b.client(func(cfg *kops.Config) {
		memory := inside[store.Backend](cfg.Store.Backends[0])
		cfg.Store.Backends = []kops.Backend{store.Backend{Schemes: memory.Schemes, Open: func(ctx context.Context, scheme, rest string) (store.Store, error) {
			s, err := memory.Open(ctx, scheme, rest)
			return readOnly{s, other + "/"}, err
		}}}
	})
	gone, err := c.Clusters().Remove(t.Context(), objects, true)
	if want := []string{"ConfigMap/one", "ConfigMap/two"}; !fault.Is(err, fault.Denied) || !slices.Equal(gone, want) {
		t.Errorf("removed are %q, %v", gone, err)
	}
	for cluster, want := range map[string]int{name: 0, other: 2} {
		if c, err := b.Clusters().Get(t.Context(), cluster); err != nil || len(c.Additional) != want {
			t.Errorf("%s has %d objects, %v; want %d", cluster, len(c.Additional), err, want)
		}
	}
}

func TestSettingWhatIsThereChangesNothing(t *testing.T) {
	b := newBench(t)
	b.describe(func(*newcluster.Options) {})
	for i, want := range []bool{true, false} {
		c, err := b.Clusters().Get(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if done, err := b.Clusters().SetFields(t.Context(), c, c.Group("nodes-here"), []string{"spec.minSize=4", "spec.maxSize=4"}, nil); done.Changed != want || err != nil {
			t.Errorf("time %d: changed %v, %v", i+1, done.Changed, err)
		}
	}
}

// A Cluster as another program wrote it is not rewritten by a change of a group: neither are its
// values pinned nor are fields lost that a later version knows.
func TestAChangeOfAGroupLeavesTheClusterAlone(t *testing.T) {
	b := newBench(t)
	b.describe(func(*newcluster.Options) {})
	b.inStore("backupRetentionDays: 90", "listenMetricsURLs: []")
	b.inStore("spec:\n", "spec:\n  later: 1\n")
	s, err := b.stores().Open(t.Context(), b.cfg.Store.URL)
	if err != nil {
		t.Fatal(err)
	}
	before, _, err := s.Get(t.Context(), name+"/config")
	if err != nil {
		t.Fatal(err)
	}
	b.set("nodes-here", "spec.maxSize=6")
	b.addGroup("more")
	after, _, err := s.Get(t.Context(), name+"/config")
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("changed, %v:\n%s", err, cmp.Diff(string(before), string(after)))
	}
	history, err := b.Clusters().Revisions(t.Context(), name)
	if want := []kops.RevisionChange{{Object: "InstanceGroup/nodes-here", Field: "spec.maxSize"}}; err != nil || !slices.Equal(history[1].Changes, want) {
		t.Errorf("changes are %v, %v; want %v", history[1].Changes, err, want)
	}
	c, err := b.Clusters().Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Clusters().SetFields(t.Context(), c, c.Spec, []string{"spec.channel=alpha"}, nil)
	expectTexts(t, err, "this would drop fields that this version of kops does not know: spec.later; your change was not made")
}

// A spec that was copied from another cluster may still name that cluster's folder.
func TestTheFolderOfAnotherClusterIsRefused(t *testing.T) {
	b := newAppliedBench(t)
	const other = "b.example.com"
	b.describe(func(o *newcluster.Options) { o.ClusterName = other })
	s, err := b.stores().Open(t.Context(), "memory://state")
	if err != nil {
		t.Fatal(err)
	}
	theirs := func() (out []string) {
		for i, err := range s.List(t.Context(), name+"/") {
			out = append(out, fmt.Sprint(i.Key, " ", i.Version, err))
		}
		return out
	}
	before := theirs()
	const base, keys = "memory://state/" + name, "memory://state/" + name + "/pki"
	expect := func(what string, err error) {
		t.Helper()
		t.Log(what)
		expectTexts(t, err, "spec.configBase: is the folder of cluster "+name, "write a folder that no other cluster uses, such as memory://state/")
	}
	get := func() *kops.Cluster {
		t.Helper()
		c, err := b.Clusters().Get(t.Context(), other)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}

	c, err := b.NewCluster(t.Context(), kops.NewClusterRequest{Options: newcluster.Options{ClusterName: "c.example.com", CloudProvider: fakecloud.Name, Zones: []string{"here"}, ConfigBase: base}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Clusters().Create(t.Context(), c.Objects())
	expect("create", err)
	_, err = b.Clusters().SetFields(t.Context(), get(), get().Spec, []string{"spec.configBase=" + base}, nil)
	expect("edit", err)
	c = get()
	c.Spec.Spec.ConfigStore.Base = base
	_, err = b.Clusters().Replace(t.Context(), []api.Object{c.Spec}, false)
	expect("replace", err)
	_, err = b.Clusters().SetFields(t.Context(), get(), get().Spec, []string{"spec.keyStore=" + keys}, nil)
	expectTexts(t, err, "spec.keyStore: is in the folder of cluster "+name, "such as memory://state/"+other+"/pki")

	text, _, err := s.Get(t.Context(), other+"/config") // by another program
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), other+"/config", []byte(strings.ReplaceAll(string(text), "configBase: memory://state/"+other, "configBase: "+base)), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, apply := range []bool{false, true} {
		_, err := b.Update(t.Context(), other, kops.UpdateOptions{Apply: apply})
		expect("update", err)
		_, err = b.Rotate(t.Context(), other, "ca", kops.RotateOptions{Apply: apply})
		expect("rotate", err)
		expect("delete a group", b.DeleteGroup(t.Context(), other, "nodes-here", kops.DeleteOptions{Apply: apply}))
	}
	_, err = b.Keypairs(nil).Create(t.Context(), other, kops.AllKeysets, kops.CreateKeypairOptions{})
	expect("create a keypair", err)
	expect("delete SSH keys", b.Keys().Delete(t.Context(), other))
	if now := theirs(); !slices.Equal(now, before) {
		t.Errorf("the other cluster's files are %q, and were %q", now, before)
	}

	var warnings []string
	o := kops.DeleteOptions{Apply: true, On: kops.OnPlan(func(u *kops.Update) error {
		for _, w := range u.Warnings {
			warnings = append(warnings, w.String())
		}
		return nil
	})}
	if err := b.DeleteCluster(t.Context(), other, o); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(warnings, func(w string) bool {
		return strings.Contains(w, "spec.configBase: is kept, because it is the folder of cluster "+name)
	}) {
		t.Errorf("a deletion warns %q", warnings)
	}
	if now := theirs(); !slices.Equal(now, before) {
		t.Errorf("after a deletion, the other cluster's files are %q, and were %q", now, before)
	}
	if _, err := b.Clusters().Get(t.Context(), other); !fault.Is(err, fault.Gone) {
		t.Errorf("the cluster was not deleted: %v", err)
	}
}
