package kops_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kops.local/kops"
	"kops.local/kops/api"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/spec/newcluster"
	"kops.local/kops/internal/store"
)

// What later releases may infer otherwise is stored, whoever wrote the objects.
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
	says(t, err, "memory://channels/none.yaml", "; or write spec.kubernetesVersion")
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

// further is an additional object of a cluster.
func further(cluster, object string) api.Object {
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
	if _, err := b.Clusters().Create(t.Context(), []api.Object{further(name, "one"), further(name, "two"), key}); err != nil {
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
		if _, err := b.Clusters().Remove(t.Context(), []api.Object{further(name, "one"), o}, true); err == nil {
			t.Errorf("%s was removed without its resources", what)
		}
	}
	if _, err := b.Clusters().Remove(t.Context(), []api.Object{further(name, "one"), key, further(other, "one")}, true); !fault.Is(err, fault.Gone) {
		t.Errorf("what is not there: %v", err)
	}
	wanted := []api.Object{further(name, "one"), key}
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

// readOnly is a store of which one part cannot be written.
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

func TestWhatWasRemovedBeforeAnErrorIsTold(t *testing.T) {
	b := newBench(t)
	const other = "b.example.com"
	b.describe(func(*newcluster.Options) {})
	b.describe(func(o *newcluster.Options) { o.ClusterName = other })
	objects := []api.Object{further(name, "one"), further(other, "one"), further(name, "two"), further(other, "two")}
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
