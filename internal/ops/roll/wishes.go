package roll

import (
	"fmt"
	"slices"
	"time"
)

// wish does what the user wants.
func (t *turn) wish(w Wish) {
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
			t.reply(q, w.Answer)
		}
	}
}

// reopen has a group that was stopped go on.
func (t *turn) reopen(g *group) {
	g.Stopped, g.Held, g.Making, g.Gates.Effort = nil, time.Time{}, Making{}, Effort{}
	for i := range g.Machines {
		m := &g.Machines[i]
		m.Effort, m.Deadline = Effort{}, time.Time{}
		if m.Phase != Kept || m.Skipped || g.SurgeOnly {
			continue
		}
		g.Ended = time.Time{}
		m.Deregistered, m.Drained, m.Silent, m.Trouble = false, time.Time{}, time.Time{}, ""
		if v := g.seen[m.Name]; m.Surged && v != nil && v.Detached {
			t.to(m, Surged)
		} else {
			m.Surged = false
			t.to(m, Pending)
		}
	}
}

// ask puts a question, once.
func (t *turn) ask(q Question) {
	if !slices.ContainsFunc(t.Questions, func(o Question) bool { return o.ID == q.ID }) {
		t.Questions = append(t.Questions, q)
	}
}

// drop takes back what was asked about the drain of a machine.
func (t *turn) drop(m *Machine) {
	t.Questions = slices.DeleteFunc(t.Questions, func(q Question) bool { return q.Machine == m.Name && q.Choices[0] == Wait })
}

// reply does what the user answered.
func (t *turn) reply(q Question, answer string) {
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

// result takes note of what became of an action.
func (t *turn) result(r Result) {
	g, m := t.machine(r.Group, r.Machine)
	switch {
	case g == nil || !g.Ended.IsZero():
	case r.Do == Update:
		g.Making.Trouble = r.Trouble
		if t.tried(&g.Making.Effort, r) {
			t.stop(g, nil, fmt.Sprintf("the missing machines of group %s cannot be created: %s", g.Name, r.Trouble))
		}
	case r.Do == CheckGates && r.Round == g.Gates.Asked:
		g.Gates.Trouble = r.Trouble
		if t.tried(&g.Gates.Effort, r) {
			t.stop(g, nil, fmt.Sprintf("the gates of group %s do not pass: %s", g.Name, r.Trouble))
		} else if r.Trouble == "" {
			g.Gates.Passed = r.Round
		}
	case m != nil && !m.Phase.Over() && m.Ended.IsZero():
		t.attempt(g, m, r)
	}
}

// attempt takes note of what became of an action for a machine.
func (t *turn) attempt(g *group, m *Machine, r Result) {
	hopeless := t.tried(&m.Effort, r)
	m.Trouble = r.Trouble
	switch {
	case r.Do == Drain && m.Phase != Draining, r.Do == Deregister && m.Phase != Cordoned, r.Do == Taint: // too late, or of no weight
	case r.Do == Release && (hopeless || r.Trouble == ""):
		m.Touched = false
	case r.Do == Drain && r.Final:
		t.stuck(g, m, false)
	case r.Do == Drain && r.Trouble == "":
		m.Drained = t.now
	case r.Do == Deregister && r.Trouble == "":
		m.Deregistered = true
	case hopeless && r.Do != Drain && r.Do != Release:
		if r.Do == Terminate { // it stays, and is given back
			m.Drained = time.Time{}
		}
		t.stop(g, m, fmt.Sprintf("%s of %s fails: %s", r.Do, m.Name, r.Trouble))
	}
}
