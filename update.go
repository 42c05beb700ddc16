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

// UpdateOptions say what an update does.
type UpdateOptions struct {
	// Apply carries the plan out; otherwise it is only made.
	Apply bool
	// Prune deletes what is no longer wanted.
	Prune bool
	// Phase limits the update to one part: network, security, cluster; empty: all.
	Phase string
	// Lifecycles say how resources are treated, by the name of their type or, before
	// that, by type/name: Sync, Ignore, ExistsAndWarnIfChanges or ExistsAndValidates.
	Lifecycles map[string]string
	// Groups and Roles limit the update to some instance groups.
	Groups, Roles []string
	// IgnoreSkew gives workers the spec's version of Kubernetes at once, without
	// asking the control plane which one it runs.
	IgnoreSkew bool
	// AllowDowngrade goes on although a newer version applied the cluster last.
	AllowDowngrade bool
	// AllowUnverified lets machines install files whose SHA-256 is not known. A warning
	// of the Update names them.
	AllowUnverified bool
	// Refresh observes everything, without what is remembered from former runs.
	Refresh bool
	// Plan, when set, refuses every plan but this one. Its options need not be repeated: options that are empty here are taken from the plan.
	Plan *SavedPlan
	// KeepKeys makes the keys that the cluster lacks before it is planned, and stores
	// them, so that the plan can be saved: no second plan would make the same keys.
	KeepKeys bool
	// Facts, when set, are taken instead of looking up.
	Facts *Facts
	// On receives the events of the update.
	On On

	// target is what the graph is made into: "terraform", or the platform itself.
	target string
	// prefetch, when not nil, says that the platform is observed once the graph is made,
	// and counts what asks it before then.
	prefetch *sync.WaitGroup
}

// Update is what an update came to.
type Update struct {
	Facts    *Facts
	Plan     *Plan
	Warnings finding.List
	// Files are those of a target that writes files, by path.
	Files map[string][]byte
	// Unnamed says that no name of the API is published: where it is reached is known only
	// when Files were applied, which themselves refer to it.
	Unnamed bool
	// Aftermath is what the update leaves to do about machines that run; nil where none
	// does, and where nothing changes.
	Aftermath *Aftermath
	// Risks are what in the plan deserves a second look before it is carried out. The Rule
	// of each is a code that stays: pod-network-changed, data-deleted and so on.
	Risks finding.List
	// Objects are the URLs of files of a store that a deletion removes.
	Objects []string

	// KeysMade says that UpdateOptions.KeepKeys has made keys.
	KeysMade bool

	// modelled is what was planned or rendered; nil for a deletion.
	modelled *pipeline.Modelled
	options  UpdateOptions
}

// errNoUpdate refuses to make of a deletion, or of rendered files, what only the plan of
// an update can be made into.
var errNoUpdate = errors.New("this is not the plan of an update")

// Summary says in a sentence what was applied or, after a preview, what would be.
func (u *Update) Summary() string {
	switch {
	case u.Plan.Empty():
		return "No changes need to be applied"
	case !u.options.Apply:
		return "Would be applied: " + u.Plan.made.Summary().Applied()
	}
	return "Applied: " + u.Plan.made.Summary().Applied()
}

// Starts reports whether the plan makes the machines of the control plane: none
// were there, and some are made.
func (u *Update) Starts() bool {
	made, m := false, u.modelled
	if m == nil || u.Plan == nil {
		return false
	}
	for _, s := range u.Plan.made.Steps {
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

// makesKeys reports whether the plan makes keys or other random secrets. They are
// made anew in every plan, so that no second plan equals this one.
func (u *Update) makesKeys() bool {
	return slices.ContainsFunc(u.Plan.made.Steps, func(s plan.Step) bool {
		return s.Op == plan.Create && (s.Address.Kind == managedfile.Keyset.Name || s.Address.Kind == managedfile.Secret.Name)
	})
}

// Update plans what the cluster needs in its cloud, and with Apply carries the
// plan out, while it holds the cluster's lease.
func (c *Client) Update(ctx context.Context, name string, o UpdateOptions) (*Update, error) {
	o = o.asPlanned()
	o.prefetch = &sync.WaitGroup{}
	defer o.prefetch.Wait()
	ctx, cancel := context.WithCancel(ctx) // what is asked ahead is of no use afterwards
	defer cancel()
	told := &call{cluster: name, on: o.On}
	if !o.Apply {
		return c.preview(ctx, told, o)
	}
	var u *Update
	err := c.leased(ctx, told, func(ctx context.Context, lease *clusterstore.Lease) error {
		m, err := c.modelled(ctx, told, o)
		if err != nil {
			return err
		}
		made, p, err := planned(ctx, told, m, o)
		if err == nil {
			err = shown(told, made)
		}
		if err != nil {
			return err
		}
		u = made
		p.Prepare = func(ctx context.Context) error { return c.seats(ctx, m, o) }
		if o.Prune {
			return c.pruned(ctx, told, lease, m, p)
		}
		return apply(ctx, told, lease, p, "apply")
	})
	return u, err
}

// preview plans an update, and makes the keys that a saved plan relies on.
func (c *Client) preview(ctx context.Context, told *call, o UpdateOptions) (*Update, error) {
	compared := func() (*Update, error) {
		m, err := c.modelled(ctx, told, o)
		if err != nil {
			return nil, err
		}
		u, _, err := planned(ctx, told, m, o)
		return u, err
	}
	u, err := compared()
	if err == nil && o.KeepKeys && u.makesKeys() {
		if err := c.makeKeys(ctx, told, o); err != nil {
			return nil, fmt.Errorf("create the keys that the plan needs: %w", err)
		}
		if u, err = compared(); err == nil {
			u.KeysMade = true
		}
	}
	if err != nil {
		return nil, err
	}
	return u, shown(told, u)
}

// modelled takes a cluster through completion, validation and the model.
func (c *Client) modelled(ctx context.Context, told *call, o UpdateOptions) (*pipeline.Modelled, error) {
	cl, err := c.loaded(ctx, told)
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
	if err := told.phase("look up"); err != nil {
		return nil, err
	}
	g, err := opened.Gather(ctx, pipeline.GatherOptions{Facts: o.Facts.known(), IgnoreSkew: o.IgnoreSkew, Prefetch: o.prefetch})
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
	if err := told.phase("model"); err != nil {
		return nil, err
	}
	m, err := g.Model(ctx, done, pipeline.ModelOptions{AllowUnverified: o.AllowUnverified, Written: o.Apply || o.target == pipeline.Terraform})
	if err != nil {
		return nil, err
	}
	return m.Limit(pipeline.LimitOptions{Apply: o.Apply, Phase: o.Phase, Lifecycles: o.Lifecycles, Groups: o.Groups, Roles: o.Roles})
}

// planned observes the world and makes the plan, which is the saved one where one is given.
func planned(ctx context.Context, told *call, m *pipeline.Modelled, o UpdateOptions) (*Update, *pipeline.Planned, error) {
	if err := told.phase("observe"); err != nil {
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
	u := &Update{Facts: &Facts{m.Model.Facts}, Plan: newPlan(p.Plan), Warnings: m.Warnings, modelled: m, options: o}
	var machines []stale.Machine
	u.Aftermath, machines = aftermath(ctx, p, m, o)
	if u.Risks, err = p.Risks(ctx, machines); err != nil {
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

// shown tells a plan, after all that was done to make it.
func shown(told *call, u *Update) error {
	if err := told.phase(""); err != nil {
		return err
	}
	return told.plan(u)
}

// Terraform renders the cluster's resources as Terraform configuration. Data that does not
// belong there, such as key material, is written to the state store.
func (c *Client) Terraform(ctx context.Context, name string, o UpdateOptions) (*Update, error) {
	var u *Update
	o.target = pipeline.Terraform
	told := &call{cluster: name, on: o.On}
	err := c.leased(ctx, told, func(ctx context.Context, lease *clusterstore.Lease) error {
		m, err := c.modelled(ctx, told, o)
		if err != nil {
			return err
		}
		doc, err := m.Provider.Terraform(m.Model, m.Graph)
		if err != nil {
			return err
		}
		u = &Update{Facts: &Facts{m.Model.Facts}, Warnings: m.Warnings, Unnamed: m.Model.Cluster.Spec.DNSType() == api.DNSNone, modelled: m, options: o}
		if u.Files, err = terraform.Render(doc); err != nil {
			return err
		}
		kinds := direct(m.Kinds)
		if c.cfg.Offline {
			kinds = managedfile.Direct()
			u.Warnings = append(slices.Clone(u.Warnings), unwritten(m, kinds)...)
		}
		if err := m.KeepConfigs(ctx); err != nil {
			return err
		}
		if err := c.seats(ctx, m, o); err != nil {
			return err
		}
		return applyOnly(ctx, told, lease, m, kinds, false)
	})
	return u, err
}

// direct lists the kinds that are never part of Terraform's configuration.
func direct(kinds []resource.Any) []resource.Any {
	return slices.DeleteFunc(slices.Clone(kinds), func(k resource.Any) bool { return !k.KindDirect() })
}

// unwritten warns of what neither Terraform makes nor this program, which asks no platform.
func unwritten(m *pipeline.Modelled, kinds []resource.Any) finding.List {
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

// loaded reads the cluster of a call.
func (c *Client) loaded(ctx context.Context, told *call) (*Cluster, error) {
	if err := told.phase("read"); err != nil {
		return nil, err
	}
	return c.Clusters().Get(ctx, told.cluster)
}

// leased runs f while this process holds the cluster's lease. When the lease is
// lost, the context that f gets ends.
func (c *Client) leased(ctx context.Context, told *call, f func(context.Context, *clusterstore.Lease) error) (err error) {
	held, lease, err := c.store.Acquire(ctx, told.cluster, c.holder(), told.watch)
	if other := (*clusterstore.Held)(nil); errors.As(err, &other) {
		return &Refused{err}
	}
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, lease.Release(context.WithoutCancel(ctx)), told.tell(Event{Kind: EventReleased}))
	}()
	if err := told.tell(Event{Kind: EventLeased}); err != nil {
		return err
	}
	return f(held, lease)
}

// apply carries out a plan, in the named phase, and records what came of it.
func apply(ctx context.Context, told *call, lease *clusterstore.Lease, p *pipeline.Planned, phase string) error {
	if p.Plan.Empty() {
		return nil
	}
	if err := told.phase(phase); err != nil {
		return err
	}
	return told.steps(ctx, func(ctx context.Context, report func(exec.Event)) error { return p.Apply(ctx, lease, report) })
}

// applyOnly carries out what is to do about some kinds of files, aside from an update or
// as its part in the store.
func applyOnly(ctx context.Context, told *call, lease *clusterstore.Lease, m *pipeline.Modelled, kinds []resource.Any, aside bool) error {
	have, err := m.Only(kinds).Observe(ctx, false)
	if err != nil {
		return err
	}
	p, err := have.Plan(false)
	if err != nil {
		return err
	}
	p.Aside = aside
	return apply(ctx, told, lease, p, "write")
}
