package kops

import (
	"slices"
	"testing"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/internal/ops/roll"
	"kops.local/kops/internal/ops/stale"
	"kops.local/kops/internal/platform"
)

// An update and a rollout report the same duration.
func TestUpdatesAndRolloutsEstimateTheSameTime(t *testing.T) {
	group := func(name string, role api.InstanceGroupRole) *api.InstanceGroup {
		g := &api.InstanceGroup{Spec: api.InstanceGroupSpec{Role: role}}
		g.Name = name
		return g
	}
	groups := []*api.InstanceGroup{group("cp-a", api.RoleControlPlane), group("cp-b", api.RoleControlPlane), group("nodes", api.RoleNode), group("more", api.RoleNode)}
	for _, c := range []struct {
		effect stale.Effect
		want   time.Duration
	}{{stale.Restart, 2*30*time.Second + 3*30*time.Second}, {stale.Replace, 2*2*time.Minute + 3*2*time.Minute}, {stale.Live, 0}} {
		var judged []stale.Machine
		var plans []roll.Plan
		for _, g := range groups {
			p := roll.Plan{Name: g.Name, Role: g.Spec.Role, Unavailable: 1}
			for i := range map[string]int{"nodes": 3}[g.Name] + 1 {
				if g.Name == "nodes" && i == 3 {
					break
				}
				name := g.Name + "-" + string(rune('0'+i))
				judged = append(judged, stale.Machine{Machine: platform.Machine{Name: name, Group: g.Name, Running: true}, Role: g.Spec.Role, Effect: c.effect})
				if c.effect >= stale.Restart {
					p.Machines = append(p.Machines, roll.Machine{Name: name, Effect: roll.Effect(c.effect.String())})
				}
			}
			plans = append(plans, p)
		}
		got := about(roll.New("x", roll.Defaults(), plans, roll.View{}))
		if minutes := summarize(judged, &api.Cluster{}, groups, platform.Roll{}).Minutes; got != c.want || minutes != int((c.want+time.Minute-1)/time.Minute) {
			t.Errorf("%v: the rollout takes %v, and the update says %d min; want %v", c.effect, got, minutes, c.want)
		}
	}
	slow := roll.Defaults()
	slow.NodeInterval, slow.PostDrainDelay = slow.NodeInterval+time.Minute, 0
	if got := estimateTime([]groupWork{{stage: roll.Nodes, replaces: 4, atOnce: 2}}, slow); got != 6*time.Minute {
		t.Errorf("with a longer wait 4 machines take %v", got)
	}
}

// Only machines whose nodes are drained lose the local data of their pods.
func TestOnlyMachinesThatAreDrainedAreInTheWay(t *testing.T) {
	s := roll.State{Options: roll.Defaults(), Groups: []roll.Group{{Machines: []roll.Machine{{Node: "a", Effect: roll.Restart}, {Node: "b", Effect: roll.Replace}, {Effect: roll.Replace}}}}}
	if got := drainedNodes(s); !slices.Equal(got, []string{"b"}) {
		t.Errorf("got %v", got)
	}
	if s.Options.DrainRestarts = true; !slices.Equal(drainedNodes(s), []string{"a", "b"}) {
		t.Errorf("with drains before restarts: got %v", drainedNodes(s))
	}
}
