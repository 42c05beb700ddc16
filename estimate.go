package kops

import (
	"time"

	"kops.local/kops/api/status"
	"kops.local/kops/internal/ops/roll"
)

// work is what a rollout does to the machines of a group.
type work struct {
	stage              roll.Stage
	restarts, replaces int
	atOnce             int // how many machines are taken at once
}

// about is about how long a rollout takes that has not begun.
func about(s roll.State) time.Duration {
	var all []work
	for _, g := range s.Groups {
		w := work{stage: g.Stage, atOnce: g.Surge + g.Unavailable}
		for _, m := range g.Machines {
			if m.Effect == roll.Restart {
				w.restarts++
			} else {
				w.replaces++
			}
		}
		all = append(all, w)
	}
	return estimate(all, s.Options)
}

// estimate is about how long work takes: status.RestartTime and status.ReplaceTime for each
// machine, and what the options wait longer than usual. Stages follow one another; the groups of
// one are rolled at once, but for control planes, which take their turns.
func estimate(all []work, o roll.Options) time.Duration {
	stages := map[roll.Stage]time.Duration{}
	for _, w := range all {
		wait, drained := longer(w.stage, o), max(0, o.PostDrainDelay-roll.Defaults().PostDrainDelay)
		took := rounds(w.restarts, w.atOnce)*(status.RestartTime+wait) + rounds(w.replaces, w.atOnce)*(status.ReplaceTime+wait+drained)
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

// longer is how much longer than usual the options wait after a machine.
func longer(s roll.Stage, o roll.Options) time.Duration {
	usual := roll.Defaults()
	switch s {
	case roll.Bastions:
		return max(0, o.BastionInterval-usual.BastionInterval)
	case roll.ControlPlanes:
		return max(0, o.ControlPlaneInterval-usual.ControlPlaneInterval)
	}
	return max(0, o.NodeInterval-usual.NodeInterval)
}

// rounds is how often as many machines as a budget allows are taken.
func rounds(machines, budget int) time.Duration {
	budget = max(1, budget)
	return time.Duration((machines + budget - 1) / budget)
}
