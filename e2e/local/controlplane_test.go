package local

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/ops/roll"
	"kops.local/kops/internal/platform/local/localtest"
	"kops.local/kops/internal/platform/local/machine"
	"kops.local/kops/internal/platform/local/site"
)

// longestGap is the longest permitted time without an acknowledged write while the control plane changes.
const longestGap = 3 * time.Second

// TestControlPlaneGrowsAndShrinks grows the control plane from one to three machines and shrinks it
// to one, which in the end is another one, under load.
func TestControlPlaneGrowsAndShrinks(t *testing.T) {
	localtest.ClusterTurn(t, 1, 4)
	w := newWorld(t)
	w.create("--node-count", "1")
	first := w.membersOf(1).Group
	l := w.startLoad()

	begun := time.Now()
	w.must("create", "ig", "control-plane-b", "control-plane-c", "--name", cluster, "--role", "control-plane", "--subnet", "local", "--edit=false")
	w.must("update", "cluster", cluster, "--yes")
	w.membersOf(3)
	w.waitUntilJoined("control-plane-c", 1)
	w.waitUntilValid()
	w.figures.seconds("one control plane, to three", time.Since(begun))
	w.must("etcd", "status", cluster)
	w.checkNoneStale("three control planes")

	start := time.Now()
	w.must("delete", "ig", first, "control-plane-b", "--name", cluster, "--yes")
	w.figures.seconds("the command that makes one control plane of three", time.Since(start))
	w.membersOf(1)
	w.waitUntilJoined("control-plane-c", 1)
	w.waitUntilValid()
	w.figures.seconds("three control planes, to one", time.Since(start))
	l.waitForWrites()
	l.stopAndCheck("control planes that grow and shrink", begun, longestGap)
	if disks := w.every(w.site.Path(site.Volumes, "*etcd-main*")); len(disks) != 3 {
		t.Errorf("the disks %v are left, and those that nobody needs go with --prune only", disks)
	}
	w.must("update", "cluster", cluster, "--yes", "--prune")
	if disks := w.every(w.site.Path(site.Volumes, "*etcd-main*")); len(disks) != 1 {
		t.Errorf("after --prune the disks %v are left", disks)
	}
	w.checkUnchanged()
	w.checkNoneStale("one control plane, a while after")
	w.maintainEtcd()
	w.delete()
}

// checkNoneStale fails if a machine needs to be replaced or restarted: a change of the number of control
// planes requires neither.
func (w *world) checkNoneStale(when string) {
	w.Helper()
	if r := w.must("get", "instances", cluster, "-o", "wide"); strings.Contains(r.out, "NeedsUpdate") {
		w.Errorf("with %s machines are stale:\n%s", when, r.out)
	}
}

// TestControlPlaneMoves moves a control plane to another zone, replaces two with drivers that are
// killed, and destroys the disks of one, under load.
func TestControlPlaneMoves(t *testing.T) {
	localtest.SkipUnlessFull(t, "TestControlPlaneGrowsAndShrinks")
	w := newWorld(t)
	w.create("--zones", "local,far", "--control-plane-zones", "local", "--control-plane-count", "3", "--node-count", "2")
	l := w.startLoad()
	start := time.Now()
	w.moveToAnotherZone()
	w.replaceTwoControlPlanes()
	l.waitForWrites()
	l.stopAndCheck("control planes that move", start, longestGap)

	l = w.startLoad()
	start = time.Now()
	w.loseDisks(w.membersOf(3))
	l.waitForWrites()
	l.stopAndCheck("a control plane without its disks", start, longestGap)
	w.checkUnchanged()
	w.delete()
}

// moveToAnotherZone replaces a group with a group in another zone.
func (w *world) moveToAnotherZone() {
	w.Helper()
	const from, to = "control-plane-local-1", "control-plane-far"
	start := time.Now()
	w.must("create", "ig", to, "--name", cluster, "--in-place-of", from, "--subnet", "far")
	w.must("update", "cluster", cluster, "--yes")
	if len(w.machines(from)) != 1 {
		w.Errorf("an update that does not prune has deleted the machine of %s", from)
	}
	w.waitUntilValid()
	w.must("update", "cluster", cluster, "--yes", "--prune")
	w.membersOf(3)
	w.waitUntilJoined(to, 1)
	w.waitUntilJoined(from, 0)
	w.waitUntilValid()
	w.figures.seconds("a control plane in another zone", time.Since(start))
	if disks := w.every(w.site.Path(site.Volumes, "*etcd-main*")); len(disks) != 3 {
		w.Errorf("after --prune there are the disks %v", disks)
	}
	w.checkUnchanged()
}

// replaceTwoControlPlanes replaces two control planes with drivers that are killed.
func (w *world) replaceTwoControlPlanes() {
	w.Helper()
	for _, group := range []string{"control-plane-local-2", "control-plane-local-3"} {
		w.changeBootScript(group, "first.sh")
	}
	w.must("update", "cluster", cluster, "--yes")
	w.rollWithKills("2 control planes replaced", roll.Pending, roll.Cordoned, roll.Draining, roll.Joined, roll.Soaking, roll.Done)
	w.membersOf(3)
	w.waitUntilValid()
}

// loseDisks destroys the machine and the disks of a control plane: a new one becomes a member in its place.
func (w *world) loseDisks(m machine.Machine) {
	w.Helper()
	start := time.Now()
	w.destroyControlPlanes(m)
	w.membersOf(3)
	w.waitUntilJoined(m.Group, 1)
	w.waitUntilValid()
	w.figures.seconds("a control plane that lost its disks, to ready again", time.Since(start))
}

// maintainEtcd has etcd defragmented and a back-up tested.
func (w *world) maintainEtcd() {
	w.Helper()
	for _, args := range [][]string{{"defrag", cluster, "--yes"}, {"alarm", "list", cluster}, {"backup", cluster, "--yes"}, {"drill", cluster}} {
		r := w.must(append([]string{"etcd"}, args...)...)
		w.figures.seconds(fmt.Sprintf("kops etcd %s", args[0]), r.took)
		w.Logf("kops etcd %s:\n%s", args[0], r.out)
	}
}
