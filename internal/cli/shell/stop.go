package shell

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"kops.local/kops"
	"kops.local/kops/internal/engine/render/text"
)

// On shows the events of a call, and passes them to more, which may be nil.
func (a *App) On(more kops.On) kops.On {
	over := func() {} // stops the display of a lease
	return func(e kops.Event) error {
		switch e.Kind {
		case kops.EventPhase:
			a.Phase(e.Phase)
		case kops.EventStep:
			a.step(e.Step)
		case kops.EventLeased:
			a.setLease(e.Cluster)
		case kops.EventReleased:
			a.setLease("")
		case kops.EventWatching:
			over = a.showWaiting(e.Cluster, e.Holder, e.Watch)
		case kops.EventWatched:
			over()
		}
		if more == nil {
			return nil
		}
		return more(e)
	}
}

// step shows which change is made, if there is no display of the whole plan.
func (a *App) step(e *kops.StepEvent) {
	if e.State == kops.StepStarted {
		a.busy(fmt.Sprintf("applying the changes: %s %s/%s", e.Step.Op, e.Step.Kind, e.Step.Name))
	}
}

// setLease records the cluster whose lease the command holds; "" for none.
func (a *App) setLease(cluster string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lease = cluster
}

// leasedCluster returns the cluster whose lease the command holds, or "".
func (a *App) leasedCluster() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lease
}

// showWaiting shows that the command waits for the lease of a cluster.
func (a *App) showWaiting(cluster, holder string, d time.Duration) (over func()) {
	show, over := a.Waiting()
	show.Update([]text.Reason{{Of: "the lease of " + cluster, Text: fmt.Sprintf("waiting %v, because the command that held it last may still be running: %s", d, holder)}})
	return over
}

// Stopping prints what a command does after it was asked to stop. A command that changes nothing
// has nothing left to do.
func (a *App) Stopping() {
	if a.leasedCluster() != "" {
		a.Notef("stopping: no further change is started, and finished changes are recorded; press ^C again to quit immediately\n")
	}
}

// LetFinish has an interrupted command run to its end, which reports itself what it still does.
func (a *App) LetFinish() { a.patient.Store(true) }

// CanLeave reports whether an interrupted command can be left at any time: it holds no lease, has
// nothing to remove, and no other program uses its terminal.
func (a *App) CanLeave() bool { return a.leasedCluster() == "" && !a.patient.Load() && !a.Lent() }

// Delayed prints that a command has not yet ended, if it has not said so before.
func (a *App) Delayed() {
	if a.CanLeave() {
		a.Notef("stopping; press ^C again to quit immediately\n")
	}
}

// Leave ends a command's output that does not end by itself.
func (a *App) Leave() {
	a.screen.End()
	a.Notef("Error: interrupted\n")
}

// WasInterrupted reports whether a program that a command ran was ended by ^C, which kops receives,
// too, perhaps later.
func WasInterrupted(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGINT
}

// Quit prints what a command may leave behind that ends without an orderly stop, and which command
// continues from there.
func (a *App) Quit() {
	a.screen.End()
	cluster := a.leasedCluster()
	if cluster == "" {
		a.Notef("Error: quit immediately\n")
		return
	}
	a.Notef("Error: quit immediately; changes in progress may or may not have completed, and the lease of %s may remain, which expires within two minutes; to continue, run: %s\n",
		cluster, a.resumeCommand(cluster))
}

// resumeCommand returns the command line that continues where this one stopped: the same, except
// that a cluster is only created once, and then updated in the same place and way.
func (a *App) resumeCommand(cluster string) string {
	if !strings.HasPrefix(a.Running.CommandPath(), "kops create") {
		return a.Command
	}
	line := "kops update cluster " + cluster + " --yes"
	if f := a.Running.Flags().Lookup("cloud"); f != nil && a.Traits(f.Value.String()).OwnersAdmin {
		line += " --admin" // its creation would have written one
	}
	for _, name := range []string{"state", "config", "target", "out"} {
		if f := a.Running.Flags().Lookup(name); f != nil && f.Value.String() != f.DefValue {
			line += " --" + name + " " + f.Value.String()
		}
	}
	return line
}
