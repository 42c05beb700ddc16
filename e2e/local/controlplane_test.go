package local

import (
	"fmt"
	"testing"
	"time"

	"kops.local/kops/internal/platform/local/site"
)

// longestGap is how long no write may be acknowledged while the control plane changes.
const longestGap = 3 * time.Second

// TestControlPlaneGrowsAndShrinks makes three control planes of one and one of three, another
// one in the end, while a client writes to the API.
func TestControlPlaneGrowsAndShrinks(t *testing.T) {
	w := newWorld(t)
	w.create("--node-count", "1")
	first := w.membersOf(1).Group
	wr := w.write()
	w.wait("writes before", clusterTime, func() error { return wr.acknowledged(int(calm / writePeriod / 2)) })

	start := time.Now()
	w.must("create", "ig", "control-plane-b", "control-plane-c", "--name", cluster, "--role", "control-plane", "--subnet", "local", "--edit=false")
	w.must("update", "cluster", cluster, "--yes")
	w.membersOf(3)
	w.joined("control-plane-c", 1)
	w.validated()
	w.figures.seconds("one control plane, to three", time.Since(start))
	w.must("etcd", "status", cluster)

	start = time.Now()
	w.must("delete", "ig", first, "control-plane-b", "--name", cluster, "--yes")
	w.figures.seconds("the command that makes one control plane of three", time.Since(start))
	w.membersOf(1)
	w.joined("control-plane-c", 1)
	w.validated()
	w.figures.seconds("three control planes, to one", time.Since(start))
	had := wr.count()
	w.wait("writes after", clusterTime, func() error { return wr.acknowledged(had + int(calm/writePeriod/2)) })
	wr.stop()
	out := w.judge(wr, start)
	if out.gap > longestGap || out.failed > 0 {
		t.Errorf("%d of %d writes failed for good, %d at first; none for %s", out.failed, out.sent, out.first, out.gap)
	}
	if disks := w.every(w.site.Path(site.Volumes, "*etcd-main*")); len(disks) != 3 {
		t.Errorf("the disks %v are left, and those that nobody needs go with --prune only", disks)
	}
	w.must("update", "cluster", cluster, "--yes", "--prune")
	if disks := w.every(w.site.Path(site.Volumes, "*etcd-main*")); len(disks) != 1 {
		t.Errorf("after --prune the disks %v are left", disks)
	}
	w.unchanged()
	w.careFor()
	w.delete()
}

// careFor has etcd defragmented and its back-up tried.
func (w *world) careFor() {
	w.Helper()
	for _, args := range [][]string{{"defrag", cluster, "--yes"}, {"alarm", "list", cluster}, {"backup", cluster, "--yes"}, {"drill", cluster}} {
		r := w.must(append([]string{"etcd"}, args...)...)
		w.figures.seconds(fmt.Sprintf("kops etcd %s", args[0]), r.took)
		w.Logf("kops etcd %s:\n%s", args[0], r.out)
	}
}
