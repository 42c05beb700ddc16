package kops

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"kops.local/kops/api"
	"kops.local/kops/api/status"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/ops/drain"
	"kops.local/kops/internal/ops/health"
	"kops.local/kops/internal/ops/roll"
	"kops.local/kops/internal/ops/roll/drive"
	"kops.local/kops/internal/ops/stale"
	"kops.local/kops/internal/pipeline"
	"kops.local/kops/internal/platform"
)

// PlanRollout finds out what a rollout would do, and what will be in its way.
func (c *Client) PlanRollout(ctx context.Context, name string, o RolloutOptions) (*RolloutPlan, error) {
	told := &call{cluster: name, on: o.On}
	r, err := c.newRoller(ctx, told, o)
	if err != nil {
		return nil, err
	}
	if err := told.phase("observe"); err != nil {
		return nil, err
	}
	out := &RolloutPlan{Cluster: name}
	var w health.World
	all, part := errgroup.WithContext(ctx)
	all.Go(func() (err error) {
		w, err = r.look(part)
		return err
	})
	all.Go(func() error {
		s, _, err := c.storedRollout(part, name)
		if err == nil && s != nil && s.Ended.IsZero() {
			out.Unfinished, err = c.RolloutStatus(part, name)
		}
		return err
	})
	if err := all.Wait(); err != nil {
		return nil, err
	}
	if w.API.Problem != nil && !o.CloudOnly {
		return nil, fault.Wrap(fault.NotYet, fmt.Errorf("ask the API server %s: %s", w.API.Problem.Name, w.API.Problem.Message), "find out why: kops validate cluster; or continue without it: option:CloudOnly")
	}
	if err := r.describe(ctx, w, out); err != nil {
		return nil, err
	}
	return out, told.phase("")
}

// PlanDeleteInstance returns what DeleteInstance would do. Only the machine's group has a
// machine to roll.
func (c *Client) PlanDeleteInstance(ctx context.Context, cluster, instance string, o RolloutOptions) (*RolloutPlan, error) {
	return c.PlanRollout(ctx, cluster, o.ofInstance(instance))
}

// describe tells of each group what is done to it, and what will be in the way.
func (r *roller) describe(ctx context.Context, w health.World, out *RolloutPlan) error {
	machines, err := r.judge(ctx, w)
	if err != nil {
		return err
	}
	view := drive.Seen(w, "")
	s := roll.New("preview", r.o.rolling(), r.plansOf(machines), view)
	rolls := map[string]*roll.Group{}
	for i := range s.Groups {
		rolls[s.Groups[i].Name] = &s.Groups[i]
	}
	nodes := drained(s)
	for _, g := range r.Cluster.Groups {
		if r.selects(g) {
			out.Groups = append(out.Groups, plannedRoll(g, w, machines, rolls[g.Name]))
		}
	}
	slices.SortFunc(out.Groups, func(a, b status.PlannedRoll) int {
		return cmp.Or(cmp.Compare(roll.StageOf(api.InstanceGroupRole(a.Role)), roll.StageOf(api.InstanceGroupRole(b.Role))), cmp.Compare(a.Name, b.Name))
	})
	out.About = about(s)
	all, part := errgroup.WithContext(ctx)
	all.Go(func() (err error) {
		if out.Shortages, err = r.shortages(part, s); err != nil { // the rest is worth knowing without it
			out.Shortages = []status.Shortage{{Group: "all groups", Message: "cannot check the capacity: " + err.Error(), Remedy: fault.Remedy(err)}}
		}
		return nil
	})
	if !r.o.CloudOnly && len(rolls) > 0 {
		out.Baseline = view.Failures
	}
	if !r.o.CloudOnly && len(nodes) > 0 {
		all.Go(func() (err error) {
			out.Blockers, err = r.blockers(part, nodes)
			return err
		})
	}
	return all.Wait()
}

// drained are the nodes that a rollout drains: a machine that restarts in place keeps its pods.
func drained(s roll.State) []string {
	var out []string
	for _, g := range s.Groups {
		for _, m := range g.Machines {
			if m.Node != "" && (m.Effect == roll.Replace || s.Options.DrainRestarts) {
				out = append(out, m.Node)
			}
		}
	}
	return out
}

// blockers are what will be in the way of drains of nodes.
func (r *roller) blockers(ctx context.Context, nodes []string) ([]status.Blocker, error) {
	client, err := r.Kubernetes(ctx)
	if err != nil {
		return nil, err
	}
	seen, err := drain.Look(ctx, client, nodes, r.o.DrainTimeout)
	if err != nil {
		return nil, err
	}
	return drain.Blockers(seen), nil
}

// shortages are the groups of a rollout that lack room for the machines that it adds.
func (r *roller) shortages(ctx context.Context, s roll.State) ([]status.Shortage, error) {
	adds := map[string]int{}
	for _, g := range s.Groups {
		for _, m := range g.Machines {
			if m.Effect == roll.Replace && m.Phase == roll.Pending && !m.Spare && !m.WasBroken {
				adds[g.Name] = min(adds[g.Name]+1, g.Surge)
			}
		}
	}
	found, err := shortages(ctx, r.Opened, adds)
	if err != nil {
		return nil, err
	}
	var out []status.Shortage
	for _, f := range found {
		out = append(out, status.Shortage{Group: f.Group, Message: f.Message, Remedy: f.Remedy})
	}
	return out, nil
}

// look sees the machines and, unless only the cloud counts, what the API server shows.
func (r *roller) look(ctx context.Context) (health.World, error) {
	if !r.o.CloudOnly {
		return r.Look(ctx)
	}
	machines, err := r.Machines(ctx)
	return health.World{Cluster: r.Cluster.Spec.Name, Groups: r.Cluster.Groups, Machines: machines, Counted: true}, err
}

// selects reports whether a group is among those that are asked for.
func (r *roller) selects(g *api.InstanceGroup) bool {
	return r.chosen == nil || slices.Contains(r.chosen, g.Name)
}

// plansOf are the groups with the machines that are rolled.
func (r *roller) plansOf(machines []stale.Machine) []roll.Plan {
	var out []roll.Plan
	p := r.Provider.Roll
	for _, g := range r.Cluster.Groups {
		plan := roll.Plan{Name: g.Name, Role: g.Spec.Role, Refills: p.Refills, Lone: lone(g, machines)}
		count := 0
		for _, m := range machines {
			if m.Group != g.Name {
				continue
			}
			if !m.Spare && !m.Detached {
				count++
			}
			if effect := r.effect(m); effect != "" && r.selects(g) {
				plan.Machines = append(plan.Machines, roll.Machine{Name: m.Name, Node: m.NodeName, Effect: effect, Reasons: why(m)})
			}
		}
		plan.Surge, plan.Unavailable = budgetOf(p, r.Cluster.Spec, g, count)
		if !r.o.Surge {
			plan.Surge, plan.Unavailable = 0, max(1, plan.Unavailable)
		}
		plan.SurgeOnly = surgeOnly(g.Spec.RollingUpdate, r.Cluster.Spec.Spec.RollingUpdate)
		out = append(out, plan)
	}
	return out
}

// budgetOf is how many machines of a group of a size there may be more, and fewer, during a rollout.
func budgetOf(p platform.Roll, c *api.Cluster, g *api.InstanceGroup, size int) (surge, unavailable int) {
	usual := p.Surge
	if g.Spec.Manager == api.ManagerKarpenter {
		usual = 0 // nothing counts its machines
	}
	surge, unavailable = roll.Budget(g.Spec.Role, g.Spec.RollingUpdate, c.Spec.RollingUpdate, usual, size)
	if p.Detach == nil { // no machine can go on to serve beside its successor
		surge, unavailable = 0, max(1, unavailable)
	}
	return surge, unavailable
}

// lone reports that a group's machine is the only one of a role that load balancers ask.
func lone(g *api.InstanceGroup, machines []stale.Machine) bool {
	stage := roll.StageOf(g.Spec.Role)
	n := 0
	for _, m := range machines {
		if roll.StageOf(m.Role) == stage && !m.Spare {
			n++
		}
	}
	return (stage == roll.ControlPlanes || stage == roll.APIServers) && n == 1
}

// surgeOnly reports that nothing is drained or terminated, where the group or its cluster says so.
func surgeOnly(of ...*api.RollingUpdate) bool {
	for _, u := range of {
		if u != nil && u.DrainAndTerminate != nil {
			return !*u.DrainAndTerminate
		}
	}
	return false
}

// effect is what is done to a machine; empty: nothing.
func (r *roller) effect(m stale.Machine) roll.Effect {
	whole := roll.Replace
	if r.Provider.Roll.InPlace {
		whole = roll.Restart
	}
	switch {
	case r.o.Instance != "" && !r.names(m):
		return ""
	case r.o.Instance != "" || r.o.Force || m.Effect == stale.Replace:
		return whole
	case m.Effect == stale.Restart && !r.o.CloudOnly:
		return roll.Restart
	case m.Effect == stale.Restart:
		return whole // nobody can tell the machine to restart
	}
	return ""
}

// why is why a machine is rolled, a reason a line, in the words of all that tells of machines.
func why(m stale.Machine) []string {
	var out []string
	for _, r := range reasons(m.Causes()) {
		out = append(out, r.String())
	}
	return out
}

// judge says which machines are not what the objects say. The one that is asked for must be there.
func (r *roller) judge(ctx context.Context, w health.World) ([]stale.Machine, error) {
	machines, err := r.Stale(ctx, w, pipeline.StaleOptions{})
	if err == nil && r.o.Instance != "" && !slices.ContainsFunc(machines, r.names) {
		err = fault.Wrap(fault.Gone, fmt.Errorf("cluster %s has no instance or node %q", r.Cluster.Spec.Name, r.o.Instance), "kops get instances --name "+r.Cluster.Spec.Name)
	}
	return machines, err
}

// names reports whether RolloutOptions.Instance is a machine.
func (r *roller) names(m stale.Machine) bool {
	return m.Name == r.o.Instance || m.NodeName == r.o.Instance && m.NodeName != ""
}

// plannedRoll is a group in a preview.
func plannedRoll(g *api.InstanceGroup, w health.World, machines []stale.Machine, of *roll.Group) status.PlannedRoll {
	out := status.PlannedRoll{Name: g.Name, Role: string(g.Spec.Role), Status: "Ready"}
	if g.Spec.MinSize != nil {
		out.Min = int(*g.Spec.MinSize)
	}
	if g.Spec.MaxSize != nil {
		out.Max = int(*g.Spec.MaxSize)
	}
	for _, mg := range w.Machines {
		if mg.Name == g.Name {
			out.Target = mg.Target
		}
	}
	all := 0
	for _, m := range machines {
		if m.Group != g.Name {
			continue
		}
		all++
		if m.NodeName != "" {
			out.Nodes++
		}
	}
	if of != nil {
		out.NeedUpdate, out.Surge, out.Unavailable = len(of.Machines), of.Surge, of.Unavailable
		out.SurgesFirst, out.Stays = of.SurgesFirst(), of.SurgeOnly
		for i := range of.Machines {
			out.Machines = append(out.Machines, machineOf(&of.Machines[i]))
		}
		out.Status = "NeedsUpdate"
	}
	out.Ready = all - out.NeedUpdate
	return out
}
