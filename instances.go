package kops

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/api/status"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/ops/roll"
	"kops.local/kops/internal/ops/stale"
	"kops.local/kops/internal/pipeline"
	"kops.local/kops/internal/platform"
)

// Instance is a machine of a cluster, and how it differs from the spec.
type Instance = status.Instance

// Aftermath is what remains to be done to running machines after an update.
type Aftermath = status.Aftermath

// InstancesOptions configure how the machines of a cluster are listed.
type InstancesOptions struct {
	ReachOptions
	// On receives the events of the call.
	On On
}

// Instances lists the machines of a cluster, and how each differs from the spec. While the API
// server does not answer, nodes are unknown, and machines are assumed to run the configuration
// that their platform created them with; an EventValidation has the reason.
func (c *Client) Instances(ctx context.Context, name string, o InstancesOptions) ([]Instance, error) {
	r := &reporter{cluster: name, on: o.On}
	k, err := c.checkup(ctx, r, o.ReachOptions, pipeline.CheckupLife)
	if err != nil {
		return nil, err
	}
	w, err := k.Observe(ctx)
	if err != nil {
		return nil, err
	}
	if p := w.API.Problem; p != nil {
		if err := r.report(Event{Kind: EventValidation, Validation: &Validation{Failures: []status.Failure{*p}, Nodes: []status.Node{}}}); err != nil {
			return nil, err
		}
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

// instance returns a machine as users see it; its group may be nil.
func instance(m stale.Machine, g *api.InstanceGroup) Instance {
	i := Instance{Name: m.Name, Node: m.NodeName, Status: status.UpToDate, State: m.State, Addresses: m.Addresses, Group: m.Group, Zone: m.Zone,
		MachineType: m.Type, Version: m.Version, Created: m.Created, Effect: status.Effect(m.Effect.String()), Reasons: publicReasons(m.Causes())}
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

// role returns the role of a group in the form of its nodes' labels.
func role(g *api.InstanceGroup) string {
	if g.IsControlPlane() {
		return "control-plane"
	}
	return strings.ToLower(string(g.Spec.Role))
}

// publicReasons spells fields as the users' files do, in v1alpha2.
func publicReasons(of []stale.Reason) []status.Reason {
	var out []status.Reason
	for _, r := range of {
		for _, kind := range []string{api.KindCluster, api.KindInstanceGroup} {
			field := r.Field
			r.Field, r.Have = compat.Older(kind, field, r.Have)
			_, r.Want = compat.Older(kind, field, r.Want)
		}
		out = append(out, status.Reason{Field: r.Field, Have: r.Have, Want: r.Want, Effect: status.Effect(r.Effect.String())})
	}
	return out
}

// aftermathOf returns, by group, what a plan leaves to be done, and to which machines. It is nil if
// no machine is running.
func aftermathOf(ctx context.Context, p *pipeline.Planned, m *pipeline.Modelled, o UpdateOptions) (*Aftermath, []stale.Machine) {
	authority := m.Keysets[pki.KubernetesCA]
	if o.IgnoreSkew {
		authority = nil // the control plane is not queried
	}
	judged, err := p.Effect(ctx, authority)
	if err != nil {
		return &Aftermath{Groups: []status.GroupAftermath{}, Unknown: err.Error()}, nil
	}
	if m.Provider.Fleet.Roll.Refills { // its group replaces a dead machine
		judged = slices.DeleteFunc(judged, func(m stale.Machine) bool { return !m.Running && !m.Spare })
	}
	if len(judged) == 0 {
		return nil, nil
	}
	return summarize(judged, m.Model.Cluster, m.Model.Groups, m.Provider.Fleet.Roll), judged
}

// summarize summarizes machines by group.
func summarize(judged []stale.Machine, c *api.Cluster, groups []*api.InstanceGroup, p platform.Roll) *Aftermath {
	a := &Aftermath{Groups: []status.GroupAftermath{}}
	var all []groupWork
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
			for _, r := range publicReasons(m.Causes()) {
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
		all = append(all, groupWork{roll.StageOf(g.Spec.Role), restarts, replaces, more + fewer})
	}
	slices.SortFunc(a.Groups, func(x, y status.GroupAftermath) int { return cmp.Compare(x.Group, y.Group) })
	a.Minutes = int((estimateTime(all, roll.Defaults()) + time.Minute - 1) / time.Minute)
	return a
}
