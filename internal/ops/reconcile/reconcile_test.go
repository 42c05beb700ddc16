package reconcile_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"kops.local/kops/internal/ops/reconcile"
)

// cluster holds the minor versions of its parts: in the objects, in the templates of new machines,
// and on running machines.
type cluster struct {
	t                        *testing.T
	spec                     int
	controlMade, workersMade int
	control, workers         int
	hops                     []int
	pruned                   bool
	calls                    []string
	crash                    int // at which deed; 0 for never
}

var errCrash = errors.New("crash")

func (c *cluster) record(name string) error {
	c.calls = append(c.calls, name)
	if c.workers > c.control || c.control > c.workers+1 {
		c.t.Errorf("after %q the control plane runs %d and workers %d", c.calls, c.control, c.workers)
	}
	if c.crash--; c.crash == 0 {
		return errCrash
	}
	return nil
}

func (c *cluster) run() error {
	return reconcile.Run(c.t.Context(), reconcile.Actions{
		Check: func(context.Context) error { return c.record("check") },
		Update: func(_ context.Context, s reconcile.Scope) error {
			c.controlMade = c.spec
			if s != reconcile.ControlPlane {
				c.workersMade = min(c.spec, c.control) // because an update holds them back
			}
			c.pruned = s == reconcile.Pruned
			return c.record("update " + string(s))
		},
		Await: func(context.Context) error { return c.record("await") },
		Roll: func(_ context.Context, s reconcile.Scope) error {
			c.control = c.controlMade
			if s != reconcile.ControlPlane {
				c.workers = c.workersMade
			}
			return c.record("roll " + string(s))
		},
		Next: func(context.Context) (bool, error) {
			i := slices.IndexFunc(c.hops, func(v int) bool { return v > c.spec })
			if i < 0 {
				return false, nil
			}
			if c.control != c.spec || c.workers != c.spec || c.hops[i] != c.spec+1 {
				c.t.Errorf("a hop to %d is taken from %d, %d, %d", c.hops[i], c.spec, c.control, c.workers)
			}
			c.spec = c.hops[i]
			return true, c.record("next")
		},
		On: func(context.Context, reconcile.Stage) error { return nil },
	})
}

func TestTheOrder(t *testing.T) {
	c := &cluster{t: t, spec: 35, control: 34, workers: 34}
	if err := c.run(); err != nil {
		t.Fatal(err)
	}
	want := "check, update control plane, await, roll control plane, update all, roll all, update pruned"
	if got := strings.Join(c.calls, ", "); got != want || c.workers != 35 {
		t.Errorf("%s, and workers run %d", got, c.workers)
	}
}

// TestItContinuesFromAnyPoint stops the run at each deed, and restarts it.
func TestItContinuesFromAnyPoint(t *testing.T) {
	for crash := 1; ; crash++ {
		c := &cluster{t: t, spec: 34, control: 33, workers: 33, hops: []int{34, 35, 36}, crash: crash}
		err := c.run()
		if err == nil {
			if crash < 24 {
				t.Errorf("only %d deeds", crash-1)
			}
			return
		}
		if !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		if err := c.run(); err != nil {
			t.Fatal(err)
		}
		if c.spec != 36 || c.control != 36 || c.workers != 36 || !c.pruned {
			t.Errorf("ended at deed %d and begun anew: %+v", crash, c)
		}
	}
}

func TestAFailureSaysInWhichStage(t *testing.T) {
	c := &cluster{t: t, spec: 34, control: 34, workers: 34, crash: 4}
	if err := c.run(); err == nil || err.Error() != "roll the control plane: crash" {
		t.Errorf("%v", err)
	}
}
