package kops

import (
	"time"

	"kops.local/kops/api/status"
	"kops.local/kops/internal/ops/roll"
)

// groupWork is the number of changes of a rollout to the machines of a group.
type groupWork struct {
	stage              roll.Stage
	restarts, replaces int
	atOnce             int // how many machines are processed at once
}

// about returns the approximate duration of a rollout that has not begun.
func about(s roll.State) time.Duration {
	var all []groupWork
	for _, g := range s.Groups {
		w := groupWork{stage: g.Stage, atOnce: g.Surge + g.Unavailable}
		for _, m := range g.Machines {
			if m.Effect == roll.Restart {
				w.restarts++
			} else {
				w.replaces++
			}
		}
		all = append(all, w)
	}
	return estimateTime(all, s.Options)
}

// estimateTime returns the approximate duration of work: status.RestartTime and status.ReplaceTime
// for each machine, and waits of the options beyond the usual. Stages follow one another; the
// groups of a stage are rolled concurrently, except control planes, which are rolled one after the
// other.
func estimateTime(all []groupWork, o roll.Options) time.Duration {
	stages := map[roll.Stage]time.Duration{}
	for _, w := range all {
		wait, drained := extraWait(w.stage, o), max(0, o.PostDrainDelay-roll.Defaults().PostDrainDelay)
		took := batches(w.restarts, w.atOnce)*(status.RestartTime+wait) + batches(w.replaces, w.atOnce)*(status.ReplaceTime+wait+drained)
		if w.stage == roll.ControlPlanes {
			stages[w.stage] += took
		} else {
			stages[w.stage] = max(stages[w.stage], took)
		}
	}
	total := time.Duration(0)
	for _, d := range stages {
		total += d
	}
	return total
}

// extraWait returns how much longer than usual the options wait after a machine.
func extraWait(s roll.Stage, o roll.Options) time.Duration {
	usual := roll.Defaults()
	switch s {
	case roll.Bastions:
		return max(0, o.BastionInterval-usual.BastionInterval)
	case roll.ControlPlanes:
		return max(0, o.ControlPlaneInterval-usual.ControlPlaneInterval)
	}
	return max(0, o.NodeInterval-usual.NodeInterval)
}

// batches returns the number of batches of the budget's size.
func batches(machines, budget int) time.Duration {
	budget = max(1, budget)
	return time.Duration((machines + budget - 1) / budget)
}
