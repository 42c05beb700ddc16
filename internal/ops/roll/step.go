package roll

import (
	"slices"
	"time"

	"kops.local/kops/api/status"
)

// Step returns the next state of a rollout, and everything that should be under way now. It depends
// only on its arguments, and is correct no matter which of an earlier Step's actions were carried
// out. It does not change its arguments.
//
// It makes these promises, which the simulator checks: no group loses more serving machines at once
// than its budget allows; the rollout never takes away more than one control plane at a time, nor a
// majority of an etcd cluster's voters (except for clusters of one or two voters); an old machine
// with a successor is not drained before the successor is ready and has soaked; nothing is begun
// while the rollout is paused; a rollout ends, or says what it waits for; and a rollout that has
// ended leaves no node in the state that it put it in.
func Step(s State, v View) (State, []Action) {
	if !s.Ended.IsZero() {
		return s, nil
	}
	t := newTurn(s, v)
	for _, w := range v.Requests {
		t.applyRequest(w)
	}
	for _, r := range v.Results {
		t.result(r)
	}
	for t.again = true; t.again; {
		t.again, t.wakeAt = false, time.Time{}
		t.move()
	}
	return t.State, t.actions()
}

// move advances the rollout by what follows directly from the view.
func (t *turn) move() {
	t.observe()
	stage := t.stage()
	for _, g := range t.groups {
		if g.actions = nil; g.Stage == stage && g.Ended.IsZero() && !t.isClosing(g) {
			t.progress(g)
		}
	}
	if t.again {
		return // the counts are out of date
	}
	t.begin(stage)
	for _, g := range t.groups {
		if t.isClosing(g) && g.Ended.IsZero() {
			g.actions = nil
			t.close(g)
		}
	}
	t.endFinished()
}

// turn is the state of one Step.
type turn struct {
	State
	view        View
	now         time.Time
	groups      []*group
	newFailures []status.Failure // failures that did not exist before
	wakeAt      time.Time        // when a Step is due even if nothing happens; zero for never
	again       bool             // another pass may make progress
}

// group is a group and what was observed of it.
type group struct {
	*Group
	view            *GroupView              // nil while it is unknown
	views           map[string]*MachineView // by name
	newcomersByName map[string]*Newcomer    // newcomersByName name
	// attached is the number of machines that the platform counts, except for those that leave;
	// serving, of those that serve and are not taken; needed, of those that must serve.
	attached, serving, needed int
	// inProgress is the number of machines under way; of these, waiting is those with a healthy
	// successor that wait for their turn to go, and resting those that are gone and replaced, but
	// whose interval is not over; surging is the number of machines whose successors come first;
	// leaving, of those that are being removed, or just were.
	inProgress, waiting, resting, surging, leaving int
	nodeless                                       bool
	actions                                        []Action
}

// newTurn makes a copy of the state, which may be changed.
func newTurn(s State, v View) *turn {
	t := &turn{State: s, view: v, now: v.Now}
	t.Groups = slices.Clone(s.Groups)
	t.Questions = slices.Clone(s.Questions)
	if v.API && s.Options.ValidateCount > 0 {
		t.newFailures = newFailures(s.Baseline, v.Failures)
	}
	views := map[string]*GroupView{}
	for i := range v.Groups {
		views[v.Groups[i].Name] = &v.Groups[i]
	}
	for i := range t.Groups {
		g := &group{Group: &t.Groups[i], nodeless: t.Groups[i].isNodeless(s.Options)}
		g.Machines, g.New = slices.Clone(g.Machines), slices.Clone(g.New)
		if g.view = views[g.Name]; g.view != nil {
			g.views = make(map[string]*MachineView, len(g.view.Machines))
			for i := range g.view.Machines {
				g.views[g.view.Machines[i].Name] = &g.view.Machines[i]
			}
		}
		t.groups = append(t.groups, g)
	}
	return t
}

// newFailures returns the failures that did not exist before.
func newFailures(before, now []status.Failure) []status.Failure {
	type key struct{ kind, name, group string }
	old := map[key]bool{}
	for _, f := range before {
		old[key{f.Kind, f.Name, f.Group}] = true
	}
	return slices.DeleteFunc(slices.Clone(now), func(f status.Failure) bool { return old[key{f.Kind, f.Name, f.Group}] })
}

// stage returns the first stage that is not over.
func (t *turn) stage() Stage {
	for _, g := range t.groups {
		if g.Ended.IsZero() {
			return g.Stage
		}
	}
	return Nodes
}

// isClosing reports whether no more machines of a group are begun.
func (t *turn) isClosing(g *group) bool { return t.Aborted || t.Stopped != nil || g.Stopped != nil }

// endFinished ends groups whose machines are all over, and the rollout when all groups have ended.
func (t *turn) endFinished() {
	all := true
	for _, g := range t.groups {
		if g.Ended.IsZero() && t.isClosing(g) && !slices.ContainsFunc(g.Machines, func(m Machine) bool { return !m.Phase.IsOver() }) {
			g.Ended, g.Waits, g.WaitingSince, t.again = t.now, "", time.Time{}, true
		}
		all = all && !g.Ended.IsZero()
	}
	if all && t.Ended.IsZero() {
		t.Ended, t.Questions, t.wakeAt = t.now, nil, time.Time{}
	}
}

// actions returns the actions, including a Sleep if there is a time to wait for.
func (t *turn) actions() []Action {
	var all []Action
	for _, g := range t.groups {
		all = append(all, g.actions...)
	}
	for _, q := range t.Questions {
		all = append(all, Action{Do: Prompt, Group: q.Group, Machine: q.Machine, Question: q.ID})
	}
	if !t.wakeAt.IsZero() {
		all = append(all, Action{Do: Sleep, Until: t.wakeAt})
	}
	return all
}

// wakeUpAt requests a Step at a time, and reports whether that time is still to come.
func (t *turn) wakeUpAt(at time.Time) bool {
	if !at.After(t.now) {
		return false
	}
	if t.wakeAt.IsZero() || at.Before(t.wakeAt) {
		t.wakeAt = at
	}
	return true
}

const (
	// again is the time after which a successful action is repeated if its effect does not show.
	again = 30 * time.Second
	// backoff is the maximum time between attempts; it starts at one second.
	backoff = 30 * time.Second
)

// do requests an action, unless it has just succeeded, or waits for its next attempt.
func (t *turn) do(g *group, e *Effort, a Action) {
	if e.Did == a.Do {
		wait := again
		if e.Attempts > 0 {
			wait = min(backoff, time.Second<<min(e.Attempts-1, 10))
		}
		if t.wakeUpAt(e.At.Add(wait)) {
			return
		}
	}
	a.Group = g.Name
	g.actions = append(g.actions, a)
}

// recordAttempt records the result of an attempt, and reports whether further attempts are pointless.
func (t *turn) recordAttempt(e *Effort, r Result) (hopeless bool) {
	if e.Did != r.Do || r.Trouble == "" {
		*e = Effort{}
	}
	e.Did, e.At = r.Do, t.now
	if r.Trouble == "" {
		return false
	}
	e.Attempts++
	e.Hopeless = r.Final || e.Attempts >= 5+int(t.Options.ValidationTimeout/backoff)
	return e.Hopeless
}

// setPhase moves a machine to a phase.
func (t *turn) setPhase(m *Machine, p Phase) {
	if m.Phase != p {
		m.Phase, m.Since, m.Lacks, t.again = p, t.now, "", true
	}
}

// hasBegun reports whether a machine of the group was taken, and not only skipped.
func (g *Group) hasBegun() bool {
	return slices.ContainsFunc(g.Machines, func(m Machine) bool { return m.Phase != Pending && m.Phase != Kept })
}

// stop prevents further machines of a group from being begun; if later stages depend on the group,
// machines of any group.
func (t *turn) stop(g *group, m *Machine, why string) {
	if t.isClosing(g) {
		return
	}
	s := &Stop{At: t.now, Why: why, Canary: !g.Proven && g.hasBegun()}
	if m != nil {
		s.Machine, s.Phase = m.Name, m.Phase
	}
	g.Stopped, t.again = s, true
	if g.Stage < Nodes {
		t.Stopped = s
	}
}
