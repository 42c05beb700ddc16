package roll

import (
	"fmt"
	"slices"
	"time"
)

// begin starts on as many machines of a stage as is allowed now.
func (t *turn) begin(stage Stage) {
	var front []*group
	for _, g := range t.groups {
		if g.Stage == stage && g.Ended.IsZero() && !t.isClosing(g) {
			front = append(front, g)
		}
	}
	switch {
	case stage == ControlPlanes:
		t.beginControlPlane(front)
		return
	case stage == APIServers && len(front) > 0:
		front = front[:1]
	}
	for _, g := range front {
		t.beginIn(g)
	}
}

// beginControlPlane starts on one control plane if none is under way; one that does not work comes
// first.
func (t *turn) beginControlPlane(front []*group) {
	var first *group
	for _, g := range front {
		if g.inProgress > 0 || g.leaving > 0 {
			t.recordWait(g, "", false)
			return
		}
		if m := g.next(t); m != nil && (first == nil || !t.isInService(g, m) && t.isInService(first, first.next(t))) {
			first = g
		}
	}
	for _, g := range front {
		if first == nil || g == first || g.next(t) == nil {
			t.beginIn(g)
		} else {
			g.Waits, g.WaitingSince = "its turn", time.Time{}
		}
	}
}

// next returns the machine of a group to take next, or nil. A machine that does not serve costs
// nothing, and comes first.
func (g *group) next(t *turn) *Machine {
	var first *Machine
	for i := range g.Machines {
		m := &g.Machines[i]
		if m.Phase != Pending {
			continue
		}
		if !t.isInService(g, m) {
			return m
		}
		if first == nil {
			first = m
		}
	}
	return first
}

// isInService reports whether taking a machine costs something: it serves, or an etcd member on it
// does.
func (t *turn) isInService(g *group, m *Machine) bool {
	return t.isServing(g, m.Name) && !(g.Stage == ControlPlanes && t.etcdLost(m))
}

// beginIn starts on machines of a group.
func (t *turn) beginIn(g *group) {
	why, trouble := t.obstacle(g)
	if why == "" {
		t.taint(g)
		why, trouble = t.beginMany(g)
	}
	if why == "" && !slices.ContainsFunc(g.Machines, func(m Machine) bool { return !m.Phase.IsOver() }) {
		g.Ended, t.again = t.now, true
	}
	t.recordWait(g, why, trouble)
}

// recordWait records what a group waits for. If that is trouble, the group is stopped when the wait
// exceeds its limit.
func (t *turn) recordWait(g *group, why string, trouble bool) {
	g.Waits = why
	if !trouble {
		g.WaitingSince = time.Time{}
		return
	}
	if g.WaitingSince.IsZero() {
		g.WaitingSince = t.now
	}
	if !t.wakeUpAt(g.WaitingSince.Add(t.Options.ValidationTimeout)) {
		t.stop(g, nil, fmt.Sprintf("group %s is blocked for %v: %s", g.Name, t.Options.ValidationTimeout, why))
	}
}

// obstacle says what prevents further work on a group, or its completion; trouble is true if the
// obstacle goes away neither by itself nor by an answer of the user.
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
		if !t.isOverdue(g) {
			return f.String(), true
		}
		t.accept(g)
	}
	if steady := time.Duration(t.Options.ValidateCount-1) * ValidateTick; g.countFinished() > 0 && steady > 0 && !g.Well.IsZero() && t.wakeUpAt(g.Well.Add(steady)) {
		return "the cluster to stay healthy", false
	}
	return t.gate(g)
}

// accept counts the failures that concern a group among those that existed before the rollout.
func (t *turn) accept(g *group) {
	t.Baseline, t.again = slices.Clone(t.Baseline), true
	for f := t.failure(g); f != nil; f = t.failure(g) {
		t.Baseline = append(t.Baseline, *f)
		t.newFailures = newFailures(t.Baseline, t.newFailures)
	}
}

// isOverdue reports whether failures have been waited for as long as is allowed, and no longer count.
func (t *turn) isOverdue(g *group) bool {
	return !t.Options.FailOnValidateError && !g.WaitingSince.IsZero() && !t.now.Before(g.WaitingSince.Add(t.Options.ValidationTimeout))
}

// countFinished returns the number of machines that are done.
func (g *group) countFinished() int {
	n := 0
	for i := range g.Machines {
		if g.Machines[i].Phase == Done {
			n++
		}
	}
	return n
}

// gate requests the user's checks, unless they have passed since the last machine was done.
func (t *turn) gate(g *group) (why string, trouble bool) {
	if len(t.Options.Gates) == 0 || g.Gates.Passed > g.countFinished() {
		return "", false
	}
	if g.Gates.Requested <= g.countFinished() {
		g.Gates = GateState{Requested: g.countFinished() + 1, Passed: g.Gates.Passed}
	}
	t.do(g, &g.Gates.Effort, Action{Do: CheckGates, Round: g.Gates.Requested})
	if g.Gates.Attempts > 0 {
		return "the gates to pass: " + g.Gates.Trouble, true
	}
	return "the gates", false
}

// taint makes pods prefer nodes that stay.
func (t *turn) taint(g *group) {
	if g.nodeless || g.SurgeOnly {
		return
	}
	for i := range g.Machines {
		m := &g.Machines[i]
		v := g.views[m.Name]
		if m.Phase != Pending || v == nil || v.Node == "" || v.Tainted || m.Did == Taint || m.Effect == Restart && !t.Options.DrainRestarts {
			continue
		}
		m.Touched = true
		t.do(g, &m.Effort, Action{Do: Taint, Machine: m.Name})
	}
}

// beginMany takes the machines of a group whose turn it is, and says what prevents the next one from
// being taken.
func (t *turn) beginMany(g *group) (why string, trouble bool) {
	for i := range g.Machines { // machines with a successor go before others are taken
		m := &g.Machines[i]
		if !g.isReady(m) {
			continue
		}
		if why, trouble = t.obstacleToRemoval(g, m); why == "" {
			t.take(g, m)
			g.waiting--
		}
	}
	for m := g.next(t); m != nil; m = g.next(t) {
		way, but, grave := t.wayToBegin(g, m)
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

// maxInProgress returns how many machines of a group may be under way.
func (t *turn) maxInProgress(g *group) int {
	switch {
	case !g.Proven, t.Options.Interactive, g.Stage == ControlPlanes:
		return 1
	}
	return max(1, g.Surge+g.Unavailable)
}

// wayToBegin returns the way in which a machine is taken, or what prevents that now.
func (t *turn) wayToBegin(g *group, m *Machine) (way func(*group, *Machine), why string, trouble bool) {
	switch surgeOnly := g.SurgeOnly && m.Effect == Replace; {
	case g.views[m.Name].Spare:
		return t.discard, "", false
	case t.isFull(g, m):
		return nil, "machines under way", false
	case surgeOnly && g.surging >= g.Surge:
		return t.keep, "", false
	case surgeOnly:
		return t.surge, "", false
	}
	why, trouble = t.obstacleToRemoval(g, m)
	if why != "" && g.surging < g.Surge && m.Effect == Replace {
		return t.surge, "", false
	}
	return t.take, why, trouble
}

// isFull reports whether as many machines are under way as is allowed. Resting machines do not
// count, unless machines go one by one; and machines that wait for others to become ready do not
// hold up one that does not serve.
func (t *turn) isFull(g *group, m *Machine) bool {
	inProgress := g.inProgress
	if t.Options.Interactive {
		for _, o := range t.groups {
			if o != g && o.Stage == g.Stage && o.Ended.IsZero() {
				inProgress += o.inProgress - o.waiting
			}
		}
	} else if g.Proven {
		inProgress -= g.resting
	}
	if !t.isInService(g, m) {
		inProgress -= g.waiting
	}
	return inProgress >= t.maxInProgress(g)
}

// obstacleToRemoval says what prevents a machine from being removed now; empty if nothing does.
func (t *turn) obstacleToRemoval(g *group, m *Machine) (why string, trouble bool) {
	if g.leaving >= t.maxInProgress(g) {
		return "machines under way", false
	}
	if g.Stage == ControlPlanes {
		if why := t.controlPlane(g, m); why != "" {
			return why, true
		}
	}
	if !t.isServing(g, m.Name) || g.serving-1 >= g.needed-t.maxShort(g, m) {
		return "", false
	}
	return fmt.Sprintf("more machines to be ready: %d are, and %d must be", g.serving, g.needed-t.maxShort(g, m)+1), g.inProgress == g.waiting
}

// maxShort returns how many machines a group may be short of while one is taken. A restart has no
// successor, and uses the place of one.
func (t *turn) maxShort(g *group, m *Machine) int {
	if m.Effect == Restart {
		return max(1, g.Unavailable, g.Surge)
	}
	return g.Unavailable
}

// surge creates a machine's successor before the machine goes.
func (t *turn) surge(g *group, m *Machine) {
	m.Surged, m.Effort = true, Effort{}
	t.setPhase(m, Surged)
	t.setDeadline(m)
	g.surging++
	g.inProgress++
	t.detach(g, m)
}

// take starts to remove a machine, or to restart it.
func (t *turn) take(g *group, m *Machine) {
	if t.isServing(g, m.Name) {
		g.serving--
	}
	if !m.Surged {
		g.inProgress++
	}
	g.leaving++
	m.Effort = Effort{}
	if m.Effect == Restart && !t.Options.DrainRestarts {
		t.setPhase(m, Restarting)
		t.setDeadline(m)
		t.restart(g, m)
		return
	}
	t.setPhase(m, Cordoned)
	t.cordon(g, m)
}

// discard terminates a machine of a warm pool, which does not serve.
func (t *turn) discard(g *group, m *Machine) {
	m.Spare, m.Drained = true, t.now.Add(-t.Options.PostDrainDelay)
	t.setPhase(m, Draining)
	t.drain(g, m)
}
