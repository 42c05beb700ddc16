package local

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/internal/platform/local/localtest"
)

// Versions of an upgrade by one minor version.
const (
	olderKubernetes = "1.35.4"
	newerKubernetes = "1.36.3"
	// upgradeTime is the time limit of the upgrade of three control planes and three workers.
	upgradeTime = 8 * time.Minute
)

// TestUpgradeUnderLoad upgrades a cluster to the next minor version of Kubernetes with two
// commands, and its clients notice nothing.
func TestUpgradeUnderLoad(t *testing.T) {
	localtest.SkipUnlessFull(t, "TestRollUnderLoad")
	w := newWorld(t)
	w.bundle(olderKubernetes, newerKubernetes)
	w.create("--control-plane-count", "3", "--node-count", "3", "--kubernetes-version", olderKubernetes)
	before := w.machines("")
	l := w.startLoad()
	begun := time.Now()
	w.must("upgrade", "cluster", cluster, "--kubernetes-version", newerKubernetes, "--yes")
	r := w.run(w.Context(), 2*upgradeTime, "reconcile", "cluster", cluster, "--yes")
	took := time.Since(begun)
	w.Logf("reconcile: exit %d\n%s%s", r.code, r.out, r.err)
	if r.code != 0 {
		t.FailNow()
	}
	w.figures.seconds("upgrade of 3 control planes and 3 workers", took)
	if took > upgradeTime {
		t.Errorf("the upgrade took %s, and may take %s", took.Round(time.Second), upgradeTime)
	}
	w.waitUntilValid()
	l.stopAndCheck("upgrade", begun, longestGap)
	w.checkReplaced(namesOf(before), 6)
	w.kubelets("v" + newerKubernetes)
	w.checkUnchanged()
	w.upToDate()
	w.delete()
}

// TestRollUnderLoad rolls changes through machines: one in place, and one by replacement, whose
// driver is killed and continued by another. Clients notice nothing.
func TestRollUnderLoad(t *testing.T) {
	localtest.ClusterTurn(t, 1, 4)
	w := newWorld(t)
	w.create("--node-count", "2")
	l := w.startLoad()
	begun, before := time.Now(), w.machines("")

	w.must("edit", "cluster", cluster, "--set", "spec.kubelet.maxPods=77")
	w.must("update", "cluster", cluster, "--yes")
	for _, i := range w.instances() {
		if i.Effect != "restart" || len(i.Reasons) != 1 || i.Reasons[0].Field != "spec.kubelet.maxPods" || i.Reasons[0].Want != "77" {
			t.Errorf("%s is stale otherwise than it is to be: %s %v", i.Name, i.Effect, i.Reasons)
		}
	}
	r := w.must("rolling-update", "cluster", cluster, "--yes", "--node-interval", "1s", "--control-plane-interval", "1s")
	w.figures.seconds("3 machines restarted in place", r.took)
	if now := w.machines(""); !slices.Equal(namesOf(now), namesOf(before)) {
		t.Errorf("a change in place has replaced machines: %v, then %v", namesOf(before), namesOf(now))
	}
	w.upToDate()

	w.must("edit", "instancegroup", nodes, "--name", cluster, "--set", "spec.rootVolumeSize=3")
	w.must("update", "cluster", cluster, "--yes")
	roll := []string{"rolling-update", "cluster", cluster, "--yes", "--node-interval", "1s"}
	if r := w.run(w.Context(), 12*time.Second, roll...); r.code == 0 {
		t.Errorf("a driver was to be killed, and was done before:\n%s", r.out)
	}
	r = w.must(roll...)
	w.figures.seconds("2 workers replaced, by the second driver", r.took)
	if now := namesOf(w.machines(nodes)); len(now) != 2 || slices.ContainsFunc(now, func(n string) bool { return slices.Contains(namesOf(before), n) }) {
		t.Errorf("the workers are %v, and were %v", now, namesOf(before))
	}
	w.waitUntilJoined(nodes, 2)
	w.waitUntilValid()
	l.stopAndCheck("roll", begun, longestGap)
	w.upToDate()
	w.delete()
}

// checkReplaced checks that none of the machines is left, and that there are as many as given.
func (w *world) checkReplaced(before []string, size int) {
	w.Helper()
	now := namesOf(w.machines(""))
	kept := slices.DeleteFunc(slices.Clone(now), func(n string) bool { return !slices.Contains(before, n) })
	if len(now) != size || len(kept) > 0 {
		w.Errorf("the machines are %v, of which these should have been replaced: %v", now, kept)
	}
}

// kubelets checks the kubelet version of every node.
func (w *world) kubelets(version string) {
	w.Helper()
	list, err := w.client().CoreV1().Nodes().List(w.Context(), metav1.ListOptions{})
	w.ok(err)
	for _, n := range list.Items {
		if got := n.Status.NodeInfo.KubeletVersion; got != version {
			w.Errorf("the kubelet of %s is %s, and is to be %s", n.Name, got, version)
		}
	}
}

// instance is a machine in the output of kops get instances.
type instance struct {
	Name    string `json:"id"`
	Effect  string
	Reasons []struct{ Field, Have, Want string }
}

// instances returns the output of kops get instances.
func (w *world) instances() []instance {
	w.Helper()
	var out []instance
	w.ok(json.Unmarshal([]byte(w.must("get", "instances", "--name", cluster, "-o", "json").out), &out))
	return out
}

// upToDate checks that no machine is stale, and that a rolling update has nothing to do.
func (w *world) upToDate() {
	w.Helper()
	for _, i := range w.instances() {
		if i.Effect != "none" && i.Effect != "live" {
			w.Errorf("%s is stale (%s): %v", i.Name, i.Effect, i.Reasons)
		}
	}
	if r := w.must("rolling-update", "cluster", cluster); !strings.Contains(r.out+r.err, "No rolling-update required") {
		w.Errorf("a rolling update of what is up to date:\n%s%s", r.out, r.err)
	}
}

// bundle adds several versions of Kubernetes to the bundle, which must have been built.
func (w *world) bundle(versions ...string) {
	w.Helper()
	for _, v := range versions {
		if r := w.run(w.Context(), clusterTime, "bundle", "create", "--dir", w.tools.bundle, "--kubernetes-version", v); r.code != 0 {
			w.Fatal(fmt.Sprintf("Kubernetes %s is not in the bundle, and cannot be added; run: make programs KUBERNETES_VERSION=%s\n%s%s", v, v, r.out, r.err))
		}
	}
}
