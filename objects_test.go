package kops_test

import (
	"testing"

	"kops.local/kops/internal/store"
)

// What later releases may infer otherwise is stored, whoever wrote the objects.
func TestObjectsWrittenByHandArePinned(t *testing.T) {
	b := newBench(t)
	s, err := b.cfg.Backends.Open(t.Context(), "memory://channels")
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
	_, err = b.Create(t.Context(), c.Objects())
	says(t, err, "memory://channels/none.yaml", "; or write spec.kubernetesVersion")
	spec.Channel = "memory://channels/ours.yaml"
	if _, err := b.Create(t.Context(), c.Objects()); err != nil {
		t.Fatal(err)
	}
	if c, err = b.Cluster(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	spec = &c.Spec.Spec
	if spec.KubernetesVersion != "1.35.4" || spec.Networking.NonMasqueradeCIDR != "100.64.0.0/10" {
		t.Errorf("stored are Kubernetes %q and the range %q", spec.KubernetesVersion, spec.Networking.NonMasqueradeCIDR)
	}
	for _, e := range spec.EtcdClusters {
		if e.Manager == nil || e.Manager.BackupRetentionDays == nil || *e.Manager.BackupRetentionDays != 90 {
			t.Errorf("etcd %s keeps its back-ups as %+v says", e.Name, e.Manager)
		}
	}
}
