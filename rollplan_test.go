package kops

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"kops.local/kops/api"
	"kops.local/kops/api/status"
	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/ops/roll"
	"kops.local/kops/internal/ops/stale"
	"kops.local/kops/internal/pipeline"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/clusterstore"
)

// TestOneInstanceIsRolledAmongAllOthers: only the requested machine is rolled, and the number
// that may be unavailable is computed from all machines.
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

// TestEveryRollingUpdateFieldReachesARollout: each field of spec.rollingUpdate, of the group or
// otherwise of the cluster, changes the plan.
func TestEveryRollingUpdateFieldReachesARollout(t *testing.T) {
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
			r := &roller{o: DefaultRollout(), Checkup: &pipeline.Checkup{Opened: &pipeline.Opened{Cluster: cl, Provider: platform.Provider{Fleet: platform.Fleet{Roll: platform.Roll{Surge: 1, Detach: detach}}}}}}
			p := r.plansOf(nil)[0]
			if got := (budget{p.Surge, p.Unavailable, p.SurgeOnly}); got != c.want {
				t.Errorf("%s of the group (%v): got %+v, want %+v", name, ofGroup, got, c.want)
			}
		}
	}
}

// TestARolloutReportsMissingRoom checks the shortage of room for machines that are created before
// others are removed: at most as many as are replaced, and no room for one that does not serve.
func TestARolloutReportsMissingRoom(t *testing.T) {
	named := func(name string) *api.InstanceGroup {
		g := &api.InstanceGroup{}
		g.Name = name
		return g
	}
	var asked []string
	room := func(_ context.Context, _ *platform.Session, _ *api.Cluster, groups []*api.InstanceGroup) ([]platform.Room, error) {
		var out []platform.Room
		for _, g := range groups {
			asked = append(asked, g.Name)
			out = append(out, platform.Room{Group: g.Name, Machines: 1, Why: "the rack is full", Remedy: "buy another"})
		}
		return out, nil
	}
	var findings []string
	r := &roller{Checkup: &pipeline.Checkup{Opened: &pipeline.Opened{Provider: platform.Provider{Fleet: platform.Fleet{Room: room}},
		Cluster: &clusterstore.Contents{Spec: &api.Cluster{}, Groups: []*api.InstanceGroup{named("wide"), named("narrow"), named("broken"), named("fixed"), named("restarts")}}}}}
	r.progress = &reporter{on: func(e Event) error {
		for _, f := range e.Findings {
			findings = append(findings, f.String())
		}
		return nil
	}}
	replaced := roll.Machine{Effect: roll.Replace, Phase: roll.Pending}
	broken, restarted := replaced, replaced
	broken.WasBroken, restarted.Effect = true, roll.Restart
	s := roll.State{Groups: []roll.Group{
		{Name: "wide", Surge: 2, Machines: []roll.Machine{replaced, replaced, replaced}},
		{Name: "narrow", Surge: 2, Machines: []roll.Machine{replaced}},
		{Name: "broken", Surge: 2, Machines: []roll.Machine{broken, broken}},
		{Name: "fixed", Machines: []roll.Machine{replaced}},
		{Name: "restarts", Surge: 2, Machines: []roll.Machine{restarted, restarted}},
	}}
	found, err := r.shortages(t.Context(), s)
	const message, remedy = "a rolling update needs 2 more at a time, but there is capacity for 1: the rack is full", "buy another; or roll without surge machines: spec.rollingUpdate.maxSurge 0"
	if err != nil || !slices.Equal(found, []status.Shortage{{Group: "wide", Message: message, Remedy: remedy}}) {
		t.Errorf("%+v, %v", found, err)
	}
	if err := r.warn(t.Context(), s); err != nil || !slices.Equal(findings, []string{"InstanceGroup/wide: " + message + "; " + remedy}) {
		t.Errorf("as it begins it says %q, %v", findings, err)
	}
	if !slices.Equal(asked, []string{"wide", "narrow", "wide", "narrow"}) {
		t.Errorf("asked was for %q", asked)
	}
}

// TestReportsOfEtcdReachARollout compares recent reports of etcd's managers with the members of the
// spec.
func TestReportsOfEtcdReachARollout(t *testing.T) {
	now := time.Date(2026, 11, 25, 8, 0, 0, 0, time.UTC)
	members := func(groups ...string) (out []api.EtcdMemberSpec) {
		for _, g := range groups {
			out = append(out, api.EtcdMemberSpec{Name: g, InstanceGroup: &g})
		}
		return out
	}
	well := func(name string) etcd.Member { return etcd.Member{Name: name, Healthy: true} }
	sick, learner := etcd.Member{Name: "etcd-b"}, etcd.Member{Name: "etcd-c", Healthy: true, Learner: true}
	for name, c := range map[string]struct {
		spec []api.EtcdMemberSpec
		told []etcd.Member
		at   time.Time
		want map[string]bool
	}{
		"as they are":             {members("a", "b", "c"), []etcd.Member{well("etcd-a"), sick, learner}, now, map[string]bool{"a": true, "b": false, "c": false}},
		"nobody answers":          {members("a"), nil, now, map[string]bool{}},
		"long ago":                {members("a"), []etcd.Member{well("etcd-a")}, now.Add(-time.Hour), nil},
		"others are members":      {members("a"), []etcd.Member{well("etcd-z")}, now, nil},
		"a group has two of them": {members("a", "a"), []etcd.Member{well("etcd-a")}, now, nil},
	} {
		cl := &clusterstore.Contents{Spec: &api.Cluster{}}
		cl.Spec.Spec.EtcdClusters = []api.EtcdClusterSpec{{Name: "main", EtcdMembers: c.spec}}
		p := platform.Provider{Platform: platform.Platform{Traits: traits.Traits{Model: traits.Model{Peers: func(e api.EtcdClusterSpec) (out []string) {
			for _, m := range e.EtcdMembers {
				out = append(out, "etcd-"+m.Name)
			}
			return out
		}}}}}
		r := &roller{c: &Client{}, Checkup: &pipeline.Checkup{Opened: &pipeline.Opened{Cluster: cl, Provider: p}}}
		r.c.cfg.World.Now = func() time.Time { return now }
		s := store.NewMemory("memory://x")
		if err := etcd.WriteStatus(t.Context(), s, etcd.NewStatus(c.at, "etcd-a", 3, "", c.told)); err != nil {
			t.Fatal(err)
		}
		got, err := r.etcdReport(t.Context(), []etcdArchive{{name: "main", store: s}})
		if err != nil || !maps.Equal(got["main"], c.want) || (got["main"] == nil) != (c.want == nil) {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, c.want)
		}
	}
	r := &roller{c: &Client{}, Checkup: &pipeline.Checkup{Opened: &pipeline.Opened{Cluster: &clusterstore.Contents{Spec: &api.Cluster{Spec: api.ClusterSpec{EtcdClusters: []api.EtcdClusterSpec{{Name: "main"}}}}}}}}
	if got, err := r.etcdReport(t.Context(), []etcdArchive{{name: "main", store: store.NewMemory("memory://x")}}); err != nil || len(got) != 0 {
		t.Errorf("where nobody has told anything: %v, %v", got, err)
	}
}

// An aborted rollout has not achieved its purpose, unless it had already finished.
func TestAnAbortedRolloutIsAnError(t *testing.T) {
	machines := func(phases ...string) *Rollout {
		r := &Rollout{Aborted: true, Groups: []status.RolloutGroup{{Name: "nodes"}}}
		for _, p := range phases {
			r.Groups[0].Machines = append(r.Groups[0].Machines, status.RolloutMachine{Phase: p})
		}
		return r
	}
	if err := unfinishedError("a", machines("done", "pending")); !errors.Is(err, ErrAborted) {
		t.Errorf("half of it: %v", err)
	}
	if err := unfinishedError("a", machines("done", "done")); err != nil {
		t.Errorf("all of it: %v", err)
	}
}
