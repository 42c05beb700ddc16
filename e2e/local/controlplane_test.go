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

// longestGap is how long no write may be acknowledged while the control plane changes.
const longestGap = 3 * time.Second

// TestControlPlaneGrowsAndShrinks makes three control planes of one and one of three, another
// one in the end, under load.
func TestControlPlaneGrowsAndShrinks(t *testing.T) {
	localtest.Turn(t, 1, 3)
	w := newWorld(t)
	w.create("--node-count", "1")
	first := w.membersOf(1).Group
	l := w.strain()

	begun := time.Now()
	w.must("create", "ig", "control-plane-b", "control-plane-c", "--name", cluster, "--role", "control-plane", "--subnet", "local", "--edit=false")
	w.must("update", "cluster", cluster, "--yes")
	w.membersOf(3)
	w.joined("control-plane-c", 1)
	w.validated()
	w.figures.seconds("one control plane, to three", time.Since(begun))
	w.must("etcd", "status", cluster)
	w.noneStale("three control planes")

	start := time.Now()
	w.must("delete", "ig", first, "control-plane-b", "--name", cluster, "--yes")
	w.figures.seconds("the command that makes one control plane of three", time.Since(start))
	w.membersOf(1)
	w.joined("control-plane-c", 1)
	w.validated()
	w.figures.seconds("three control planes, to one", time.Since(start))
	l.more()
	l.rest("control planes that grow and shrink", begun, longestGap)
	if disks := w.every(w.site.Path(site.Volumes, "*etcd-main*")); len(disks) != 3 {
		t.Errorf("the disks %v are left, and those that nobody needs go with --prune only", disks)
	}
	w.must("update", "cluster", cluster, "--yes", "--prune")
	if disks := w.every(w.site.Path(site.Volumes, "*etcd-main*")); len(disks) != 1 {
		t.Errorf("after --prune the disks %v are left", disks)
	}
	w.unchanged()
	w.noneStale("one control plane, a while after")
	w.careFor()
	w.delete()
}

// noneStale fails if a machine should be replaced or restarted: a change of the number of control
// planes needs neither.
func (w *world) noneStale(when string) {
	w.Helper()
	if r := w.must("get", "instances", cluster, "-o", "wide"); strings.Contains(r.out, "NeedsUpdate") {
		w.Errorf("with %s machines are stale:\n%s", when, r.out)
	}
}

// TestControlPlaneMoves has a control plane take the place of another in another zone, two be
// replaced by drivers that are killed, and one lose its disks, under load.
func TestControlPlaneMoves(t *testing.T) {
	localtest.Long(t, "TestControlPlaneGrowsAndShrinks")
	w := newWorld(t)
	w.create("--zones", "local,far", "--control-plane-zones", "local", "--control-plane-count", "3", "--node-count", "2")
	l := w.strain()
	start := time.Now()
	w.moveToAnotherZone()
	w.replaceTwo()
	l.more()
	l.rest("control planes that move", start, longestGap)

	l = w.strain()
	start = time.Now()
	w.loseDisks(w.membersOf(3))
	l.more()
	l.rest("a control plane without its disks", start, longestGap)
	w.unchanged()
	w.delete()
}

// moveToAnotherZone puts a group of another zone in the place of one.
func (w *world) moveToAnotherZone() {
	w.Helper()
	const from, to = "control-plane-local-1", "control-plane-far"
	start := time.Now()
	w.must("create", "ig", to, "--name", cluster, "--in-place-of", from, "--subnet", "far")
	w.must("update", "cluster", cluster, "--yes")
	if len(w.machines(from)) != 1 {
		w.Errorf("an update that does not prune has deleted the machine of %s", from)
	}
	w.validated()
	w.must("update", "cluster", cluster, "--yes", "--prune")
	w.membersOf(3)
	w.joined(to, 1)
	w.joined(from, 0)
	w.validated()
	w.figures.seconds("a control plane in another zone", time.Since(start))
	if disks := w.every(w.site.Path(site.Volumes, "*etcd-main*")); len(disks) != 3 {
		w.Errorf("after --prune there are the disks %v", disks)
	}
	w.unchanged()
}

// replaceTwo has two control planes replaced by drivers that are killed.
func (w *world) replaceTwo() {
	w.Helper()
	for _, group := range []string{"control-plane-local-2", "control-plane-local-3"} {
		w.anew(group, "first.sh")
	}
	w.must("update", "cluster", cluster, "--yes")
	w.rollKilled("2 control planes replaced", roll.Pending, roll.Cordoned, roll.Draining, roll.Joined, roll.Soaking, roll.Done)
	w.membersOf(3)
	w.validated()
}

// loseDisks has a control plane lose its machine and its disks: another one becomes a member in its place.
func (w *world) loseDisks(m machine.Machine) {
	w.Helper()
	start := time.Now()
	w.loseWithDisks(m)
	w.membersOf(3)
	w.joined(m.Group, 1)
	w.validated()
	w.figures.seconds("a control plane that lost its disks, to ready again", time.Since(start))
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
