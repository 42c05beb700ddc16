package shell

import (
	"fmt"
	"strings"
	"time"

	"kops.local/kops"
	"kops.local/kops/internal/engine/render/text"
)

// On shows the events of a call, and hands them to more, which may be nil.
func (a *App) On(more kops.On) kops.On {
	over := func() {} // ends the watch of a lease
	return func(e kops.Event) error {
		switch e.Kind {
		case kops.EventPhase:
			a.Phase(e.Phase)
		case kops.EventStep:
			a.step(e.Step)
		case kops.EventLeased:
			a.hold(e.Cluster)
		case kops.EventReleased:
			a.hold("")
		case kops.EventWatching:
			over = a.watched(e.Cluster, e.Holder, e.Watch)
		case kops.EventWatched:
			over()
		}
		if more == nil {
			return nil
		}
		return more(e)
	}
}

// step says which change is made, where no display of the whole plan does.
func (a *App) step(e *kops.StepEvent) {
	if e.State == kops.StepStarted {
		a.busy(fmt.Sprintf("applying the changes: %s %s/%s", e.Step.Op, e.Step.Kind, e.Step.Name))
	}
}

// hold notes the cluster whose lease the command has; "" for none.
func (a *App) hold(cluster string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lease = cluster
}

// leased is the cluster whose lease the command has; "" when it has none.
func (a *App) leased() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lease
}

// watched shows that the lease of a cluster is watched.
func (a *App) watched(cluster, holder string, d time.Duration) (over func()) {
	show, over := a.Waiting()
	show.Saw([]text.Reason{{Of: "the lease of " + cluster, Text: fmt.Sprintf("waiting %v, because the command that held it last may still be running: %s", d, holder)}})
	return over
}

// Stopping says what a command does that was asked to stop. One that changes
// nothing has nothing left to do.
func (a *App) Stopping() {
	if a.leased() != "" {
		a.Notef("stopping: no further change is started, and finished changes are recorded; press ^C again to quit immediately\n")
	}
}

// Quit says what a command may leave that ends without stopping in order, and
// which one goes on from there.
func (a *App) Quit() {
	a.screen.End()
	cluster := a.leased()
	if cluster == "" {
		a.Notef("Error: quit immediately\n")
		return
	}
	a.Notef("Error: quit immediately; changes in progress may or may not have completed, and the lease of %s may remain, which expires within two minutes; to continue, run: %s\n",
		cluster, a.goesOn(cluster))
}

// goesOn is the command line that goes on from where this one is: itself, but a
// cluster is described once only, and then updated in the same place and way.
func (a *App) goesOn(cluster string) string {
	if !strings.HasPrefix(a.Running.CommandPath(), "kops create") {
		return a.Command
	}
	line := "kops update cluster " + cluster + " --yes"
	if f := a.Running.Flags().Lookup("cloud"); f != nil && a.Traits(f.Value.String()).OwnersAdmin {
		line += " --admin" // as its creation would have given
	}
	for _, name := range []string{"state", "config", "target", "out"} {
		if f := a.Running.Flags().Lookup(name); f != nil && f.Value.String() != f.DefValue {
			line += " --" + name + " " + f.Value.String()
		}
	}
	return line
}
