package rehearsal

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/internal/platform/local/localtest"
)

// TestGCE creates a cluster on Google Cloud of a control plane and two workers, from its user data
// alone. A worker and the only control plane are killed: their groups recreate each, under its
// name, and etcd's disks with all data are found. A change that only new machines have is rolled
// through the workers once, and, if KOPS_E2E=whole is set, through the control plane.
func TestGCE(t *testing.T) {
	localtest.ClusterTurn(t, 1, 4)
	planes := 0 // to roll
	if localtest.IsFull() {
		planes = 1
	}
	w := newWorld(t, "gce", "", "gs://kops-rehearsal")
	kops := func(args string) string {
		t.Helper()
		return w.must("exec kops " + args)
	}
	kops("create cluster --cloud gce --zones us-east1-b --networking kubenet --node-count 2 " + cluster)
	begun := time.Now()
	kops("update cluster " + cluster + " --yes --admin")
	t.Logf("FIGURE GCE, the first update: %s", time.Since(begun).Round(100*time.Millisecond))
	w.checkUnchanged("")
	kops("validate cluster " + cluster + " --wait 10m --interval 1s")
	t.Logf("FIGURE GCE, 1 + 2 from the update to validated: %s", time.Since(begun).Round(100*time.Millisecond))
	w.nodes(3)
	w.serves()
	w.note()
	w.checkRecreated("worker", w.nodesWithRole("node")[0], 3)
	w.checkRecreated("control plane", w.nodesWithRole("control-plane")[0], 3)
	w.noted()

	before := w.machines()
	for _, g := range []string{"nodes-us-east1-b", "control-plane-us-east1-b"}[:1+planes] {
		kops("edit instancegroup " + g + " --name " + cluster + " --set spec.rootVolume.size=70")
	}
	kops("update cluster " + cluster + " --yes")
	if out := kops("rolling-update cluster " + cluster); strings.Count(out, "spec.rootVolumeSize") != 2+planes {
		t.Errorf("the preview of the roll:\n%s", out)
	}
	begun = time.Now()
	kops("rolling-update cluster " + cluster + " --yes --node-interval 1s --control-plane-interval 1s 2>&1")
	t.Logf("FIGURE GCE, %d + 2 rolled: %s", planes, time.Since(begun).Round(time.Second))
	w.nodes(3)
	if left := slices.DeleteFunc(w.machines(), func(m string) bool { return !slices.Contains(before, m) }); len(left) != 1-planes {
		t.Errorf("%v were not replaced", left)
	}
	if out := kops("rolling-update cluster " + cluster); !strings.Contains(out, "No rolling-update required") {
		t.Errorf("a rolling update of what is up to date:\n%s", out)
	}
	kops("validate cluster " + cluster + " --wait 8m --interval 1s")
	w.noted()
	kops("delete cluster " + cluster + " --yes")
	w.waitUntilGone()
	if out := w.query("GET", "https://compute.googleapis.com/compute/v1/projects/kops-rehearsal/aggregated/disks", ""); strings.Contains(out, "example-com") {
		t.Errorf("the deletion has left disks:\n%s", out)
	}
}

// checkRecreated kills a machine, which its group recreates, and waits until the cluster has recovered.
func (w *world) checkRecreated(what, doomed string, size int) {
	w.Helper()
	begun := time.Now()
	w.kill(doomed)
	w.wait(fmt.Sprintf("the %s %s again", what, doomed), func() error {
		n, err := w.api().CoreV1().Nodes().Get(w.Context(), doomed, metav1.GetOptions{})
		if err == nil && !readySince(*n).After(begun) {
			err = errors.New("it is not ready again")
		}
		return err
	})
	w.nodes(size)
	w.must("kops validate cluster " + cluster + " --wait 8m --interval 1s")
	w.Logf("FIGURE GCE, a killed %s, until the cluster is valid again: %s", what, time.Since(begun).Round(time.Second))
	w.wait("two servers again", func() error {
		_, err := w.servers(1)
		return err
	})
}
