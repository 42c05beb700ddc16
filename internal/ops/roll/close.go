package roll

import (
	"slices"
	"time"
)

// close leaves a group in order without beginning anything: drained machines are ended,
// machines that were only cordoned are given back, detached ones continue to serve.
//
// A machine that was detached cannot be attached again, and draining it would be more than
// the user, or the failure, allows: it stays until the next rollout, which ends it first.
func (t *turn) close(g *group) {
	t.Questions = slices.DeleteFunc(t.Questions, func(q Question) bool { return q.Group == g.Name })
	for i := range g.Machines {
		m := &g.Machines[i]
		switch {
		case m.Phase.Over():
		case t.vanished(g, m), !m.Ended.IsZero():
			t.replaced(g, m)
		case m.Phase == Draining && !m.Drained.IsZero() && m.Effect == Replace && t.endangers(g, m) == "":
			t.drain(g, m)
		case m.Phase == Restarting && t.wake(m.Deadline) && !g.seen[m.Name].applied():
			t.restart(g, m)
		case m.Effect == Restart && m.waits():
			if t.released(g, m) {
				t.to(m, Done)
			}
		default:
			t.keep(g, m)
		}
	}
	if g.Waits = ""; g.view == nil || !t.view.API && !g.nodeless {
		g.Waits = "the cluster to answer, so that no node stays cordoned"
	}
	t.makeUp(g)
}

func (m *MachineView) applied() bool { return m != nil && m.Applied }

// replaced ends a machine that is gone: its successor is on its way, or is ordered.
func (t *turn) replaced(g *group, m *Machine) {
	ordered := g.Making.done(Update) || g.Making.Hopeless
	if g.Refills || m.Spare || m.Successor != "" || ordered || g.view != nil && g.attached >= g.view.Target {
		t.to(m, Done)
	}
}

// keep leaves a machine as it is.
func (t *turn) keep(g *group, m *Machine) {
	t.drop(m)
	m.Blockers, m.Deadline = nil, time.Time{}
	if t.released(g, m) {
		t.to(m, Kept)
		if m.Deregistered && m.Trouble == "" {
			m.Trouble = "load balancers to deregister it"
		}
	}
}
