package kops

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/api/status"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/ops/roll"
	"kops.local/kops/internal/ops/stale"
	"kops.local/kops/internal/pipeline"
	"kops.local/kops/internal/platform"
)

// Instance is a machine of a cluster, and what it is behind in.
type Instance = status.Instance

// Aftermath is what an update leaves to do about machines that run.
type Aftermath = status.Aftermath

// InstancesOptions say how the machines of a cluster are looked at.
type InstancesOptions struct {
	ReachOptions
	// On receives the events of the call.
	On On
}

// Instances lists the machines of a cluster, with what each is behind in. While the API
// server does not answer, nodes are unknown, and what machines run is what their platform
// made them of.
func (c *Client) Instances(ctx context.Context, name string, o InstancesOptions) ([]Instance, error) {
	k, err := c.checkup(ctx, &call{cluster: name, on: o.On}, o.ReachOptions, pipeline.CheckupLife)
	if err != nil {
		return nil, err
	}
	w, err := k.Look(ctx)
	if err != nil {
		return nil, err
	}
	judged, err := k.Stale(ctx, w, pipeline.StaleOptions{All: true})
	if err != nil {
		return nil, err
	}
	out := []Instance{}
	for _, m := range judged {
		out = append(out, instance(m, newCluster(k.Cluster).Group(m.Group)))
	}
	slices.SortStableFunc(out, func(a, b Instance) int { return cmp.Compare(a.Group, b.Group) })
	return out, nil
}

// instance is a machine as it is shown; its group may be nil.
func instance(m stale.Machine, g *api.InstanceGroup) Instance {
	i := Instance{Name: m.Name, Node: m.NodeName, Status: status.UpToDate, State: m.State, Addresses: m.Addresses, Group: m.Group, Zone: m.Zone,
		MachineType: m.Type, Version: m.Version, Created: m.Created, Effect: status.Effect(m.Effect.String()), Reasons: reasons(m.Causes())}
	if g != nil {
		i.Roles = []string{role(g)}
	}
	switch {
	case m.Detached:
		i.Status = status.Detached
	case m.Stale():
		i.Status = status.NeedsUpdate
	}
	return i
}

// role is that of a group, as its nodes have it.
func role(g *api.InstanceGroup) string {
	if g.IsControlPlane() {
		return "control-plane"
	}
	return strings.ToLower(string(g.Spec.Role))
}

func reasons(of []stale.Reason) []status.Reason {
	var out []status.Reason
	for _, r := range of {
		out = append(out, status.Reason{Field: r.Field, Have: r.Have, Want: r.Want, Effect: status.Effect(r.Effect.String())})
	}
	return out
}

// aftermath says by group what a plan leaves to do, and of which machines. It is nil where
// no machine runs.
func aftermath(ctx context.Context, p *pipeline.Planned, m *pipeline.Modelled, o UpdateOptions) (*Aftermath, []stale.Machine) {
	authority := m.Keysets[pki.KubernetesCA]
	if o.IgnoreSkew {
		authority = nil // the control plane is not asked
	}
	judged, err := p.Effect(ctx, authority)
	if err != nil {
		return &Aftermath{Groups: []status.GroupAftermath{}, Unknown: err.Error()}, nil
	}
	if m.Provider.Roll.Refills { // its group makes another machine in the place of one that is dead
		judged = slices.DeleteFunc(judged, func(m stale.Machine) bool { return !m.Running && !m.Spare })
	}
	if len(judged) == 0 {
		return nil, nil
	}
	return summed(judged, m.Model.Cluster, m.Model.Groups, m.Provider.Roll), judged
}

// summed puts machines together by group.
func summed(judged []stale.Machine, c *api.Cluster, groups []*api.InstanceGroup, p platform.Roll) *Aftermath {
	a := &Aftermath{Groups: []status.GroupAftermath{}}
	var all []work
	for _, g := range groups {
		of := status.GroupAftermath{Group: g.Name}
		greatest := stale.None
		var restarts, replaces int
		for _, m := range judged {
			if m.Group != g.Name {
				continue
			}
			of.Count++
			greatest = max(greatest, m.Effect)
			switch m.Effect {
			case stale.Restart:
				restarts++
			case stale.Replace:
				replaces++
			}
			for _, r := range reasons(m.Causes()) {
				if !slices.ContainsFunc(of.Reasons, func(x status.Reason) bool { return x.Field == r.Field }) {
					of.Reasons = append(of.Reasons, r)
				}
			}
		}
		if of.Count == 0 {
			continue
		}
		of.Effect, of.Machines = status.Effect(greatest.String()), restarts+replaces
		a.Groups, a.Restarts, a.Replaces = append(a.Groups, of), a.Restarts+restarts, a.Replaces+replaces
		more, fewer := budgetOf(p, c, g, of.Count)
		all = append(all, work{roll.StageOf(g.Spec.Role), restarts, replaces, more + fewer})
	}
	slices.SortFunc(a.Groups, func(x, y status.GroupAftermath) int { return cmp.Compare(x.Group, y.Group) })
	a.Minutes = int((estimate(all, roll.Defaults()) + time.Minute - 1) / time.Minute)
	return a
}
