package local

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"kops.local/kops/internal/platform/local/localtest"
)

// TestRepair: a worker runs and its kubelet does not: the cluster replaces it automatically, and
// leaves the machines alone if more are dead than the spec allows.
func TestRepair(t *testing.T) {
	localtest.SkipUnlessFull(t, "TestDeadMachinesAreReplacedWithinBounds of kops-controller")
	w := newWorld(t)
	w.create("--node-count", "3", "--set", "spec.repair.after=2m")
	workers := namesOf(w.machines(nodes))
	w.stopKubelet(workers[0])
	since := time.Now()
	w.wait("the machine that replaces "+workers[0], clusterTime, func() error {
		now := namesOf(w.machines(nodes))
		if slices.Contains(now, workers[0]) {
			return fmt.Errorf("the machines are %v", now)
		}
		return nil
	})
	w.figures.seconds("a silent kubelet's machine is replaced", time.Since(since))
	if time.Since(since) < 2*time.Minute {
		t.Errorf("a machine was replaced after %s", time.Since(since))
	}
	w.waitUntilJoined(nodes, 3)
	w.waitUntilValid()
	w.delete()
}

// stopKubelet stops the kubelet of a machine permanently.
func (w *world) stopKubelet(name string) {
	w.Helper()
	_, err := w.machine.RunInside(w.Context(), name, "systemctl", "mask", "--now", "--runtime", "kubelet.service")
	w.ok(err)
}
