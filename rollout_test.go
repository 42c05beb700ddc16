package kops_test

import (
	"context"
	"testing"
	"time"

	"kops.local/kops"
	"kops.local/kops/api"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/engine/clock"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform"
)

// failing makes the bench's platform refuse to terminate machines. Its machines run the configuration
// that they were created with, and the clock advances.
func (b *bench) failing() {
	b.Helper()
	f := b.fleet()
	f.drifts["nodes-here"], f.outdated["nodes-here"] = platform.Drift{Config: nodeconfig.Hash(b.configOf("nodes-here"))}, true
	p := inside[platform.Provider](b.cfg.Clouds[0])
	p.Fleet.Roll.Terminate = func(context.Context, *platform.Session, *api.Cluster, platform.Machine) error {
		return fault.New(fault.Permanent, "the machine is protected")
	}
	b.cfg.Clouds = []kops.Provider{p}
	b.cfg.World.Sleep, b.cfg.World.Now = clock.Sleep, time.Now
	b.Client = b.client(func(*kops.Config) {})
}

// TestACanaryThatFailsOffersTheRevisionBefore: the field for which the group is rolled was changed after
// the first revision; a later change that restarts nothing is not rolled back.
func TestACanaryThatFailsOffersTheRevisionBefore(t *testing.T) {
	b := newAppliedBench(t)
	b.failing()
	b.set("nodes-here", "spec.kubelet.maxPods=50")
	b.apply(kops.UpdateOptions{})
	b.set("nodes-here", "spec.rollingUpdate.maxUnavailable=2")
	b.apply(kops.UpdateOptions{})

	o := kops.DefaultRollout()
	o.CloudOnly, o.Groups = true, []string{"nodes-here"}
	r, err := b.Rollout(t.Context(), name, o)
	expectTexts(t, err, "the rollout stopped: group nodes-here: ", "the machine is protected")
	remedies(t, err, "fix it, then start again: kops rolling-update cluster "+name+" --yes; or go back to the objects of revision 2: kops upgrade cluster "+name+" --rollback --revision 2 --yes")
	if r == nil || len(r.Groups) != 1 || r.Groups[0].Revision != 2 {
		t.Fatalf("the rollout is %+v", r)
	}

	back, err := b.RollBackUpgrade(t.Context(), name, kops.RollBackOptions{Apply: true, Revision: 2})
	if err != nil || len(back.Changes) != 2 {
		t.Fatalf("%+v, %v", back, err)
	}
	c, err := b.Clusters().Get(t.Context(), name)
	if g := c.Group("nodes-here"); err != nil || g.Spec.Kubelet != nil && g.Spec.Kubelet.MaxPods != nil || g.Spec.RollingUpdate != nil {
		t.Errorf("the nodes are %+v, %v", g.Spec, err)
	}

	// Machines that are rolled although they match the objects have nothing to go back to.
	b.apply(kops.UpdateOptions{})
	o.Force = true
	r, err = b.Rollout(t.Context(), name, o)
	expectTexts(t, err, "the machine is protected")
	if r == nil || r.Groups[0].Revision != 0 {
		t.Errorf("a rollout for nothing that was changed offers %+v", r)
	}
}

// TestARevisionThatCannotBeRestored checks that unsuitable revisions are refused.
func TestARevisionThatCannotBeRestored(t *testing.T) {
	b := newDescribedBench(t, "1.33.0")
	b.apply(kops.UpdateOptions{})
	b.set("", "spec.kubernetesVersion=1.32.9")
	for n, want := range map[int][2]string{
		7: {"has no revision 7", "to list them: kops get revisions --name " + name},
		1: {"revision 1 has Kubernetes 1.33.0, which is newer than 1.32.9", "kops upgrade cluster " + name + " --to 1.33.0"},
	} {
		_, err := b.RollBackUpgrade(t.Context(), name, kops.RollBackOptions{Apply: true, Revision: n})
		expectTexts(t, err, want[0])
		remedies(t, err, want[1])
	}
	if b.version() != "1.32.9" {
		t.Errorf("the cluster is to have %s", b.version())
	}
}

func remedies(t *testing.T, err error, want string) {
	t.Helper()
	if got := fault.Remedy(err); got != want {
		t.Errorf("the remedy is %q, want %q", got, want)
	}
}
