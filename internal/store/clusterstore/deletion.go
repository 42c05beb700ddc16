package clusterstore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
)

// Deletion is everything that a store holds of one cluster. Make one with Store.Deletion.
type Deletion struct {
	// URLs are the objects that are deleted, in the order in which they are.
	URLs []string

	s        *Store
	cluster  string
	contents *Contents
	steps    []deletionStep
}

// deletionStep is a set of objects that are deleted together.
type deletionStep struct {
	store store.Store
	keys  []string
}

// Deletion looks for what there is to delete, and refuses, before anything is
// removed, when a folder of the cluster holds a file that is not known. A bucket that
// does not exist holds nothing.
func (s *Store) Deletion(ctx context.Context, c *Contents) (*Deletion, error) {
	f, err := s.Folders(ctx, c.Spec, nil)
	if err != nil {
		return nil, err
	}
	name, spec := c.Spec.Name, c.Spec.Spec
	d := &Deletion{s: s, cluster: name, contents: c}
	if i := spec.ServiceAccountIssuerDiscovery; i != nil && i.DiscoveryStore != "" {
		if err := d.addDiscovery(ctx, orElse(i.DiscoveryStore, "")); err != nil {
			return nil, err
		}
	}
	if f.Secrets.outside(f.Base, f.state) {
		err = d.addFolder(ctx, f.Secrets, func(key string) bool { return secretName(key) != "" })
	}
	if err == nil && f.Keys.outside(f.Base, f.state) {
		err = d.addFolder(ctx, f.Keys, layout.IsKnownPKI)
	}
	known := func(folder Folder) func(string) bool {
		return func(key string) bool { return layout.IsKnown(key) || f.below(folder, key) }
	}
	if err == nil && f.Base.Store != nil && !f.Base.Same(f.state) {
		err = d.addFolder(ctx, f.Base, known(f.Base))
	}
	if err == nil {
		err = d.addFolder(ctx, f.state, known(f.state), layout.Config)
	}
	if err == nil {
		err = d.addFolder(ctx, f.own, func(string) bool { return true }, leaseKey)
	}
	d.URLs = append(d.URLs, store.URL(f.state.Store, layout.Config))
	return d, err
}

// outside reports that a folder is in none of the others.
func (f Folder) outside(others ...Folder) bool {
	return !slices.ContainsFunc(others, func(o Folder) bool {
		return o.tree != nil && o.tree == f.tree && strings.HasPrefix(f.prefix, o.prefix)
	})
}

// below says whether an object of a folder is in another of the cluster's folders, which stands in that one.
func (f *Folders) below(folder Folder, key string) bool {
	return slices.ContainsFunc([]Folder{f.Base, f.Keys, f.Secrets}, func(o Folder) bool {
		return o.tree == folder.tree && len(o.prefix) > len(folder.prefix) && strings.HasPrefix(folder.prefix+key, o.prefix)
	})
}

// add appends a step.
func (d *Deletion) add(s store.Store, keys ...string) {
	if len(keys) == 0 {
		return
	}
	d.steps = append(d.steps, deletionStep{s, keys})
	for _, k := range keys {
		d.URLs = append(d.URLs, store.URL(s, k))
	}
}

// addFolder appends all that is in a folder, but for what goes later.
func (d *Deletion) addFolder(ctx context.Context, f Folder, known func(key string) bool, later ...string) error {
	listing, err := f.Listing(ctx)
	if store.IsMissing(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list the files of cluster %s: %w", d.cluster, err)
	}
	var keys []string
	for _, info := range listing {
		if !known(info.Key) && info.Key != store.ProofKey {
			return fault.Wrap(fault.Permanent, fmt.Errorf("refusing to delete: unknown file found: %s", store.URL(f.Store, info.Key)),
				"look at the file, and move it away if it is not needed; then delete the cluster again")
		}
		if !slices.Contains(later, info.Key) {
			keys = append(keys, info.Key)
		}
	}
	d.add(f.Store, keys...)
	return nil
}

// addDiscovery appends the two public documents of the service account issuer.
func (d *Deletion) addDiscovery(ctx context.Context, url string) error {
	t, err := d.s.open(ctx, url)
	if err != nil || t == nil {
		return err
	}
	for _, key := range []string{layout.OpenIDConfiguration, layout.WebKeys} {
		listing, err := collect(ctx, t.store, key)
		if store.IsMissing(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list the files of cluster %s: spec.serviceAccountIssuerDiscovery.discoveryStore: %w", d.cluster, err)
		}
		if slices.ContainsFunc(listing, func(i store.Info) bool { return i.Key == key }) {
			d.add(t.store, key)
		}
	}
	return nil
}

// Run deletes everything, and with the last request the config, and the lease under
// which it is done. So a run that is cut off anywhere can be repeated.
//
// It looks twice: a machine that still ran may have written until the first look. After that,
// machines find that the cluster is deleted, and create nothing (etcd.Guard).
func (d *Deletion) Run(ctx context.Context, lease *Lease) error {
	if err := d.runSteps(ctx, lease); err != nil {
		return err
	}
	d.s.forget(ctx, d.cluster)
	if ctx.Err() != nil {
		return context.Cause(ctx) // the lease may be another's
	}
	late, err := d.s.Deletion(ctx, d.contents)
	if err == nil {
		err = late.runSteps(ctx, lease)
	}
	if err != nil {
		return err
	}
	return lease.discard(ctx, d.cluster+"/"+layout.Config)
}

// runSteps deletes everything but the config and the lease.
func (d *Deletion) runSteps(ctx context.Context, lease *Lease) error {
	if err := lease.Check(ctx); err != nil {
		return err
	}
	for _, step := range d.steps {
		if err := store.DeleteAll(ctx, step.store, step.keys); err != nil {
			return fmt.Errorf("delete the files of cluster %s: %w", d.cluster, err)
		}
	}
	return nil
}
