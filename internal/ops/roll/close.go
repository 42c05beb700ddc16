package roll

import (
	"slices"
	"time"
)

// close leaves a group in order without beginning anything: drained machines are terminated,
// machines that were only cordoned are uncordoned, detached ones continue to serve.
//
// A detached machine cannot be attached again, and draining it would be more than the user, or the
// failure, allows: it stays until the next rollout, which removes it first.
func (t *turn) close(g *group) {
	t.Questions = slices.DeleteFunc(t.Questions, func(q Question) bool { return q.Group == g.Name })
	for i := range g.Machines {
		m := &g.Machines[i]
		switch {
		case m.Phase.IsOver():
		case t.recordGone(g, m), !m.Ended.IsZero():
			t.markReplaced(g, m)
		case m.Phase == Draining && !m.Drained.IsZero() && m.Effect == Replace && t.whyUnsafe(g, m) == "":
			t.drain(g, m)
		case m.Phase == Restarting && t.wakeUpAt(m.Deadline) && !g.views[m.Name].hasApplied():
			t.restart(g, m)
		case m.Effect == Restart && m.isWaiting():
			if t.isReleased(g, m) {
				t.setPhase(m, Done)
			}
		default:
			t.keep(g, m)
		}
	}
	if g.Waits = ""; g.view == nil || !t.view.API && !g.nodeless {
		g.Waits = "the cluster to answer, so that no node stays cordoned"
	}
	t.replaceTaken(g)
}

func (m *MachineView) hasApplied() bool { return m != nil && m.Applied }

// markReplaced marks a machine that is gone as done if its successor has come or is requested.
func (t *turn) markReplaced(g *group, m *Machine) {
	ordered := g.Creation.hasDone(Update) || g.Creation.Hopeless
	if g.Refills || m.Spare || m.Successor != "" || ordered || g.view != nil && g.attached >= g.view.Target {
		t.setPhase(m, Done)
	}
}

// keep leaves a machine in place.
func (t *turn) keep(g *group, m *Machine) {
	t.withdrawQuestion(m)
	m.Blockers, m.Deadline = nil, time.Time{}
	if t.isReleased(g, m) {
		t.setPhase(m, Kept)
		if m.Deregistered && m.Trouble == "" {
			m.Trouble = "load balancers to deregister it"
		}
	}
}
