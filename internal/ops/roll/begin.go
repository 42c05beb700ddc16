package roll

import (
	"fmt"
	"slices"
	"time"
)

// begin takes machines, as many as may be taken now.
func (t *turn) begin(stage Stage) {
	var front []*group
	for _, g := range t.groups {
		if g.Stage == stage && g.Ended.IsZero() && !t.closing(g) {
			front = append(front, g)
		}
	}
	switch {
	case stage == ControlPlanes:
		t.beginOne(front)
		return
	case stage == APIServers && len(front) > 0:
		front = front[:1]
	}
	for _, g := range front {
		t.beginIn(g)
	}
}

// beginOne begins with one control plane, when none is under way; a control plane that does not
// work comes first.
func (t *turn) beginOne(front []*group) {
	var first *group
	for _, g := range front {
		if g.flying > 0 || g.leaving > 0 {
			t.note(g, "", false)
			return
		}
		if m := g.next(t); m != nil && (first == nil || !t.works(g, m) && t.works(first, first.next(t))) {
			first = g
		}
	}
	for _, g := range front {
		if first == nil || g == first || g.next(t) == nil {
			t.beginIn(g)
		} else {
			g.Waits, g.Held = "its turn", time.Time{}
		}
	}
}

// next is the machine of a group that is taken next; nil for none. What does not serve
// costs nothing, and goes first.
func (g *group) next(t *turn) *Machine {
	var first *Machine
	for i := range g.Machines {
		m := &g.Machines[i]
		if m.Phase != Pending {
			continue
		}
		if !t.works(g, m) {
			return m
		}
		if first == nil {
			first = m
		}
	}
	return first
}

// works reports that taking a machine costs something: it serves, or a member of etcd on it does.
func (t *turn) works(g *group, m *Machine) bool {
	return t.serves(g, m.Name) && !(g.Stage == ControlPlanes && t.etcdLost(m))
}

// beginIn takes machines of a group.
func (t *turn) beginIn(g *group) {
	why, trouble := t.obstacle(g)
	if why == "" {
		t.taint(g)
		why, trouble = t.takeMany(g)
	}
	if why == "" && !slices.ContainsFunc(g.Machines, func(m Machine) bool { return !m.Phase.Over() }) {
		g.Ended, t.moved = t.now, true
	}
	t.note(g, why, trouble)
}

// note says what a group waits for; where that is trouble, it is not waited for any longer than is allowed.
func (t *turn) note(g *group, why string, trouble bool) {
	g.Waits = why
	if !trouble {
		g.Held = time.Time{}
		return
	}
	if g.Held.IsZero() {
		g.Held = t.now
	}
	if !t.wake(g.Held.Add(t.Options.ValidationTimeout)) {
		t.stop(g, nil, fmt.Sprintf("group %s is blocked for %v: %s", g.Name, t.Options.ValidationTimeout, why))
	}
}

// obstacle says what keeps anything of a group from being begun, or the group from being
// over; trouble is what does not pass by itself, or by an answer of the user.
func (t *turn) obstacle(g *group) (why string, trouble bool) {
	switch {
	case t.Paused:
		return "the user, who has paused it", false
	case g.view == nil:
		return "the platform to show the group", true
	case !t.view.API && !g.nodeless:
		return "the API server to answer", true
	}
	for _, q := range t.Questions {
		if q.Group == g.Name && q.Choices[0] == Yes || t.Options.Interactive && q.Choices[0] == Yes {
			return "an answer", false
		}
	}
	if g.nodeless {
		return t.gate(g)
	}
	if f := t.failure(g); f != nil {
		if !t.overdue(g) {
			return f.String(), true
		}
		t.accept(g)
	}
	if steady := time.Duration(t.Options.ValidateCount-1) * ValidateTick; g.finished() > 0 && steady > 0 && !g.Well.IsZero() && t.wake(g.Well.Add(steady)) {
		return "the cluster to stay healthy", false
	}
	return t.gate(g)
}

// accept counts the failures that concern a group among those that were there before.
func (t *turn) accept(g *group) {
	t.Baseline, t.moved = slices.Clone(t.Baseline), true
	for f := t.failure(g); f != nil; f = t.failure(g) {
		t.Baseline = append(t.Baseline, *f)
		t.fresh = fresh(t.Baseline, t.fresh)
	}
}

// overdue reports that failures have been waited for as long as is allowed, and do not count any more.
func (t *turn) overdue(g *group) bool {
	return !t.Options.FailOnValidateError && !g.Held.IsZero() && !t.now.Before(g.Held.Add(t.Options.ValidationTimeout))
}

// finished counts the machines that are done.
func (g *group) finished() int {
	n := 0
	for i := range g.Machines {
		if g.Machines[i].Phase == Done {
			n++
		}
	}
	return n
}

// gate has the checks of the user made, where they were not since a machine was done.
func (t *turn) gate(g *group) (why string, trouble bool) {
	if len(t.Options.Gates) == 0 || g.Gates.Passed > g.finished() {
		return "", false
	}
	if g.Gates.Asked <= g.finished() {
		g.Gates = GateState{Asked: g.finished() + 1, Passed: g.Gates.Passed}
	}
	t.do(g, &g.Gates.Effort, Action{Do: CheckGates, Round: g.Gates.Asked})
	if g.Gates.Attempts > 0 {
		return "the gates to be passed: " + g.Gates.Trouble, true
	}
	return "the gates", false
}

// taint has pods prefer nodes that stay.
func (t *turn) taint(g *group) {
	if g.nodeless || g.SurgeOnly {
		return
	}
	for i := range g.Machines {
		m := &g.Machines[i]
		v := g.seen[m.Name]
		if m.Phase != Pending || v == nil || v.Node == "" || v.Tainted || m.Did == Taint || m.Effect == Restart && !t.Options.DrainRestarts {
			continue
		}
		m.Touched = true
		t.do(g, &m.Effort, Action{Do: Taint, Machine: m.Name})
	}
}

// takeMany takes the machines of a group whose turn it is, and says what keeps the next from being taken.
func (t *turn) takeMany(g *group) (why string, trouble bool) {
	for i := range g.Machines { // those with a successor go before others are taken
		m := &g.Machines[i]
		if !g.ready(m) {
			continue
		}
		if why, trouble = t.mayGo(g, m); why == "" {
			t.take(g, m)
			g.waiting--
		}
	}
	for m := g.next(t); m != nil; m = g.next(t) {
		way, but, grave := t.mayBegin(g, m)
		switch {
		case but != "" && trouble:
			return why, trouble
		case but != "":
			return but, grave
		}
		way(g, m)
	}
	return why, trouble
}

// width is how many machines of a group may be under way.
func (t *turn) width(g *group) int {
	switch {
	case !g.Proven, t.Options.Interactive, g.Stage == ControlPlanes:
		return 1
	}
	return max(1, g.Surge+g.Unavailable)
}

// mayBegin says in which way a machine is taken, or what keeps it from being taken now.
func (t *turn) mayBegin(g *group, m *Machine) (way func(*group, *Machine), why string, trouble bool) {
	switch surgeOnly := g.SurgeOnly && m.Effect == Replace; {
	case g.seen[m.Name].Spare:
		return t.discard, "", false
	case t.crowded(g, m):
		return nil, "machines under way", false
	case surgeOnly && g.surging >= g.Surge:
		return t.keep, "", false
	case surgeOnly:
		return t.surge, "", false
	}
	why, trouble = t.mayGo(g, m)
	if why != "" && g.surging < g.Surge && m.Effect == Replace {
		return t.surge, "", false
	}
	return t.take, why, trouble
}

// crowded reports that as many machines are under way as may be. Those that rest need not
// be waited for, but by what goes one by one; and those that cannot go for want of others
// are not in the way of one that does not serve.
func (t *turn) crowded(g *group, m *Machine) bool {
	flying := g.flying
	if t.Options.Interactive {
		for _, o := range t.groups {
			if o != g && o.Stage == g.Stage && o.Ended.IsZero() {
				flying += o.flying - o.waiting
			}
		}
	} else if g.Proven {
		flying -= g.resting
	}
	if !t.works(g, m) {
		flying -= g.waiting
	}
	return flying >= t.width(g)
}

// mayGo says what keeps a machine from being taken away now; empty for nothing.
func (t *turn) mayGo(g *group, m *Machine) (why string, trouble bool) {
	if g.leaving >= t.width(g) {
		return "machines under way", false
	}
	if g.Stage == ControlPlanes {
		if why := t.controlPlane(g, m); why != "" {
			return why, true
		}
	}
	if !t.serves(g, m.Name) || g.serving-1 >= g.needed-t.spared(g, m) {
		return "", false
	}
	return fmt.Sprintf("machines to serve: %d do, and %d have to", g.serving, g.needed-t.spared(g, m)+1), g.flying == g.waiting
}

// spared is how many machines a group may be short of while one is taken. A restart has no
// successor, and takes the place of one.
func (t *turn) spared(g *group, m *Machine) int {
	if m.Effect == Restart {
		return max(1, g.Unavailable, g.Surge)
	}
	return g.Unavailable
}

// surge has the successor of a machine come before it goes.
func (t *turn) surge(g *group, m *Machine) {
	m.Surged, m.Effort = true, Effort{}
	t.to(m, Surged)
	t.await(m)
	g.surging++
	g.flying++
	t.detach(g, m)
}

// take begins to remove a machine, or to restart it.
func (t *turn) take(g *group, m *Machine) {
	if t.serves(g, m.Name) {
		g.serving--
	}
	if !m.Surged {
		g.flying++
	}
	g.leaving++
	m.Effort = Effort{}
	if m.Effect == Restart && !t.Options.DrainRestarts {
		t.to(m, Restarting)
		t.await(m)
		t.restart(g, m)
		return
	}
	t.to(m, Cordoned)
	t.cordon(g, m)
}

// discard ends a machine of a warm pool, which nobody misses.
func (t *turn) discard(g *group, m *Machine) {
	m.Spare, m.Drained = true, t.now.Add(-t.Options.PostDrainDelay)
	t.to(m, Draining)
	t.drain(g, m)
}
