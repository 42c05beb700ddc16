package kops

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"kops.local/kops/api"
	"kops.local/kops/internal/ops/roll"
	"kops.local/kops/internal/ops/stale"
	"kops.local/kops/internal/pipeline"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/store/clusterstore"
)

// TestOneInstanceIsRolledAmongAllOthers: the machine that is asked for is rolled alone, and
// what may be missing follows from all that there are.
func TestOneInstanceIsRolledAmongAllOthers(t *testing.T) {
	cl := &clusterstore.Contents{Spec: &api.Cluster{}}
	var machines []stale.Machine
	for _, name := range []string{"cp-a", "cp-b", "cp-c"} {
		g := &api.InstanceGroup{Spec: api.InstanceGroupSpec{Role: api.RoleControlPlane}}
		g.Name = name
		cl.Groups = append(cl.Groups, g)
		machines = append(machines, stale.Machine{Machine: platform.Machine{Name: name + "-1", Group: name}, NodeName: "node-" + name, Role: g.Spec.Role, Effect: stale.Replace})
	}
	r := &roller{Checkup: &pipeline.Checkup{Opened: &pipeline.Opened{Cluster: cl}}, o: RolloutOptions{Instance: "node-cp-b", Force: true}}
	for _, p := range r.plansOf(machines) {
		if p.Lone {
			t.Errorf("%s is said to have the only control plane", p.Name)
		}
		if rolled := len(p.Machines) == 1 && p.Machines[0].Effect == roll.Replace; rolled != (p.Name == "cp-b") || len(p.Machines) > 1 {
			t.Errorf("of %s there are rolled %+v", p.Name, p.Machines)
		}
	}
	r.o.Instance = ""
	if p := r.plansOf(machines[:1]); !p[0].Lone || len(p[0].Machines) != 1 {
		t.Errorf("the only control plane is planned as %+v", p[0])
	}
}

// TestARolloutHearsOfEveryFieldOfItsOwn: each field of spec.rollingUpdate, of the group or
// else of the cluster, changes what is planned.
func TestARolloutHearsOfEveryFieldOfItsOwn(t *testing.T) {
	three, no := intstr.FromInt32(3), false
	type budget struct {
		surge, unavailable int
		surgeOnly          bool
	}
	for name, c := range map[string]struct {
		of   *api.RollingUpdate
		want budget
	}{
		"nothing":           {nil, budget{1, 0, false}},
		"maxSurge":          {&api.RollingUpdate{MaxSurge: &three}, budget{3, 0, false}},
		"maxUnavailable":    {&api.RollingUpdate{MaxUnavailable: &three}, budget{1, 3, false}},
		"drainAndTerminate": {&api.RollingUpdate{DrainAndTerminate: &no}, budget{1, 0, true}},
	} {
		for _, ofGroup := range []bool{true, false} {
			g := &api.InstanceGroup{Spec: api.InstanceGroupSpec{Role: api.RoleNode}}
			cl := &clusterstore.Contents{Spec: &api.Cluster{}, Groups: []*api.InstanceGroup{g}}
			if ofGroup {
				g.Spec.RollingUpdate = c.of
			} else {
				cl.Spec.Spec.RollingUpdate = c.of
			}
			detach := func(context.Context, *platform.Session, *api.Cluster, platform.Machine) error { return nil }
			r := &roller{o: DefaultRollout(), Checkup: &pipeline.Checkup{Opened: &pipeline.Opened{Cluster: cl, Provider: platform.Provider{Roll: platform.Roll{Surge: 1, Detach: detach}}}}}
			p := r.plansOf(nil)[0]
			if got := (budget{p.Surge, p.Unavailable, p.SurgeOnly}); got != c.want {
				t.Errorf("%s of the group (%v): got %+v, want %+v", name, ofGroup, got, c.want)
			}
		}
	}
}
