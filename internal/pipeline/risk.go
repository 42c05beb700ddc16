package pipeline

import (
	"context"
	"slices"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/ops/risk"
	"kops.local/kops/internal/ops/stale"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/store"
)

// Risks lists what in the plan of an update deserves a second look. machines is the result
// of Effect, which reads most of what is needed.
func (p *Planned) Risks(ctx context.Context, machines []stale.Machine) (diag.List, error) {
	if p.Plan.Empty() {
		return nil, nil
	}
	was, err := p.lastApplied(ctx)
	if err != nil {
		return nil, err
	}
	in := risk.In{Was: was.cluster, Now: p.Cluster.Spec, Groups: p.Cluster.Groups, Unbounded: p.Provider.Traits.Machines.NoCloud, Plan: p.Plan,
		Replaced: map[string]int{}, Machines: map[string]int{}}
	for _, m := range machines {
		in.Machines[m.Group]++
		if m.Effect == stale.Replace {
			in.Replaced[m.Group]++
		}
	}
	return risk.Of(in), nil
}

// lastApplied are the objects as they were applied last; there are none before the first update.
func (p *Planned) lastApplied(ctx context.Context) (revised, error) {
	if p.Places.Base.Store == nil {
		return revised{}, nil
	}
	if p.before != nil && p.before.cluster != nil {
		return *p.before, nil
	}
	listing, err := p.Places.Base.Listing(ctx)
	if err != nil || !slices.ContainsFunc(listing, func(i store.Info) bool { return i.Key == layout.Completed }) {
		return revised{}, err
	}
	if p.before == nil {
		was, err := p.revised(ctx)
		if err != nil || was.cluster != nil {
			return was, err
		}
	}
	return p.takenOver(ctx)
}

// takenOver is the completed cluster that another program has applied, of which there are
// no revisions.
func (p *Planned) takenOver(ctx context.Context) (revised, error) {
	data, _, err := p.Places.Base.Store.Get(ctx, layout.Completed)
	if err != nil {
		return revised{}, err
	}
	c, _, err := compat.DecodeOne[*api.Cluster](data, compat.Options{Lenient: true})
	if err != nil {
		return revised{}, nil //nolint:nilerr // it is not ours, and only the comparison is lost
	}
	return revised{cluster: c}, nil
}

// RemovalRisks lists what in the plan of a deletion deserves a second look.
func (p *Planned) RemovalRisks() diag.List { return risk.Of(risk.In{Plan: p.Plan}) }
