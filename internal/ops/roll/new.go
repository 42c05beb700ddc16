package roll

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"

	"kops.local/kops/api"
)

// Budget returns how many machines more, and fewer, a group of count machines may have. r is the
// group's setting, byDefault its cluster's, and usual the platform's surge.
//
// The rules are kOps': a percentage is a percentage of count, rounded up for a surge, and
// down for unavailable machines, but not to 0; without a surge one machine may be unavailable
// unless set otherwise. A control plane never has more machines than etcd has members.
func Budget(role api.InstanceGroupRole, r, byDefault *api.RollingUpdate, usual, count int) (surge, unavailable int) {
	r, byDefault = cmp.Or(r, &api.RollingUpdate{}), cmp.Or(byDefault, &api.RollingUpdate{})
	surge = usual
	if s := cmp.Or(r.MaxSurge, byDefault.MaxSurge); s != nil {
		surge = shareOf(s, count, math.Ceil)
	}
	if role == api.RoleControlPlane {
		surge = 0
	}
	if u := cmp.Or(r.MaxUnavailable, byDefault.MaxUnavailable); u != nil {
		unavailable = shareOf(u, count, math.Floor)
		if unavailable == 0 && u.Type == intstr.String {
			unavailable = 1
		}
	}
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return surge, unavailable
}

// shareOf returns a number of machines from a number or a percentage of count.
func shareOf(v *intstr.IntOrString, count int, round func(float64) float64) int {
	if v.Type == intstr.Int {
		return max(0, v.IntValue())
	}
	percent, err := intstr.GetScaledValueFromIntOrPercent(v, 100, true)
	if err != nil { // validation rejects it
		return 0
	}
	return max(0, int(round(float64(percent)*float64(count)/100)))
}

// StageOf returns the stage of a role's groups in a rollout.
func StageOf(role api.InstanceGroupRole) Stage {
	switch role {
	case api.RoleBastion:
		return Bastions
	case api.RoleControlPlane, api.RoleEtcd, api.RoleScheduler, api.RoleKubeControllerManager:
		return ControlPlanes
	case api.RoleAPIServer:
		return APIServers
	}
	return Nodes
}

// New returns a rollout that has not begun. The view shows the machines that exist now, and the
// failures. The plans are for all groups; groups without machines to roll are left out.
//
// Machines that an earlier rollout detached come first, because their successors are there already;
// then those that are broken, because they cost nothing.
func New(id string, o Options, plans []Plan, v View) State {
	s := State{ID: id, Began: v.Now, Options: o, Baseline: v.Failures}
	for _, e := range v.Etcd {
		b := EtcdBaseline{Name: e.Name}
		for _, m := range e.Members {
			if m.Voter {
				b.Voters++
			}
			if !m.Healthy {
				b.Unwell++
			}
		}
		s.Etcd = append(s.Etcd, b)
	}
	for _, p := range plans {
		if StageOf(p.Role) == ControlPlanes {
			s.ControlPlanes = append(s.ControlPlanes, p.Name)
		}
		if len(p.Machines) > 0 {
			s.Groups = append(s.Groups, newGroup(o, p, v))
		}
	}
	slices.SortFunc(s.Groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(a.Stage, b.Stage), cmp.Compare(a.Name, b.Name))
	})
	return s
}

func newGroup(o Options, p Plan, v View) Group {
	g := Group{
		Name: p.Name, Role: p.Role, Stage: StageOf(p.Role), Surge: p.Surge, Unavailable: p.Unavailable,
		SurgeOnly: p.SurgeOnly, Refills: p.Refills, Lone: p.Lone, Revision: p.Revision, Proven: !o.Canary,
	}
	if o.CloudOnly || g.Stage == ControlPlanes {
		g.Surge, g.Unavailable = 0, max(1, p.Unavailable)
	}
	seen := map[string]MachineView{}
	if i := slices.IndexFunc(v.Groups, func(g GroupView) bool { return g.Name == p.Name }); i >= 0 {
		for _, m := range v.Groups[i].Machines {
			seen[m.Name] = m
			if !m.Spare && !m.Detached {
				g.Size++
			}
		}
	}
	for _, m := range p.Machines {
		g.Machines = append(g.Machines, g.newMachine(o, m, seen[m.Name], v))
		delete(seen, m.Name)
	}
	slices.SortStableFunc(g.Machines, func(a, b Machine) int { return cmp.Compare(a.rank(), b.rank()) })
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		m := seen[name]
		switch {
		case m.Spare: // not part of the group yet
			continue
		case m.isServing(g.isNodeless(o)):
			g.Proven = true
		default:
			g.Broken = append(g.Broken, name)
		}
		g.Rest = append(g.Rest, name)
	}
	return g
}

func (g *Group) newMachine(o Options, m Machine, was MachineView, v View) Machine {
	m.Phase, m.Since, m.WasCordoned, m.Spare = Pending, v.Now, was.Cordoned, was.Spare
	m.WasBroken = !m.Spare && !was.isServing(g.isNodeless(o))
	if was.Detached && m.Effect == Replace && g.Stage != ControlPlanes {
		m.Phase, m.Surged = Surged, true
	}
	return m
}

// rank returns a machine's place in the order.
func (m *Machine) rank() int {
	switch {
	case m.Phase == Surged:
		return 0
	case m.Spare:
		return 1
	case m.WasBroken:
		return 2
	}
	return 3
}

// SurgesFirst reports whether, at the beginning of a rollout, the successor of the group's first
// machine is created before that machine goes.
func (g *Group) SurgesFirst() bool {
	if len(g.Machines) == 0 {
		return false
	}
	m := &g.Machines[0]
	return m.Phase == Surged || m.Effect == Replace && g.Surge > 0 && g.Unavailable == 0 && !m.WasBroken && !m.Spare
}

// isNodeless reports whether the machines of a group are judged by the platform alone.
func (g *Group) isNodeless(o Options) bool { return o.CloudOnly || g.Stage == Bastions }

// isServing reports whether a machine is usable for its purpose.
func (m *MachineView) isServing(nodeless bool) bool {
	return m.Running && !m.Spare && (nodeless || m.Ready)
}
