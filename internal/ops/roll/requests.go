package roll

import (
	"fmt"
	"slices"
	"time"
)

// applyRequest applies a user's request.
func (t *turn) applyRequest(w Request) {
	switch w.Want {
	case Pause:
		t.Paused = true
	case Abort:
		t.Aborted = true
	case Resume:
		t.Paused = false
		if t.Aborted {
			return
		}
		t.Stopped = nil
		for _, g := range t.groups {
			if g.Stopped != nil || !g.Ended.IsZero() {
				t.reopen(g)
			}
		}
	case Reply:
		i := slices.IndexFunc(t.Questions, func(q Question) bool { return q.ID == w.Question })
		if i >= 0 && slices.Contains(t.Questions[i].Choices, w.Answer) {
			q := t.Questions[i]
			t.Questions = slices.Delete(t.Questions, i, i+1)
			t.applyAnswer(q, w.Answer)
		}
	}
}

// reopen resumes a group that was stopped.
func (t *turn) reopen(g *group) {
	g.Stopped, g.WaitingSince, g.Creation, g.Gates.Effort = nil, time.Time{}, Creation{}, Effort{}
	for i := range g.Machines {
		m := &g.Machines[i]
		m.Effort, m.Deadline = Effort{}, time.Time{}
		if m.Phase != Kept || m.Skipped || g.SurgeOnly {
			continue
		}
		g.Ended = time.Time{}
		m.Deregistered, m.Drained, m.Silent, m.Trouble = false, time.Time{}, time.Time{}, ""
		if v := g.views[m.Name]; m.Surged && v != nil && v.Detached {
			t.setPhase(m, Surged)
		} else {
			m.Surged = false
			t.setPhase(m, Pending)
		}
	}
}

// ask adds a question, once.
func (t *turn) ask(q Question) {
	if !slices.ContainsFunc(t.Questions, func(o Question) bool { return o.ID == q.ID }) {
		t.Questions = append(t.Questions, q)
	}
}

// withdrawQuestion withdraws the question about a machine's drain.
func (t *turn) withdrawQuestion(m *Machine) {
	t.Questions = slices.DeleteFunc(t.Questions, func(q Question) bool { return q.Machine == m.Name && q.Choices[0] == Wait })
}

// applyAnswer applies a user's answer.
func (t *turn) applyAnswer(q Question, answer string) {
	g, m := t.machine(q.Group, q.Machine)
	if m == nil {
		return
	}
	switch answer {
	case Always:
		t.Options.Interactive = false
	case No:
		t.Stopped = &Stop{At: t.now, Why: "the user chose not to continue", Declined: true}
	case Wait:
		m.Deadline = t.now.Add(t.Options.DrainTimeout)
	case Force:
		m.Drained = t.now.Add(-t.Options.PostDrainDelay)
	case Skip:
		m.Skipped, m.Trouble = true, "skipped: "+q.Text
	case Halt:
		t.stop(g, m, q.Text)
	}
}

func (t *turn) machine(group, name string) (*group, *Machine) {
	g := t.groupOf(group)
	if g == nil {
		return nil, nil
	}
	i := slices.IndexFunc(g.Machines, func(m Machine) bool { return m.Name == name })
	if i < 0 {
		return g, nil
	}
	return g, &g.Machines[i]
}

// result processes the result of an action.
func (t *turn) result(r Result) {
	g, m := t.machine(r.Group, r.Machine)
	switch {
	case g == nil || !g.Ended.IsZero():
	case r.Do == Update:
		g.Creation.Trouble = r.Trouble
		if t.recordAttempt(&g.Creation.Effort, r) {
			t.stop(g, nil, fmt.Sprintf("the missing machines of group %s cannot be created: %s", g.Name, r.Trouble))
		}
	case r.Do == CheckGates && r.Round == g.Gates.Requested:
		g.Gates.Trouble = r.Trouble
		if t.recordAttempt(&g.Gates.Effort, r) {
			t.stop(g, nil, fmt.Sprintf("the gates of group %s do not pass: %s", g.Name, r.Trouble))
		} else if r.Trouble == "" {
			g.Gates.Passed = r.Round
		}
	case m != nil && !m.Phase.IsOver() && m.Ended.IsZero():
		t.attempt(g, m, r)
	}
}

// attempt processes the result of an action on a machine.
func (t *turn) attempt(g *group, m *Machine, r Result) {
	hopeless := t.recordAttempt(&m.Effort, r)
	m.Trouble = r.Trouble
	switch {
	case r.Do == Drain && m.Phase != Draining, r.Do == Deregister && m.Phase != Cordoned, r.Do == Taint: // too late, or irrelevant
	case r.Do == Release && (hopeless || r.Trouble == ""):
		m.Touched = false
	case r.Do == Drain && r.Final:
		t.resolveStuckDrain(g, m, false)
	case r.Do == Drain && r.Trouble == "":
		m.Drained = t.now
	case r.Do == Deregister && r.Trouble == "":
		m.Deregistered = true
	case hopeless && r.Do != Drain && r.Do != Release:
		if r.Do == Terminate { // it stays, and is released
			m.Drained = time.Time{}
		}
		t.stop(g, m, fmt.Sprintf("%s of %s fails: %s", r.Do, m.Name, r.Trouble))
	}
}
