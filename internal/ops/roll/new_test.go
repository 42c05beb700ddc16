package roll

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"kops.local/kops/api"
)

func TestBudget(t *testing.T) {
	of := func(surge, unavailable string) *api.RollingUpdate {
		r := &api.RollingUpdate{}
		if surge != "" {
			v := intstr.Parse(surge)
			r.MaxSurge = &v
		}
		if unavailable != "" {
			v := intstr.Parse(unavailable)
			r.MaxUnavailable = &v
		}
		return r
	}
	for _, c := range []struct {
		role             api.InstanceGroupRole
		group, byDefault *api.RollingUpdate
		usual, count     int
		surge, missing   int
	}{
		{api.RoleNode, nil, nil, 0, 10, 0, 1},
		{api.RoleNode, nil, nil, 1, 10, 1, 0},
		{api.RoleNode, of("", "2"), nil, 1, 10, 1, 2},
		{api.RoleNode, of("0", ""), nil, 1, 10, 0, 1},
		{api.RoleNode, of("25%", ""), nil, 1, 10, 3, 0},
		{api.RoleNode, of("0", "25%"), nil, 1, 10, 0, 2},
		{api.RoleNode, of("", "5%"), nil, 0, 10, 0, 1},
		{api.RoleNode, of("1", "0"), nil, 0, 10, 1, 0},
		{api.RoleNode, of("", "3"), of("2", "1"), 1, 10, 2, 3},
		{api.RoleNode, nil, of("0", "0"), 1, 10, 0, 1}, // validation rejects it; it must not hang
		{api.RoleControlPlane, of("", "2"), of("3", ""), 1, 3, 0, 2},
		{api.RoleControlPlane, nil, nil, 1, 3, 0, 1},
		{api.RoleNode, of("100%", "100%"), nil, 1, 7, 7, 7},
	} {
		surge, missing := Budget(c.role, c.group, c.byDefault, c.usual, c.count)
		if surge != c.surge || missing != c.missing {
			t.Errorf("%s group %v default %v usual %d of %d: got %d more and %d fewer, want %d and %d", c.role, c.group, c.byDefault, c.usual, c.count, surge, missing, c.surge, c.missing)
		}
	}
}

// TestTheFirstMachineSurges checks that SurgesFirst agrees with Step: it depends on the budget, and
// on whether the machine serves.
func TestTheFirstMachineSurges(t *testing.T) {
	serving, broken := MachineView{Name: "a", Running: true, Node: "a", Ready: true}, MachineView{Name: "a", Running: true}
	for _, c := range []struct {
		surge, unavailable int
		machine            MachineView
		effect             Effect
		want               bool
	}{
		{1, 0, serving, Replace, true},
		{0, 1, serving, Replace, false},
		{1, 1, serving, Replace, false},
		{1, 0, broken, Replace, false},
		{1, 0, serving, Restart, false},
	} {
		v := View{API: true, Groups: []GroupView{{Name: "nodes", Target: 1, Machines: []MachineView{c.machine}}}}
		s := New("x", Defaults(), []Plan{{Name: "nodes", Role: api.RoleNode, Surge: c.surge, Unavailable: c.unavailable, Refills: true, Machines: []Machine{{Name: "a", Node: c.machine.Node, Effect: c.effect}}}}, v)
		said := s.Groups[0].SurgesFirst()
		s, _ = Step(s, v)
		if did := s.Groups[0].Machines[0].Phase == Surged; said != c.want || did != c.want {
			t.Errorf("%+v: it is said %v, and done %v", c, said, did)
		}
	}
}
