package kops

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/render/terraform"
	"kops.local/kops/internal/model/managedfile"
	"kops.local/kops/internal/spec/diag"
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
	// Plan, when set, refuses every plan but this one.
	Plan *SavedPlan
	// KeepKeys makes the keys that the cluster lacks before it is planned, and stores
	// them, so that the plan can be saved: no second plan would make the same keys.
	KeepKeys bool
	// Facts, when set, are taken instead of looking up.
	Facts *Facts
	// Planned is called with the plan before anything is done; an error stops the update.
	Planned func(*Update) error

	// target is what the graph is made into: "terraform", or the platform itself.
	target string
	// ahead, when not nil, says that the platform is observed once the graph is made,
	// and counts what asks it before then.
	ahead *sync.WaitGroup
}

// Update is what an update came to.
type Update struct {
	Facts    *Facts
	Plan     *Plan
	Warnings diag.List
	// Files are those of a target that writes files, by path.
	Files map[string][]byte
	// Objects are the URLs of files of a store that a deletion removes.
	Objects []string

	// KeysMade says that UpdateOptions.KeepKeys has made keys.
	KeysMade bool

	prepared *prepared
	options  UpdateOptions
}

// Summary says in a sentence what was applied.
func (u *Update) Summary() string {
	if u.Plan.Empty() {
		return "No changes need to be applied"
	}
	return "Applied: " + u.Plan.Summary().Applied()
}

// Starts reports whether the plan makes the machines of the control plane: none
// were there, and some are made.
func (u *Update) Starts() bool {
	made, p := false, u.prepared
	if p == nil || p.provider.GroupOf == nil {
		return false
	}
	for _, s := range u.Plan.Steps {
		n, wanted := p.graph.Get(s.Address)
		if !wanted {
			continue
		}
		if g := p.cluster.Group(p.provider.GroupOf(n)); g != nil && g.IsControlPlane() {
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
	return slices.ContainsFunc(u.Plan.Steps, func(s plan.Step) bool {
		return s.Op == plan.Create && (s.Address.Kind == managedfile.Keyset.Name || s.Address.Kind == managedfile.Secret.Name)
	})
}

// Update plans what the cluster needs in its cloud, and with Apply carries the
// plan out, while it holds the cluster's lease.
func (c *Client) Update(ctx context.Context, name string, o UpdateOptions) (*Update, error) {
	o.ahead = &sync.WaitGroup{}
	defer o.ahead.Wait()
	ctx, cancel := context.WithCancel(ctx) // what is asked ahead is of no use afterwards
	defer cancel()
	if !o.Apply {
		return c.preview(ctx, name, o)
	}
	var u *Update
	err := c.leased(ctx, name, func(ctx context.Context, lease *clusterstore.Lease) error {
		p, err := c.prepare(ctx, name, o)
		if err != nil {
			return err
		}
		if u, err = p.planned(ctx, c, o); err != nil {
			return err
		}
		return c.apply(ctx, lease, p, u.Plan, "apply")
	})
	return u, err
}

// preview plans an update, and makes the keys that a saved plan relies on.
func (c *Client) preview(ctx context.Context, name string, o UpdateOptions) (*Update, error) {
	compared := func() (*Update, error) {
		p, err := c.prepare(ctx, name, o)
		if err != nil {
			return nil, err
		}
		return p.compared(ctx, c, o)
	}
	u, err := compared()
	if err == nil && o.KeepKeys && u.makesKeys() {
		if err := c.makeKeys(ctx, name, o); err != nil {
			return nil, fmt.Errorf("make the keys that the plan relies on: %w", err)
		}
		if u, err = compared(); err == nil {
			u.KeysMade = true
		}
	}
	if err != nil {
		return nil, err
	}
	return u, u.tell()
}

// planned observes the world, makes the plan and tells it.
func (p *prepared) planned(ctx context.Context, c *Client, o UpdateOptions) (*Update, error) {
	u, err := p.compared(ctx, c, o)
	if err == nil {
		err = u.tell()
	}
	if err != nil {
		return nil, err
	}
	return u, nil
}

// compared observes the world and makes the plan.
func (p *prepared) compared(ctx context.Context, c *Client, o UpdateOptions) (*Update, error) {
	c.cfg.Phase("observe")
	have, err := p.snapshot(ctx, false)
	if err != nil {
		return nil, err
	}
	made, err := plan.Make(p.graph, have, p.kinds, plan.Options{Prune: o.Prune, Scope: p.scope})
	if err != nil {
		return nil, err
	}
	u := &Update{Facts: p.facts, Plan: made, Warnings: p.warnings, prepared: p, options: o}
	if o.Plan == nil {
		return u, nil
	}
	now, err := u.Saved()
	if err == nil {
		err = o.Plan.check(now)
	}
	return u, err
}

// tell hands the plan to who asked for it.
func (u *Update) tell() error {
	u.prepared.client.cfg.Phase("")
	if u.options.Planned == nil {
		return nil
	}
	return u.options.Planned(u)
}

// Terraform renders what the cluster needs as Terraform configuration. What
// Terraform cannot hold, such as key material, is written to the state store.
func (c *Client) Terraform(ctx context.Context, name string, o UpdateOptions) (*Update, error) {
	var u *Update
	o.target = "terraform"
	err := c.leased(ctx, name, func(ctx context.Context, lease *clusterstore.Lease) error {
		p, err := c.prepare(ctx, name, o)
		if err != nil {
			return err
		}
		doc, err := p.provider.Terraform(p.model, p.graph)
		if err != nil {
			return err
		}
		u = &Update{Facts: p.facts, Warnings: p.warnings}
		if u.Files, err = terraform.Render(doc); err != nil {
			return err
		}
		return c.applyDirect(ctx, lease, p)
	})
	return u, err
}
