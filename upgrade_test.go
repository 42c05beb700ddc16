package kops_test

import (
	"strings"
	"testing"
	"time"

	"kops.local/kops"
	"kops.local/kops/api"
	"kops.local/kops/internal/spec/newcluster"
)

// newDescribedBench returns a bench with a cluster of a version, which is not applied yet.
func newDescribedBench(t *testing.T, kubernetes string) *bench {
	b := newBench(t)
	b.describe(func(o *newcluster.Options) { o.KubernetesVersion = kubernetes })
	return b
}

func (b *bench) version() string {
	b.Helper()
	c, err := b.Clusters().Get(b.Context(), name)
	if err != nil {
		b.Fatal(err)
	}
	return c.Spec.Spec.KubernetesVersion
}

func TestAnUpgradeOfAnImportedClusterIsRefused(t *testing.T) {
	b := newDescribedBench(t, "1.35.4")
	c, err := b.Clusters().Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	imported := c.Spec.DeepCopy()
	imported.Annotations = map[string]string{api.AnnotationManagement: "imported"}
	if _, err := b.Clusters().Replace(t.Context(), []api.Object{imported}, false); err != nil {
		t.Fatal(err)
	}
	_, err = b.Upgrade(t.Context(), name, kops.UpgradeOptions{Apply: true})
	expectRefusal(t, err, "was imported")
}

func TestAnUpgradeThatThisProgramCannotEndIsNotBegun(t *testing.T) {
	b := newDescribedBench(t, "1.35.4")
	old := b.client(func(c *kops.Config) { c.Version = "1.35.2" })
	_, err := old.Upgrade(t.Context(), name, kops.UpgradeOptions{Apply: true, To: "1.36.3"})
	expectRefusal(t, err, "1.36.3", "is not yet supported by kops 1.35.2")
	if b.version() != "1.35.4" {
		t.Errorf("the cluster is to have %s", b.version())
	}
}

// TestAnUpgradeSaysWhenNoUpdateAppliesTheVersion checks that upgrade refuses what update refuses, with advice that can be followed.
func TestAnUpgradeSaysWhenNoUpdateAppliesTheVersion(t *testing.T) {
	for _, x := range []struct{ has, to, want string }{
		{"1.29.4", "", "is no longer supported"},
		{"1.12.8", "", "is no longer supported"},
		{"1.30.2", "1.34", "an older kops upgrades step by step to 1.31"},
		{"1.31.4", "1.31.14", "is no longer supported"},
		{"1.31.4", "1.99", `is not yet supported by kops 1.37.0, got "1.99.0"; use Kubernetes 1.36.3`},
		{"1.31.4", "", ""},
		{"1.31.4", "1.34", ""},
	} {
		b := newDescribedBench(t, "1.35.4")
		b.inStore("kubernetesVersion: 1.35.4", "kubernetesVersion: "+x.has)
		u, err := b.Upgrade(t.Context(), name, kops.UpgradeOptions{To: x.to})
		if x.want != "" {
			expectRefusal(t, err, x.want)
		} else if err != nil || u.Hops[0].Version != "1.32.13" {
			t.Errorf("from %s to %q: %+v, %v", x.has, x.to, u, err)
		}
	}
}

// TestTheWayBackKeepsWhatEtcdMayHaveBecome goes from 1.34 to 1.33, between which the
// default version of etcd changes.
func TestTheWayBackKeepsWhatEtcdMayHaveBecome(t *testing.T) {
	b := newDescribedBench(t, "1.33.0")
	b.now = time.Now() // TLS verifies certificates with the real clock
	b.apply(kops.UpdateOptions{})
	b.addGroup("more")
	if _, err := b.Upgrade(t.Context(), name, kops.UpgradeOptions{Apply: true, To: "1.35"}); err != nil {
		t.Fatal(err)
	}
	before, err := b.RollBackUpgrade(t.Context(), name, kops.RollBackOptions{})
	if err != nil || before.Revision != 3 || before.From != "1.34.10" || before.To != "1.33.0" || len(before.Changes) != 1 {
		t.Fatalf("before it was applied: %+v, %v", before, err)
	}
	b.apply(kops.UpdateOptions{IgnoreSkew: true})
	control, worker := "v1.33.0", "v1.33.0"
	reach := kops.ReachOptions{Server: "https://" + b.running(&worker, &control)}
	back, err := b.RollBackUpgrade(t.Context(), name, kops.RollBackOptions{Apply: true, ReachOptions: reach})
	if err != nil {
		t.Fatal(err)
	}
	var changes []string
	for _, c := range back.Changes {
		changes = append(changes, c.Property+" "+c.Old+" -> "+c.New)
	}
	want := "spec.etcdClusters[0].version  -> 3.6.12, spec.etcdClusters[1].version  -> 3.6.12, spec.kubernetesVersion 1.34.10 -> 1.33.0"
	if got := strings.Join(changes, ", "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	c, err := b.Clusters().Get(t.Context(), name)
	if err != nil || c.Spec.Spec.KubernetesVersion != "1.33.0" || c.Spec.Spec.EtcdClusters[0].Version != "3.6.12" || c.Group("more") == nil {
		t.Errorf("%+v, %v", c, err)
	}
	s, err := b.stores().Open(t.Context(), b.cfg.Store.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Get(t.Context(), ".kops/"+name+"/upgrade.json"); err == nil {
		t.Error("the upgrade that was taken back is kept")
	}
}
