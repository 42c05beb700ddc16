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
	// On is told of the look.
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
		Version: m.Version, Created: m.Created, Effect: status.Effect(m.Effect.String()), Reasons: reasons(m.Reasons)}
	if g != nil {
		i.MachineType, i.Roles = g.Spec.MachineType, []string{role(g)}
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

// aftermath says by group what a plan leaves to do. It is nil where no machine runs.
func aftermath(ctx context.Context, p *pipeline.Planned, m *pipeline.Modelled, o UpdateOptions) *Aftermath {
	authority := m.Keysets[pki.KubernetesCA]
	if o.IgnoreSkew {
		authority = nil // the control plane is not asked
	}
	judged, err := p.Effect(ctx, authority)
	if err != nil {
		return &Aftermath{Groups: []status.GroupAftermath{}, Unknown: err.Error()}
	}
	if len(judged) == 0 {
		return nil
	}
	return summed(judged, m.Model.Cluster, m.Model.Groups, m.Provider.Roll)
}

// summed puts machines together by group. Control planes and what goes before and after
// them take their turns; groups of nodes are rolled at once.
func summed(judged []stale.Machine, c *api.Cluster, groups []*api.InstanceGroup, p platform.Roll) *Aftermath {
	a := &Aftermath{Groups: []status.GroupAftermath{}}
	var turns, nodes time.Duration
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
			for _, r := range reasons(m.Reasons) {
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
		takes := rounds(restarts, more+fewer)*status.RestartTime + rounds(replaces, more+fewer)*status.ReplaceTime
		if roll.StageOf(g.Spec.Role) == roll.Nodes {
			nodes = max(nodes, takes)
		} else {
			turns += takes
		}
	}
	slices.SortFunc(a.Groups, func(x, y status.GroupAftermath) int { return cmp.Compare(x.Group, y.Group) })
	a.Minutes = int((turns + nodes + time.Minute - 1) / time.Minute)
	return a
}

// rounds is how often as many machines as a budget allows are taken.
func rounds(machines, budget int) time.Duration {
	return time.Duration((machines + budget - 1) / max(1, budget))
}
