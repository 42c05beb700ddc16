package roll

import (
	"slices"
	"time"

	"kops.local/kops/api/status"
)

// Step returns what a rollout has come to, and all that should be under way now. It
// depends on its arguments alone, and is right whatever of an earlier Step's actions was
// carried out. The state that it is given is not changed.
//
// Its promises, which the simulator holds it to: of the machines that serve, no group
// loses more at once than its budget allows; never is more than one control plane away by
// the rollout's doing, nor is a majority of an etcd cluster's voters given up (a cluster of
// one or two voters excepted); an old machine that has a successor is not drained before
// this is ready and has soaked; while paused nothing is begun; a rollout ends, or says what
// it waits for; and one that has ended leaves no node as it made it.
func Step(s State, v View) (State, []Action) {
	if !s.Ended.IsZero() {
		return s, nil
	}
	t := newTurn(s, v)
	for _, w := range v.Wishes {
		t.wish(w)
	}
	for _, r := range v.Results {
		t.result(r)
	}
	for t.moved = true; t.moved; {
		t.moved, t.wakes = false, time.Time{}
		t.move()
	}
	return t.State, t.done()
}

// move brings the rollout on by what follows at once from what is seen.
func (t *turn) move() {
	t.look()
	stage := t.stage()
	for _, g := range t.groups {
		if g.actions = nil; g.Stage == stage && g.Ended.IsZero() && !t.closing(g) {
			t.progress(g)
		}
	}
	if t.moved {
		return // what was counted has changed
	}
	t.begin(stage)
	for _, g := range t.groups {
		if t.closing(g) && g.Ended.IsZero() {
			g.actions = nil
			t.close(g)
		}
	}
	t.settle()
}

// turn is one Step under way.
type turn struct {
	State
	view   View
	now    time.Time
	groups []*group
	fresh  []status.Failure // those that were not there before
	wakes  time.Time        // when a Step is due though nothing happens; zero for never
	moved  bool             // more may follow at once
}

// group is a group and what is seen of it.
type group struct {
	*Group
	view *GroupView              // nil while it is not known
	seen map[string]*MachineView // by name
	by   map[string]*Newcomer    // by name
	// attached counts the machines that the platform counts, but for those that leave;
	// serving, those that serve and are not taken; needed, those that have to.
	attached, serving, needed int
	// flying counts the machines under way; of them, waiting those whose successors are well
	// and whose turn it is to go, and resting those that are gone and replaced, but for the
	// interval; surging, all whose successors come first; leaving, those that are being
	// removed, or were a moment ago.
	flying, waiting, resting, surging, leaving int
	nodeless                                   bool
	actions                                    []Action
}

// newTurn makes a copy of the state that may be changed.
func newTurn(s State, v View) *turn {
	t := &turn{State: s, view: v, now: v.Now}
	t.Groups = slices.Clone(s.Groups)
	t.Questions = slices.Clone(s.Questions)
	if v.API && s.Options.ValidateCount > 0 {
		t.fresh = fresh(s.Baseline, v.Failures)
	}
	views := map[string]*GroupView{}
	for i := range v.Groups {
		views[v.Groups[i].Name] = &v.Groups[i]
	}
	for i := range t.Groups {
		g := &group{Group: &t.Groups[i], nodeless: t.Groups[i].nodeless(s.Options)}
		g.Machines, g.New = slices.Clone(g.Machines), slices.Clone(g.New)
		if g.view = views[g.Name]; g.view != nil {
			g.seen = make(map[string]*MachineView, len(g.view.Machines))
			for i := range g.view.Machines {
				g.seen[g.view.Machines[i].Name] = &g.view.Machines[i]
			}
		}
		t.groups = append(t.groups, g)
	}
	return t
}

// fresh are the failures that were not there before.
func fresh(before, now []status.Failure) []status.Failure {
	type key struct{ kind, name, group string }
	old := map[key]bool{}
	for _, f := range before {
		old[key{f.Kind, f.Name, f.Group}] = true
	}
	return slices.DeleteFunc(slices.Clone(now), func(f status.Failure) bool { return old[key{f.Kind, f.Name, f.Group}] })
}

// stage is the first that is not over.
func (t *turn) stage() Stage {
	for _, g := range t.groups {
		if g.Ended.IsZero() {
			return g.Stage
		}
	}
	return Nodes
}

// closing reports that nothing of a group is begun any more.
func (t *turn) closing(g *group) bool { return t.Aborted || t.Stopped != nil || g.Stopped != nil }

// settle ends groups of which all is over, and the rollout when all groups are.
func (t *turn) settle() {
	all := true
	for _, g := range t.groups {
		if g.Ended.IsZero() && t.closing(g) && !slices.ContainsFunc(g.Machines, func(m Machine) bool { return !m.Phase.Over() }) {
			g.Ended, g.Waits, g.Held, t.moved = t.now, "", time.Time{}, true
		}
		all = all && !g.Ended.IsZero()
	}
	if all && t.Ended.IsZero() {
		t.Ended, t.Questions, t.wakes = t.now, nil, time.Time{}
	}
}

// done returns the actions, with a Sleep where a time has to be awaited.
func (t *turn) done() []Action {
	var all []Action
	for _, g := range t.groups {
		all = append(all, g.actions...)
	}
	for _, q := range t.Questions {
		all = append(all, Action{Do: Prompt, Group: q.Group, Machine: q.Machine, Question: q.ID})
	}
	if !t.wakes.IsZero() {
		all = append(all, Action{Do: Sleep, Until: t.wakes})
	}
	return all
}

// wake asks for a Step at a time, and reports whether that is yet to come.
func (t *turn) wake(at time.Time) bool {
	if !at.After(t.now) {
		return false
	}
	if t.wakes.IsZero() || at.Before(t.wakes) {
		t.wakes = at
	}
	return true
}

const (
	// again is after what time something that succeeded is done again, because it does not show.
	again = 30 * time.Second
	// backoff bounds the time between attempts, of which the second follows after a second.
	backoff = 30 * time.Second
)

// do has an action under way, unless it has just succeeded, or waits for its next attempt.
func (t *turn) do(g *group, e *Effort, a Action) {
	if e.Did == a.Do {
		wait := again
		if e.Attempts > 0 {
			wait = min(backoff, time.Second<<min(e.Attempts-1, 10))
		}
		if t.wake(e.At.Add(wait)) {
			return
		}
	}
	a.Group = g.Name
	g.actions = append(g.actions, a)
}

// tried notes what became of an attempt, and reports whether there is no use in another.
func (t *turn) tried(e *Effort, r Result) (hopeless bool) {
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

// to brings a machine to a phase.
func (t *turn) to(m *Machine, p Phase) {
	if m.Phase != p {
		m.Phase, m.Since, m.Lacks, t.moved = p, t.now, "", true
	}
}

// begun reports whether a machine of the group was taken, and not only skipped.
func (g *Group) begun() bool {
	return slices.ContainsFunc(g.Machines, func(m Machine) bool { return m.Phase != Pending && m.Phase != Kept })
}

// stop has nothing more of a group begun; where later stages rely on it, of none.
func (t *turn) stop(g *group, m *Machine, why string) {
	if t.closing(g) {
		return
	}
	s := &Stop{At: t.now, Why: why, Canary: !g.Proven && g.begun()}
	if m != nil {
		s.Machine, s.Phase = m.Name, m.Phase
	}
	g.Stopped, t.moved = s, true
	if g.Stage < Nodes {
		t.Stopped = s
	}
}
