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

// PlanRollout returns what a rollout would do, and its obstacles.
func (c *Client) PlanRollout(ctx context.Context, name string, o RolloutOptions) (*RolloutPlan, error) {
	progress := &reporter{cluster: name, on: o.On}
	r, err := c.newRoller(ctx, progress, o)
	if err != nil {
		return nil, err
	}
	if err := progress.phase("observe"); err != nil {
		return nil, err
	}
	out := &RolloutPlan{Cluster: name}
	var w health.World
	all, part := errgroup.WithContext(ctx)
	all.Go(func() (err error) {
		w, err = r.observe(part)
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
	return out, progress.phase("")
}

// PlanDeleteInstance returns what DeleteInstance would do. Only the machine's group has a
// machine to roll.
func (c *Client) PlanDeleteInstance(ctx context.Context, cluster, instance string, o RolloutOptions) (*RolloutPlan, error) {
	return c.PlanRollout(ctx, cluster, o.ofInstance(instance))
}

// describe adds for each group what is done to it, and the obstacles.
func (r *roller) describe(ctx context.Context, w health.World, out *RolloutPlan) error {
	machines, err := r.staleMachines(ctx, w)
	if err != nil {
		return err
	}
	view := drive.NewView(w, "")
	s := roll.New("preview", r.o.rollOptions(), r.plansOf(machines), view)
	rolls := map[string]*roll.Group{}
	for i := range s.Groups {
		rolls[s.Groups[i].Name] = &s.Groups[i]
	}
	nodes := drainedNodes(s)
	for _, g := range r.Cluster.Groups {
		if r.isSelected(g) {
			out.Groups = append(out.Groups, plannedRoll(g, w, machines, rolls[g.Name]))
		}
	}
	slices.SortFunc(out.Groups, func(a, b status.PlannedRoll) int {
		return cmp.Or(cmp.Compare(roll.StageOf(api.InstanceGroupRole(a.Role)), roll.StageOf(api.InstanceGroupRole(b.Role))), cmp.Compare(a.Name, b.Name))
	})
	out.About = about(s)
	all, part := errgroup.WithContext(ctx)
	all.Go(func() (err error) {
		if out.Shortages, err = r.shortages(part, s); err != nil { // the rest is useful without it
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

// drainedNodes returns the nodes that a rollout drains: a machine that restarts in place keeps its
// pods.
func drainedNodes(s roll.State) []string {
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

// blockers returns the obstacles to draining nodes.
func (r *roller) blockers(ctx context.Context, nodes []string) ([]status.Blocker, error) {
	client, err := r.Kubernetes(ctx)
	if err != nil {
		return nil, err
	}
	seen, err := drain.Observe(ctx, client, nodes, r.o.DrainTimeout)
	if err != nil {
		return nil, err
	}
	return drain.Blockers(seen), nil
}

// shortages returns the groups of a rollout without room for the machines that it adds.
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

// observe observes the machines and, unless CloudOnly is set, the API server's objects.
func (r *roller) observe(ctx context.Context) (health.World, error) {
	if !r.o.CloudOnly {
		return r.Observe(ctx)
	}
	machines, err := r.Machines(ctx)
	return health.World{Cluster: r.Cluster.Spec.Name, Groups: r.Cluster.Groups, Machines: machines, Counted: true}, err
}

// isSelected reports whether a group is among the requested ones.
func (r *roller) isSelected(g *api.InstanceGroup) bool {
	return r.chosen == nil || slices.Contains(r.chosen, g.Name)
}

// plansOf returns the groups with the machines to roll.
func (r *roller) plansOf(machines []stale.Machine) []roll.Plan {
	var out []roll.Plan
	p := r.Provider.Fleet.Roll
	for _, g := range r.Cluster.Groups {
		plan := roll.Plan{Name: g.Name, Role: g.Spec.Role, Refills: p.Refills, Lone: isLone(g, machines)}
		count := 0
		for _, m := range machines {
			if m.Group != g.Name {
				continue
			}
			if !m.Spare && !m.Detached {
				count++
			}
			if effect := r.effect(m); effect != "" && r.isSelected(g) {
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

// budgetOf returns how many machines more and fewer than size a group may have during a rollout.
func budgetOf(p platform.Roll, c *api.Cluster, g *api.InstanceGroup, size int) (surge, unavailable int) {
	usual := p.Surge
	if g.Spec.Manager == api.ManagerKarpenter {
		usual = 0 // its number of machines is not managed
	}
	surge, unavailable = roll.Budget(g.Spec.Role, g.Spec.RollingUpdate, c.Spec.RollingUpdate, usual, size)
	if p.Detach == nil { // no machine can continue to serve beside its successor
		surge, unavailable = 0, max(1, unavailable)
	}
	return surge, unavailable
}

// isLone reports whether a group's machine is the only one of a role behind load balancers.
func isLone(g *api.InstanceGroup, machines []stale.Machine) bool {
	stage := roll.StageOf(g.Spec.Role)
	n := 0
	for _, m := range machines {
		if roll.StageOf(m.Role) == stage && !m.Spare {
			n++
		}
	}
	return (stage == roll.ControlPlanes || stage == roll.APIServers) && n == 1
}

// surgeOnly reports whether nothing is drained or terminated, according to the group or its cluster.
func surgeOnly(of ...*api.RollingUpdate) bool {
	for _, u := range of {
		if u != nil && u.DrainAndTerminate != nil {
			return !*u.DrainAndTerminate
		}
	}
	return false
}

// effect returns what is done to a machine; "" means nothing.
func (r *roller) effect(m stale.Machine) roll.Effect {
	whole := roll.Replace
	if r.Provider.Fleet.Roll.InPlace {
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
		return whole // with CloudOnly, a restart cannot be requested
	}
	return ""
}

// why returns the reasons why a machine is rolled, one per line, as in all output about machines.
func why(m stale.Machine) []string {
	var out []string
	for _, r := range publicReasons(m.Causes()) {
		out = append(out, r.String())
	}
	return out
}

// staleMachines returns the machines that do not match the objects. The requested one must exist.
func (r *roller) staleMachines(ctx context.Context, w health.World) ([]stale.Machine, error) {
	machines, err := r.Stale(ctx, w, pipeline.StaleOptions{})
	if err == nil && r.o.Instance != "" && !slices.ContainsFunc(machines, r.names) {
		err = fault.Wrap(fault.Gone, fmt.Errorf("cluster %s has no instance or node %q", r.Cluster.Spec.Name, r.o.Instance), "to list them: kops get instances --name "+r.Cluster.Spec.Name)
	}
	return machines, err
}

// names reports whether RolloutOptions.Instance names a machine.
func (r *roller) names(m stale.Machine) bool {
	return m.Name == r.o.Instance || m.NodeName == r.o.Instance && m.NodeName != ""
}

// plannedRoll returns a group of a preview.
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
