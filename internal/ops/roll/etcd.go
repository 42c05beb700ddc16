package roll

import (
	"fmt"
	"slices"
)

// controlPlane says what prevents a control plane from being taken: another one is away, or a
// majority of etcd's voters would not be left. It is empty if nothing does.
func (t *turn) controlPlane(g *group, m *Machine) string {
	if t.Options.CloudOnly {
		return ""
	}
	if t.isServing(g, m.Name) {
		if name := t.otherControlPlaneDown(m); name != "" {
			return fmt.Sprintf("control plane %s to serve again", name)
		}
	}
	if !t.view.EtcdKnown {
		return "etcd to answer"
	}
	for _, e := range t.view.Etcd {
		voters, healthy, mine := t.voters(e, m)
		left := healthy
		if mine {
			left--
		}
		if mine && healthy < voters && left < voters/2+1 {
			return fmt.Sprintf("etcd %s: %d of %d voters are healthy, and without the voter on %s there is no majority", e.Name, healthy, voters, m.Name)
		}
	}
	return ""
}

// voters counts an etcd cluster's voters, and the healthy ones; mine reports whether the machine
// has one of them, or may have one. Voters that existed before and are missing count as voters.
func (t *turn) voters(e EtcdView, m *Machine) (voters, healthy int, mine bool) {
	known, unknown := false, false
	for _, member := range e.Members {
		own := member.Machine == m.Name
		known = known || own
		unknown = unknown || member.Machine == ""
		if member.Voter {
			voters++
		}
		if member.Voter && member.Healthy {
			healthy++
			mine = mine || own
		}
	}
	for _, b := range t.Etcd {
		if b.Name == e.Name {
			voters = max(voters, b.Voters)
		}
	}
	return voters, healthy, mine || !known && unknown
}

// etcdLost reports whether an etcd member on a machine is unhealthy.
func (t *turn) etcdLost(m *Machine) bool {
	for _, e := range t.view.Etcd {
		for _, member := range e.Members {
			if member.Machine == m.Name && !member.Healthy {
				return true
			}
		}
	}
	return false
}

// etcdWell reports whether etcd is at least as healthy as before; it is true for groups outside the
// control plane.
func (t *turn) etcdWell(g *group) bool {
	if g.Stage != ControlPlanes || t.Options.CloudOnly {
		return true
	}
	if !t.view.EtcdKnown {
		return false
	}
	for _, b := range t.Etcd {
		healthy := 0
		for _, e := range t.view.Etcd {
			for _, m := range e.Members {
				if e.Name == b.Name && m.Voter && m.Healthy {
					healthy++
				}
			}
		}
		if healthy < b.Voters-b.Unwell {
			return false
		}
	}
	return true
}

// otherControlPlaneDown names a control plane, other than m, that does not serve but did before;
// empty if there is none.
func (t *turn) otherControlPlaneDown(m *Machine) string {
	for _, g := range t.groups {
		if g.Stage != ControlPlanes {
			continue
		}
		for i := range g.Machines {
			o := &g.Machines[i]
			if o.Name != m.Name && !o.WasBroken && o.Ended.IsZero() && !t.isServing(g, o.Name) {
				return o.Name
			}
		}
		for _, n := range g.New {
			if !n.Well {
				return n.Name
			}
		}
		for _, name := range g.Rest {
			if g.views[name] != nil && !t.isServing(g, name) && !slices.Contains(g.Broken, name) {
				return name
			}
		}
	}
	return ""
}
