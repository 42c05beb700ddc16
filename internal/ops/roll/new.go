package roll

import (
	"cmp"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"

	"kops.local/kops/api"
)

// Budget returns how many machines more, and fewer, a group of so many may have, where
// the group and its cluster say what r and its default say, and the platform surges by usual.
//
// The rules are those of kOps: a percentage is one of count, rounded up for a surge, and
// down for what is missing, but not to 0; without a surge one may be missing where nothing
// else is said. A control plane has never more machines than etcd has members.
func Budget(role api.InstanceGroupRole, r, byDefault *api.RollingUpdate, usual, count int) (surge, unavailable int) {
	r, byDefault = cmp.Or(r, &api.RollingUpdate{}), cmp.Or(byDefault, &api.RollingUpdate{})
	surge = usual
	if s := cmp.Or(r.MaxSurge, byDefault.MaxSurge); s != nil {
		surge = share(s, count, math.Ceil)
	}
	if role == api.RoleControlPlane {
		surge = 0
	}
	if u := cmp.Or(r.MaxUnavailable, byDefault.MaxUnavailable); u != nil {
		unavailable = share(u, count, math.Floor)
		if unavailable == 0 && u.Type == intstr.String {
			unavailable = 1
		}
	}
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return surge, unavailable
}

// share is a number, or a percentage of count.
func share(v *intstr.IntOrString, count int, round func(float64) float64) int {
	if v.Type == intstr.Int {
		return max(0, v.IntValue())
	}
	percent, err := intstr.GetScaledValueFromIntOrPercent(v, 100, true)
	if err != nil { // validation refuses it
		return 0
	}
	return max(0, int(round(float64(percent)*float64(count)/100)))
}

// StageOf is the place of a role's groups in a rollout.
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

// New is a rollout that is about to begin: nothing of it is done. The view says what
// was there before, and what was wrong then. Groups without machines to roll are left out.
//
// Machines that an earlier rollout detached come first, because their successors are
// there already; then those that are broken, because they cost nothing.
func New(id string, o Options, plans []Plan, v View) State {
	s := State{ID: id, Began: v.Now, Options: o, Baseline: v.Failures}
	for _, e := range v.Etcd {
		for _, m := range e.Members {
			if !m.Healthy {
				s.Unwell = append(s.Unwell, e.Name+"/"+m.Name)
			}
		}
	}
	for _, p := range plans {
		if len(p.Machines) > 0 && o.selects(p) {
			s.Groups = append(s.Groups, newGroup(o, p, v))
		}
	}
	slices.SortFunc(s.Groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(a.Stage, b.Stage), cmp.Compare(a.Name, b.Name))
	})
	return s
}

func (o Options) selects(p Plan) bool {
	return (len(o.Groups) == 0 || slices.Contains(o.Groups, p.Name)) && (len(o.Roles) == 0 || slices.Contains(o.Roles, p.Role))
}

func newGroup(o Options, p Plan, v View) Group {
	g := Group{
		Name: p.Name, Role: p.Role, Stage: StageOf(p.Role), Surge: min(p.Surge, len(p.Machines)), Unavailable: p.Unavailable,
		SurgeOnly: p.SurgeOnly, Refills: p.Refills, Revision: p.Revision, Proven: !o.Canary || len(p.Machines) == 1,
	}
	if o.CloudOnly || g.Stage == ControlPlanes {
		g.Surge, g.Unavailable = 0, max(1, p.Unavailable)
	}
	seen, attached := map[string]MachineView{}, 0
	i := slices.IndexFunc(v.Groups, func(g GroupView) bool { return g.Name == p.Name })
	if i >= 0 {
		g.Size = v.Groups[i].Target
		for _, m := range v.Groups[i].Machines {
			seen[m.Name] = m
			if !m.Spare && !m.Detached {
				attached++
			}
		}
	}
	g.Size = min(g.Size, attached)
	for _, m := range p.Machines {
		m.Phase, m.Since = Pending, v.Now
		if was := seen[m.Name]; was.Cordoned {
			m.WasCordoned = true
		}
		if seen[m.Name].Detached && m.Effect == Replace {
			m.Phase, m.Surged, m.Did, m.Deadline = Surged, true, Detach, v.Now.Add(o.ValidationTimeout)
		}
		g.Machines = append(g.Machines, m)
	}
	order := func(m Machine) int {
		switch was, ok := seen[m.Name]; {
		case m.Phase == Surged:
			return 0
		case !ok || was.Spare:
			return 1
		case !was.serves(g.nodeless(o)):
			return 2
		}
		return 3
	}
	slices.SortStableFunc(g.Machines, func(a, b Machine) int { return cmp.Compare(order(a), order(b)) })
	g.rest(o, seen, i, v)
	return g
}

// rest notes the machines of the group that are not rolled.
func (g *Group) rest(o Options, seen map[string]MachineView, i int, v View) {
	for j := range g.Machines {
		delete(seen, g.Machines[j].Name)
	}
	if i < 0 {
		return
	}
	for _, m := range v.Groups[i].Machines {
		switch _, ok := seen[m.Name]; {
		case !ok || m.Spare:
			continue
		case m.serves(g.nodeless(o)):
			g.Proven = true
		default:
			g.Broken = append(g.Broken, m.Name)
		}
		g.Rest = append(g.Rest, m.Name)
	}
}

// nodeless reports that the machines of a group are judged by their platform alone.
func (g *Group) nodeless(o Options) bool { return o.CloudOnly || g.Stage == Bastions }

// serves reports whether a machine does what it is there for.
func (m *MachineView) serves(nodeless bool) bool {
	return m.Running && !m.Spare && (nodeless || m.Ready)
}
