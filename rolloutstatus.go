package kops

import (
	"kops.local/kops/api/status"
	"kops.local/kops/internal/ops/roll"
)

// rolloutOf converts a rollout to its public form.
func rolloutOf(s *roll.State) *Rollout {
	out := &Rollout{ID: s.ID, Began: s.Began, Ended: s.Ended, Paused: s.Paused, Aborted: s.Aborted, Baseline: s.Baseline, Questions: s.Questions}
	if s.Stopped != nil {
		out.Stopped, out.Declined = s.Stopped.Why, s.Stopped.Declined
	}
	for _, g := range s.Groups {
		shown := status.RolloutGroup{Name: g.Name, Role: string(g.Role), Surge: g.Surge, Unavailable: g.Unavailable, Waits: g.Waits}
		if g.Stopped != nil {
			shown.Stopped, out.Declined = g.Stopped.Why, out.Declined || g.Stopped.Declined
			if g.Stopped.Canary {
				shown.Revision = g.Revision
			}
		}
		for _, m := range g.Machines {
			shown.Machines = append(shown.Machines, machineOf(&m))
		}
		out.Groups = append(out.Groups, shown)
	}
	return out
}

func machineOf(m *roll.Machine) status.RolloutMachine {
	return status.RolloutMachine{Name: m.Name, Node: m.Node, Effect: string(m.Effect), Reasons: m.Reasons, Phase: string(m.Phase), Since: m.Since,
		Successor: m.Successor, Blockers: m.Blockers, Trouble: m.Trouble, Lacks: m.Lacks}
}
