package roll

import (
	"slices"
	"time"

	"kops.local/kops/api/status"
)

// observe updates the state of the groups: which machines appeared, which serve, and what is under
// way.
func (t *turn) observe() {
	for _, g := range t.groups {
		if g.view != nil && g.Ended.IsZero() {
			t.recordNewcomers(g)
			t.findSuccessors(g)
			t.count(g)
		}
	}
	for _, g := range t.groups {
		t.recordFailures(g)
	}
}

// recordFailures records since when no new failure concerns a group.
func (t *turn) recordFailures(g *group) {
	if !g.Ended.IsZero() {
		return
	}
	if t.failure(g) != nil || !t.view.API && !g.nodeless {
		g.Well = time.Time{}
	} else if g.Well.IsZero() {
		g.Well = t.now
	}
}

// isServing reports whether a machine serves, as far as is known now.
func (t *turn) isServing(g *group, name string) bool {
	m := g.views[name]
	return m != nil && m.isServing(g.nodeless) && (g.nodeless || t.view.API)
}

// recordNewcomers records the machines that appeared, and since when they are ready.
func (t *turn) recordNewcomers(g *group) {
	g.newcomersByName = make(map[string]*Newcomer, len(g.New))
	known := make(map[string]bool, len(g.Machines)+len(g.Rest)+len(g.New))
	for i := range g.Machines {
		known[g.Machines[i].Name] = true
	}
	for _, name := range g.Rest {
		known[name] = true
	}
	g.New = slices.DeleteFunc(g.New, func(n Newcomer) bool { return g.views[n.Name] == nil })
	for _, n := range g.New {
		known[n.Name] = true
	}
	for _, m := range g.view.Machines {
		if !known[m.Name] && !m.Spare {
			g.New = append(g.New, Newcomer{Name: m.Name})
		}
	}
	for i := range g.New {
		n := &g.New[i]
		g.newcomersByName[n.Name] = n
		switch {
		case !t.isServing(g, n.Name):
			n.Ready, n.Well = time.Time{}, false
		case n.Ready.IsZero():
			n.Ready = t.now
			fallthrough
		default:
			n.Well = !t.wakeUpAt(n.Ready.Add(t.Options.Soak))
		}
	}
}

// findSuccessors finds a successor for each machine that waits for one.
func (t *turn) findSuccessors(g *group) {
	next := 0
	for i := range g.Machines {
		m := &g.Machines[i]
		if m.Successor != "" && g.newcomersByName[m.Successor] == nil {
			m.Successor = "" // it did not survive
		}
		if m.Successor != "" || m.Phase.IsOver() || m.Spare || !m.Surged && m.Ended.IsZero() {
			continue
		}
		for next < len(g.New) && g.New[next].For != "" {
			next++
		}
		if next < len(g.New) {
			m.Successor, g.New[next].For = g.New[next].Name, m.Name
		}
	}
}

// count counts machines. A machine that is being replaced does not count as serving, even if it
// looks ready.
func (t *turn) count(g *group) {
	g.attached, g.serving, g.inProgress, g.waiting, g.resting, g.surging, g.leaving = 0, 0, 0, 0, 0, 0, 0
	broken := 0 // machines that were broken before, and still are
	extra := 0  // machines that serve and that their group does not count
	for _, name := range g.Rest {
		g.add(g.views[name], t.isServing(g, name))
	}
	for _, name := range g.Broken {
		if !t.isServing(g, name) {
			broken++
		}
	}
	for i := range g.New {
		g.add(g.views[g.New[i].Name], g.New[i].Well)
	}
	for i := range g.Machines {
		m := &g.Machines[i]
		serves := t.isServing(g, m.Name) && !m.isLeaving() && m.Phase != Restarting && !(m.Effect == Restart && m.isWaiting())
		if m.Phase == Kept && m.WasBroken && !serves {
			broken++
		}
		switch v := g.views[m.Name]; {
		case v != nil && v.Spare:
		case m.Surged || m.isLeaving(): // its group does not count it, or not for long
			if g.add(nil, serves); serves {
				extra++
			}
		default:
			g.add(v, serves)
		}
	}
	for i := range g.Machines {
		t.countBusy(g, &g.Machines[i])
	}
	g.Size = max(g.Size, min(g.view.Target, g.serving-extra)+broken)
	g.needed = min(g.view.Target, g.Size-broken)
}

func (g *group) add(m *MachineView, serves bool) {
	if m != nil && !m.Detached {
		g.attached++
	}
	if serves {
		g.serving++
	}
}

// countBusy counts a machine's share of what is under way.
func (t *turn) countBusy(g *group, m *Machine) {
	if m.Surged && m.Ended.IsZero() {
		g.surging++
	}
	if m.Phase.IsOver() && m.Ended.IsZero() || m.Phase == Pending || m.Spare {
		return
	}
	rests := !m.Ended.IsZero() && t.wakeUpAt(m.Ended.Add(t.interval(g)))
	if m.isLeaving() && m.Ended.IsZero() || rests || m.Phase == Restarting || m.Effect == Restart && m.isWaiting() {
		g.leaving++
	}
	switch {
	case m.Phase.IsOver():
		return
	case g.isReady(m):
		g.waiting++
	case !m.Ended.IsZero() && g.isSuccessorHealthy(m):
		g.resting++
	}
	g.inProgress++
}

// isReady reports whether a machine has a healthy successor, and may go.
func (g *group) isReady(m *Machine) bool {
	return m.Phase == Soaking && m.Surged && m.Ended.IsZero() && g.isSuccessorHealthy(m)
}

// isLeaving reports whether a machine is being removed, or was.
func (m *Machine) isLeaving() bool {
	return m.Phase == Cordoned || m.Phase == Draining || !m.Ended.IsZero()
}

// isWaiting reports whether a machine waits for its successor, or for itself, to be well.
func (m *Machine) isWaiting() bool { return m.Phase.isWaiting() }

func (p Phase) isWaiting() bool { return p == Surged || p == Gone || p == Joined || p == Soaking }

// isSuccessorHealthy reports whether the machine's successor is healthy, or none is needed.
func (g *group) isSuccessorHealthy(m *Machine) bool {
	if n := g.newcomersByName[m.Successor]; n != nil {
		return n.Well
	}
	return m.Spare || g.view != nil && g.attached >= g.view.Target
}

// interval returns the minimum time between the end of a machine and what follows.
func (t *turn) interval(g *group) time.Duration {
	switch g.Stage {
	case Bastions:
		return t.Options.BastionInterval
	case Nodes:
		return t.Options.NodeInterval
	}
	return t.Options.ControlPlaneInterval
}

// failure returns the first new failure that concerns a group and is not caused by actions under
// way; nil if there is none. Failures of control planes and failures without a group concern all.
func (t *turn) failure(g *group) *status.Failure {
	for i := range t.newFailures {
		f := &t.newFailures[i]
		if f.Group != "" && f.Group != g.Name && !slices.Contains(t.ControlPlanes, f.Group) {
			continue
		}
		if of := t.groupOf(f.Group); of == nil || !of.isExpected(f) {
			return f
		}
	}
	return nil
}

func (t *turn) groupOf(name string) *group {
	for _, g := range t.groups {
		if g.Name == name {
			return g
		}
	}
	return nil
}

// isExpected reports whether a failure of the group is caused by actions under way in it: the machine
// is being rolled, or is new, or the group is short of one for that reason.
func (g *group) isExpected(f *status.Failure) bool {
	if !g.Ended.IsZero() {
		return false
	}
	if f.Kind == status.KindGroup && g.inProgress > g.resting {
		return true
	}
	for i := range g.Machines {
		m := &g.Machines[i]
		if (f.Name == m.Name || f.Name == m.Node) && (m.WasBroken || !m.Ended.IsZero() || m.Phase != Pending && m.Phase != Kept) {
			return true
		}
	}
	for i := range g.New {
		n := &g.New[i]
		v := g.views[n.Name]
		if n.For != "" && !n.Well && (f.Name == n.Name || v != nil && v.Node != "" && f.Name == v.Node) {
			return true
		}
	}
	return false
}
