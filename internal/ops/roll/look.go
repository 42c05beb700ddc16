package roll

import (
	"slices"
	"time"

	"kops.local/kops/api/status"
)

// look finds out how the groups fare: who appeared, who serves, and what is under way.
func (t *turn) look() {
	for _, g := range t.groups {
		if g.view != nil && g.Ended.IsZero() {
			t.newcomers(g)
			t.pair(g)
			t.count(g)
		}
	}
	for _, g := range t.groups {
		t.judge(g)
	}
}

// judge notes since when no new failure concerns a group.
func (t *turn) judge(g *group) {
	if !g.Ended.IsZero() {
		return
	}
	if t.failure(g) != nil || !t.view.API && !g.nodeless {
		g.Well = time.Time{}
	} else if g.Well.IsZero() {
		g.Well = t.now
	}
}

// serves reports whether a machine serves, as far as anybody can tell now.
func (t *turn) serves(g *group, name string) bool {
	m := g.seen[name]
	return m != nil && m.serves(g.nodeless) && (g.nodeless || t.view.API)
}

// newcomers notes the machines that appeared, and how long they are ready.
func (t *turn) newcomers(g *group) {
	g.by = make(map[string]*Newcomer, len(g.New))
	known := make(map[string]bool, len(g.Machines)+len(g.Rest)+len(g.New))
	for i := range g.Machines {
		known[g.Machines[i].Name] = true
	}
	for _, name := range g.Rest {
		known[name] = true
	}
	g.New = slices.DeleteFunc(g.New, func(n Newcomer) bool { return g.seen[n.Name] == nil })
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
		g.by[n.Name] = n
		switch {
		case !t.serves(g, n.Name):
			n.Ready, n.Well = time.Time{}, false
		case n.Ready.IsZero():
			n.Ready = t.now
			fallthrough
		default:
			n.Well = !t.wake(n.Ready.Add(t.Options.Soak))
		}
	}
}

// pair finds a successor for each machine that waits for one.
func (t *turn) pair(g *group) {
	next := 0
	for i := range g.Machines {
		m := &g.Machines[i]
		if m.Successor != "" && g.by[m.Successor] == nil {
			m.Successor = "" // it did not live
		}
		if m.Successor != "" || m.Phase.Over() || m.Spare || !m.Surged && m.Ended.IsZero() {
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
	g.attached, g.serving, g.flying, g.waiting, g.resting, g.surging, g.leaving = 0, 0, 0, 0, 0, 0, 0
	broken := 0 // before, and for good
	extra := 0  // that serve, and are not counted by their group
	for _, name := range g.Rest {
		g.add(g.seen[name], t.serves(g, name))
	}
	for _, name := range g.Broken {
		if !t.serves(g, name) {
			broken++
		}
	}
	for i := range g.New {
		g.add(g.seen[g.New[i].Name], g.New[i].Well)
	}
	for i := range g.Machines {
		m := &g.Machines[i]
		serves := t.serves(g, m.Name) && !m.leaving() && m.Phase != Restarting && !(m.Effect == Restart && m.waits())
		if m.Phase == Kept && m.WasBroken && !serves {
			broken++
		}
		switch v := g.seen[m.Name]; {
		case v != nil && v.Spare:
		case m.Surged || m.leaving(): // its group does not count it, or not for long
			if g.add(nil, serves); serves {
				extra++
			}
		default:
			g.add(v, serves)
		}
	}
	for i := range g.Machines {
		t.busy(g, &g.Machines[i])
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

// busy counts what is under way of a machine.
func (t *turn) busy(g *group, m *Machine) {
	if m.Surged && m.Ended.IsZero() {
		g.surging++
	}
	if m.Phase.Over() && m.Ended.IsZero() || m.Phase == Pending || m.Spare {
		return
	}
	rests := !m.Ended.IsZero() && t.wake(m.Ended.Add(t.interval(g)))
	if m.leaving() && m.Ended.IsZero() || rests || m.Phase == Restarting || m.Effect == Restart && m.waits() {
		g.leaving++
	}
	switch {
	case m.Phase.Over():
		return
	case g.ready(m):
		g.waiting++
	case !m.Ended.IsZero() && g.well(m):
		g.resting++
	}
	g.flying++
}

// ready reports that a machine has a successor that is well, and may go.
func (g *group) ready(m *Machine) bool {
	return m.Phase == Soaking && m.Surged && m.Ended.IsZero() && g.well(m)
}

// leaving reports that a machine is being removed, or was.
func (m *Machine) leaving() bool {
	return m.Phase == Cordoned || m.Phase == Draining || !m.Ended.IsZero()
}

// waits reports that a machine waits for its successor, or for itself, to be well.
func (m *Machine) waits() bool { return m.Phase.waits() }

func (p Phase) waits() bool { return p == Surged || p == Gone || p == Joined || p == Soaking }

// well reports whether the machine's successor is healthy, or none is needed.
func (g *group) well(m *Machine) bool {
	if n := g.by[m.Successor]; n != nil {
		return n.Well
	}
	return m.Spare || g.view != nil && g.attached >= g.view.Target
}

// interval is the least time between the end of a machine and what follows.
func (t *turn) interval(g *group) time.Duration {
	switch g.Stage {
	case Bastions:
		return t.Options.BastionInterval
	case Nodes:
		return t.Options.NodeInterval
	}
	return t.Options.ControlPlaneInterval
}

// failure returns the first new failure that concerns a group and is not caused by actions
// under way; nil for none. Failures of control planes and failures without a group concern all.
func (t *turn) failure(g *group) *status.Failure {
	for i := range t.fresh {
		f := &t.fresh[i]
		if f.Group != "" && f.Group != g.Name && !slices.Contains(t.ControlPlanes, f.Group) {
			continue
		}
		if of := t.groupOf(f.Group); of == nil || !of.expects(f) {
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

// expects reports whether a failure of the group is caused by actions under way in it: the
// machine is being rolled, or has just come, or the group is short of one for that reason.
func (g *group) expects(f *status.Failure) bool {
	if !g.Ended.IsZero() {
		return false
	}
	if f.Kind == status.KindGroup && g.flying > g.resting {
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
		v := g.seen[n.Name]
		if n.For != "" && !n.Well && (f.Name == n.Name || v != nil && v.Node != "" && f.Name == v.Node) {
			return true
		}
	}
	return false
}
