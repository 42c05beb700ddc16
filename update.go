package kops

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"kops.local/kops/api"
	"kops.local/kops/finding"
	"kops.local/kops/internal/engine/exec"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/render/terraform"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model/managedfile"
	"kops.local/kops/internal/ops/stale"
	"kops.local/kops/internal/pipeline"
	"kops.local/kops/internal/spec/validate"
	"kops.local/kops/internal/store/clusterstore"
)

// UpdateOptions configure an update.
type UpdateOptions struct {
	// Apply applies the plan; otherwise it is only made.
	Apply bool
	// Prune deletes what is no longer wanted.
	Prune bool
	// Phase limits the update to one part: network, security, cluster; empty means all.
	Phase string
	// Lifecycles configure how resources are treated, by the name of their type or, with
	// precedence, by type/name: Sync, Ignore, ExistsAndWarnIfChanges or ExistsAndValidates.
	Lifecycles map[string]string
	// Groups and Roles limit the update to some instance groups.
	Groups, Roles []string
	// IgnoreSkew gives workers the spec's version of Kubernetes at once, without
	// checking which one the control plane runs.
	IgnoreSkew bool
	// AllowDowngrade continues although a newer version last applied the cluster.
	AllowDowngrade bool
	// AllowUnverified lets machines install files whose SHA-256 is unknown. A warning
	// of the Update names them.
	AllowUnverified bool
	// Refresh observes everything, without data cached by earlier runs.
	Refresh bool
	// Plan, if set, is the only plan that is applied; any other is refused. Its options need not be
	// repeated: options that are empty here are taken from the plan.
	Plan *SavedPlan
	// KeepKeys creates the cluster's missing keys before it is planned, and stores
	// them, so that the plan can be saved: no second plan would have the same keys.
	KeepKeys bool
	// Facts, if set, are used instead of being looked up.
	Facts *Facts
	// On receives the events of the update.
	On On

	// target is the result of the graph: "terraform", or the platform itself.
	target string
	// prefetch, if not nil, means that the platform is observed once the graph is built,
	// and counts the requests to it before then.
	prefetch *sync.WaitGroup
}

// Update is the result of an update.
type Update struct {
	Facts    *Facts
	Plan     *Plan
	Warnings finding.List
	// Files are the files of a target that writes files, by path.
	Files map[string][]byte
	// Unnamed means that the API has no published name: its address is only known once Files are
	// applied, which themselves refer to it.
	Unnamed bool
	// Aftermath is what remains to be done to running machines after the update; nil if no machine
	// is running, or if nothing changes.
	Aftermath *Aftermath
	// Risks are consequences that should be reviewed before the plan is applied. The Rule
	// of each is a stable code: pod-network-changed, data-deleted and so on.
	Risks finding.List
	// Objects are the URLs of store files that a deletion removes.
	Objects []string

	// KeysMade means that UpdateOptions.KeepKeys has created keys.
	KeysMade bool

	// model is what was planned or rendered; nil for a deletion.
	model   *pipeline.Modelled
	options UpdateOptions
}

// errNoUpdate is the error of an operation that needs the plan of an update, for the plan of a
// deletion or for rendered files.
var errNoUpdate = errors.New("the plan is not for an update")

// Summary describes in a sentence what was applied or, after a preview, what would be.
func (u *Update) Summary() string {
	switch {
	case u.Plan.Empty():
		return "No changes need to be applied"
	case !u.options.Apply:
		return "Changes to apply: " + u.Plan.plan.Summary().Applied()
	}
	return "Applied: " + u.Plan.plan.Summary().Applied()
}

// Starts reports whether the plan creates the control plane: none of its machines existed
// before, and some are created.
func (u *Update) Starts() bool {
	made, m := false, u.model
	if m == nil || u.Plan == nil {
		return false
	}
	for _, s := range u.Plan.plan.Steps {
		n, wanted := m.Graph.Get(s.Address)
		if !wanted {
			continue
		}
		if g := m.Cluster.Group(n.Kind.Group(n.Want)); g != nil && g.IsControlPlane() {
			if s.Have != nil {
				return false
			}
			made = made || s.Op == plan.Create
		}
	}
	return made
}

// createsKeys reports whether the plan creates keys or other random secrets. They are
// generated for every plan, so that no second plan equals this one.
func (u *Update) createsKeys() bool {
	return slices.ContainsFunc(u.Plan.plan.Steps, func(s plan.Step) bool {
		return s.Op == plan.Create && (s.Address.Kind == managedfile.Keyset.Name || s.Address.Kind == managedfile.Secret.Name)
	})
}

// Update plans what the cluster needs in its cloud, and with Apply applies the
// plan, while it holds the cluster's lease.
func (c *Client) Update(ctx context.Context, name string, o UpdateOptions) (*Update, error) {
	o = o.asPlanned()
	o.prefetch = &sync.WaitGroup{}
	defer o.prefetch.Wait()
	ctx, cancel := context.WithCancel(ctx) // prefetched data is not needed afterwards
	defer cancel()
	progress := &reporter{cluster: name, on: o.On}
	if !o.Apply {
		return c.preview(ctx, progress, o)
	}
	var u *Update
	err := c.withLease(ctx, progress, func(ctx context.Context, lease *clusterstore.Lease) error {
		m, err := c.model(ctx, progress, o)
		if err != nil {
			return err
		}
		made, p, err := planned(ctx, progress, m, o)
		if err == nil {
			err = reportPlan(progress, made)
		}
		if err != nil {
			return err
		}
		u = made
		p.Prepare = func(ctx context.Context) error { return c.writeSeats(ctx, m, o) }
		if o.Prune {
			return c.applyDeletion(ctx, progress, lease, m, p)
		}
		return apply(ctx, progress, lease, p, "apply")
	})
	return u, err
}

// preview plans an update, and creates the keys that a saved plan needs.
func (c *Client) preview(ctx context.Context, progress *reporter, o UpdateOptions) (*Update, error) {
	compared := func() (*Update, error) {
		m, err := c.model(ctx, progress, o)
		if err != nil {
			return nil, err
		}
		u, _, err := planned(ctx, progress, m, o)
		return u, err
	}
	u, err := compared()
	if err == nil && o.KeepKeys && u.createsKeys() {
		if err := c.makeKeys(ctx, progress, o); err != nil {
			return nil, fmt.Errorf("create the keys that the plan needs: %w", err)
		}
		if u, err = compared(); err == nil {
			u.KeysMade = true
		}
	}
	if err != nil {
		return nil, err
	}
	return u, reportPlan(progress, u)
}

// model takes a cluster through completion, validation and the model.
func (c *Client) model(ctx context.Context, progress *reporter, o UpdateOptions) (*pipeline.Modelled, error) {
	cl, err := c.readCluster(ctx, progress)
	if err != nil {
		return nil, err
	}
	if err := validate.Gossip(cl.Spec).Err(); err != nil {
		return nil, err
	}
	opened, err := c.world.Open(ctx, cl.stored(), pipeline.OpenOptions{Target: o.target, Refresh: o.Refresh})
	if err != nil {
		return nil, err
	}
	if err := progress.phase("look up"); err != nil {
		return nil, err
	}
	g, err := opened.Gather(ctx, pipeline.GatherOptions{Facts: o.Facts.internal(), IgnoreSkew: o.IgnoreSkew, Prefetch: o.prefetch})
	if err != nil {
		return nil, err
	}
	done, err := g.Complete()
	if err == nil {
		done, err = guard(g, done, o)
	}
	if err == nil {
		done, err = done.Validate()
	}
	if err != nil {
		return nil, err
	}
	if err := progress.phase("model"); err != nil {
		return nil, err
	}
	m, err := g.Model(ctx, done, pipeline.ModelOptions{AllowUnverified: o.AllowUnverified, Written: o.Apply || o.target == pipeline.Terraform})
	if err != nil {
		return nil, err
	}
	return m.Limit(pipeline.LimitOptions{Apply: o.Apply, Phase: o.Phase, Lifecycles: o.Lifecycles, Groups: o.Groups, Roles: o.Roles})
}

// planned observes the platform and makes the plan, which must equal the saved one if one is given.
func planned(ctx context.Context, progress *reporter, m *pipeline.Modelled, o UpdateOptions) (*Update, *pipeline.Planned, error) {
	if err := progress.phase("observe"); err != nil {
		return nil, nil, err
	}
	have, err := m.Observe(ctx, false)
	if err != nil {
		return nil, nil, err
	}
	p, err := have.Plan(o.Prune)
	if err != nil {
		return nil, nil, err
	}
	u := &Update{Facts: &Facts{m.Model.Facts}, Plan: newPlan(p.Plan), Warnings: m.Warnings, model: m, options: o}
	var machines []stale.Machine
	u.Aftermath, machines = aftermathOf(ctx, p, m, o)
	if u.Risks, err = p.Risks(ctx, machines, m.Model.Cluster); err != nil {
		return nil, nil, err
	}
	if o.Plan != nil {
		now, err := u.Saved()
		if err == nil {
			err = o.Plan.check(now)
		}
		if err != nil {
			return u, p, err
		}
	}
	return u, p, nil
}

// reportPlan reports a plan, after everything that was done to make it.
func reportPlan(progress *reporter, u *Update) error {
	if err := progress.phase(""); err != nil {
		return err
	}
	return progress.plan(u)
}

// Terraform renders the cluster's resources as Terraform configuration. Data that does not
// belong there, such as key material, is written to the state store.
func (c *Client) Terraform(ctx context.Context, name string, o UpdateOptions) (*Update, error) {
	var u *Update
	o.target = pipeline.Terraform
	progress := &reporter{cluster: name, on: o.On}
	err := c.withLease(ctx, progress, func(ctx context.Context, lease *clusterstore.Lease) error {
		m, err := c.model(ctx, progress, o)
		if err != nil {
			return err
		}
		doc, err := m.Provider.Declare.Terraform(m.Model, m.Graph)
		if err != nil {
			return err
		}
		u = &Update{Facts: &Facts{m.Model.Facts}, Warnings: m.Warnings, Unnamed: m.Model.Cluster.Spec.DNSType() == api.DNSNone, model: m, options: o}
		if u.Files, err = terraform.Render(doc); err != nil {
			return err
		}
		kinds := directKinds(m.Kinds)
		if c.cfg.Offline {
			kinds = managedfile.Direct()
			u.Warnings = append(slices.Clone(u.Warnings), checkUnwritten(m, kinds)...)
		}
		if err := m.KeepConfigs(ctx); err != nil {
			return err
		}
		if err := c.writeSeats(ctx, m, o); err != nil {
			return err
		}
		return applyOnly(ctx, progress, lease, m, kinds, false)
	})
	return u, err
}

// directKinds lists the kinds that are never part of Terraform's configuration.
func directKinds(kinds []resource.Any) []resource.Any {
	return slices.DeleteFunc(slices.Clone(kinds), func(k resource.Any) bool { return !k.KindDirect() })
}

// checkUnwritten warns about resources that neither Terraform nor this program creates, because it
// does not access the platform.
func checkUnwritten(m *pipeline.Modelled, kinds []resource.Any) finding.List {
	var out finding.List
	for n := range m.Graph.All() {
		is := func(k resource.Any) bool { return k.KindName() == n.Address.Kind }
		if n.Kind.KindDirect() && !slices.ContainsFunc(kinds, is) {
			out = append(out, finding.Finding{Rule: "not-written", Warning: true, Message: n.Address.String() + " is never part of the Terraform configuration, and is not written, because no platform is accessed",
				Remedy: "update the cluster once without a facts file (option:Facts)"})
		}
	}
	return out
}

// readCluster reads the cluster of a call.
func (c *Client) readCluster(ctx context.Context, progress *reporter) (*Cluster, error) {
	if err := progress.phase("read"); err != nil {
		return nil, err
	}
	return c.Clusters().Get(ctx, progress.cluster)
}

// withLease runs f while this process holds the cluster's lease. If the lease is
// lost, the context of f is canceled.
func (c *Client) withLease(ctx context.Context, progress *reporter, f func(context.Context, *clusterstore.Lease) error) (err error) {
	held, lease, err := c.store.Acquire(ctx, progress.cluster, c.holder(), progress.watch)
	if other := (*clusterstore.LeaseHeldError)(nil); errors.As(err, &other) {
		return &Refused{err}
	}
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, lease.Release(context.WithoutCancel(ctx)), progress.report(Event{Kind: EventReleased}))
	}()
	if err := progress.report(Event{Kind: EventLeased}); err != nil {
		return err
	}
	return f(held, lease)
}

// apply applies a plan, in the named phase, and records the result.
func apply(ctx context.Context, progress *reporter, lease *clusterstore.Lease, p *pipeline.Planned, phase string) error {
	if p.Plan.Empty() {
		return nil
	}
	if err := progress.phase(phase); err != nil {
		return err
	}
	return progress.steps(ctx, func(ctx context.Context, report func(exec.Event)) error { return p.Apply(ctx, lease, report) })
}

// applyOnly applies the changes of some kinds of files, aside from an update or
// as its part in the store.
func applyOnly(ctx context.Context, progress *reporter, lease *clusterstore.Lease, m *pipeline.Modelled, kinds []resource.Any, aside bool) error {
	have, err := m.Filter(kinds).Observe(ctx, false)
	if err != nil {
		return err
	}
	p, err := have.Plan(false)
	if err != nil {
		return err
	}
	p.Aside = aside
	return apply(ctx, progress, lease, p, "write")
}
