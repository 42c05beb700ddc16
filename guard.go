package kops

import (
	"context"
	"errors"
	"slices"
	"strings"

	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/pipeline"
	"kops.local/kops/internal/spec/validate"
	"kops.local/kops/internal/spec/versions"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/clusterstore"
)

// AppliedVersion returns the version of the program that last applied a cluster.
func (c *Client) AppliedVersion(ctx context.Context, cluster string) (string, error) {
	f, err := c.folders(ctx, cluster)
	if err != nil {
		return "", err
	}
	data, _, err := f.Base.Store.Get(ctx, layout.Version)
	if fault.Is(err, fault.Gone) {
		return "", fault.New(fault.Gone, "cluster %s was never applied", cluster)
	}
	return strings.TrimSpace(string(data)), err
}

// Refused is the error of a guard. The request is valid, but now, or with this program, it
// must not be carried out; Err is the reason, and the remedy.
type Refused struct{ Err error }

func (r *Refused) Error() string { return r.Err.Error() }

// Unwrap returns the guard's error.
func (r *Refused) Unwrap() error { return r.Err }

// guard refuses an update that another version of this program must do.
func guard(g *pipeline.Gathered, done *pipeline.Completed, o UpdateOptions) (*pipeline.Completed, error) {
	if o.Prune && (o.Phase != "" || len(o.Groups)+len(o.Roles)+len(o.Lifecycles) > 0) {
		return nil, errors.New("option:Prune needs the whole cluster; it cannot be combined with option:Phase, option:Groups, option:Roles or option:Lifecycles")
	}
	guarded, err := g.Guard(done, o.AllowDowngrade)
	if err != nil {
		return nil, &Refused{err}
	}
	return guarded, nil
}

// guardNew refuses the description of a new cluster that no update would then create.
func (c *Client) guardNew(kubernetes string, ch *versions.Channel) error {
	err := validate.Guard(validate.Versions{Kops: c.cfg.Version, Kubernetes: kubernetes, Channel: ch, New: true,
		RunObsolete: c.cfg.RunObsolete, RunTooNew: c.cfg.RunTooNew}).Err()
	if err != nil {
		return &Refused{err}
	}
	return nil
}

// guardChange refuses a change to a version of Kubernetes that no update would apply.
func (c *Client) guardChange(ctx context.Context, ch *change) error {
	spec := ch.now.Spec.Spec
	if ch.stored != nil && ch.stored.Spec.Spec.KubernetesVersion == spec.KubernetesVersion {
		return nil
	}
	known, err := c.world.Channel(ctx, spec.Channel)
	if err != nil {
		known = nil // the update warns about it
	}
	return refuseVersion(validate.Versions{Kops: c.cfg.Version, Kubernetes: spec.KubernetesVersion, Channel: known,
		RunObsolete: c.cfg.RunObsolete, RunTooNew: c.cfg.RunTooNew})
}

// ownedFolders returns the folders of a cluster, and refuses those that belong to another one.
func (c *Client) ownedFolders(ctx context.Context, cl *Cluster) (*clusterstore.Folders, error) {
	f, err := c.store.Folders(ctx, cl.Spec, cl.stored())
	if err == nil {
		err = f.CheckOwned(ctx, true)
	}
	return f, err
}

// hasVersion reports whether a cluster's folder contains the version that applied it.
func hasVersion(ctx context.Context, f clusterstore.Folder) (bool, error) {
	listing, err := f.Listing(ctx)
	return slices.ContainsFunc(listing, func(i store.Info) bool { return i.Key == layout.Version }), err
}

// wasApplied reports whether a cluster was ever applied, according to its store.
func (c *Client) wasApplied(ctx context.Context, cl *Cluster) (bool, error) {
	f, err := c.store.Folders(ctx, cl.Spec, cl.stored())
	if err != nil || f.Base.Store == nil || !pipeline.Below(f.Base.URL, c.store.URL()) {
		return false, err
	}
	return hasVersion(ctx, f.Base)
}
