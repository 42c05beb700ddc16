package kops

import (
	"testing"

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
