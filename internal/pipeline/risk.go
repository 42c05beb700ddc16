package pipeline

import (
	"context"
	"reflect"
	"slices"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/ops/risk"
	"kops.local/kops/internal/ops/stale"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/store"
)

// Risks lists what in an update's plan deserves a second look. machines is the result of Effect,
// which reads most of what is needed; done is the completed cluster.
func (p *Planned) Risks(ctx context.Context, machines []stale.Machine, done *api.Cluster) (diag.List, error) {
	if p.Plan.Empty() {
		return nil, nil
	}
	was, err := p.lastApplied(ctx)
	if err != nil {
		return nil, err
	}
	issuer, err := p.appliedIssuer(ctx, was.cluster)
	if err != nil {
		return nil, err
	}
	in := risk.In{Applied: was.cluster, AppliedGroups: was.groups, Issuer: issuer, NewIssuer: issuerOf(done), Now: p.Cluster.Spec, Groups: p.Cluster.Groups, Unbounded: p.Provider.Traits.Machines.NoCloud, Plan: p.Plan,
		NewEncryption: runsOtherEncryption(machines), Replaced: map[string]int{}, Machines: map[string]int{}}
	for _, m := range machines {
		in.Machines[m.Group]++
		if m.Effect == stale.Replace {
			in.Replaced[m.Group]++
		}
	}
	return risk.Of(in), nil
}

// runsOtherEncryption reports whether machines run with an encryption configuration and will get
// another. A machine that has none has not encrypted anything, and encryption-removed is the risk of
// one that will have none.
func runsOtherEncryption(machines []stale.Machine) bool {
	return slices.ContainsFunc(machines, func(m stale.Machine) bool {
		return slices.ContainsFunc(m.Reasons, func(r stale.Reason) bool { return r.Field == stale.EncryptionSecret && r.Have != "" && r.Want != "" })
	})
}

// lastApplied returns the objects as they were last applied; there are none before the first
// update.
func (p *Planned) lastApplied(ctx context.Context) (appliedObjects, error) {
	if p.Places.Base.Store == nil {
		return appliedObjects{}, nil
	}
	if p.applied != nil && p.applied.cluster != nil {
		return *p.applied, nil
	}
	listing, err := p.Places.Base.Listing(ctx)
	if err != nil || !slices.ContainsFunc(listing, func(i store.Info) bool { return i.Key == layout.Completed }) {
		return appliedObjects{}, err
	}
	if p.applied == nil {
		was, err := p.readAppliedObjects(ctx)
		if err != nil || was.cluster != nil {
			return was, err
		}
	}
	return p.foreignCluster(ctx)
}

// appliedIssuer returns the issuer of service account tokens that the last update has set; empty
// before the first one, and if nothing has changed that it follows from.
func (p *Planned) appliedIssuer(ctx context.Context, was *api.Cluster) (string, error) {
	if p.Places.Base.Store == nil || was == nil || reflect.DeepEqual(issuerInputs(was), issuerInputs(p.Cluster.Spec)) {
		return "", nil
	}
	text, err := p.readCompleted(ctx)
	if err != nil || text == nil {
		return "", err
	}
	c, _, err := compat.DecodeOne[*api.Cluster](text, compat.Options{Lenient: true})
	if err != nil {
		return "", nil //nolint:nilerr // only the comparison is lost
	}
	return issuerOf(c), nil
}

// issuerInputs returns what the issuer follows from; see package complete.
func issuerInputs(c *api.Cluster) []any {
	s := c.Spec.KubeAPIServer
	if s == nil {
		s = &api.KubeAPIServerConfig{}
	}
	return []any{c.Spec.ServiceAccountIssuerDiscovery, s.ServiceAccountIssuer, s.AnonymousAuth, c.Spec.API.Access, c.Spec.API.PublicName}
}

// foreignCluster returns the completed cluster that another program has applied, for which there
// are no revisions. If this program created the cluster, the file is left by an update that did not
// finish.
func (p *Planned) foreignCluster(ctx context.Context) (appliedObjects, error) {
	ours, err := p.World.Store.CreatedHere(ctx, p.Cluster.Spec.Name)
	if err != nil || ours {
		return appliedObjects{}, err
	}
	data, _, err := p.Places.Base.Store.Get(ctx, layout.Completed)
	if err != nil {
		return appliedObjects{}, err
	}
	c, _, err := compat.DecodeOne[*api.Cluster](data, compat.Options{Lenient: true})
	if err != nil {
		return appliedObjects{}, nil //nolint:nilerr // it is not ours, and only the comparison is lost
	}
	return appliedObjects{cluster: c}, nil
}

// RemovalRisks lists what in a deletion's plan deserves a second look.
func (p *Planned) RemovalRisks() diag.List { return risk.Of(risk.In{Plan: p.Plan}) }
