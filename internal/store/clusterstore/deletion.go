package clusterstore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/store"
)

// Deletion lists everything that a store holds of one cluster. Create one with Store.Deletion.
type Deletion struct {
	// URLs are the objects to delete, in the order of their deletion.
	URLs []string
	// Kept are warnings about the folders that are kept, because they belong to another cluster.
	Kept diag.List

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

// Deletion collects the objects to delete. It returns an error, before anything is removed, if a
// folder of the cluster contains an unknown file. A bucket that does not exist contains nothing, and
// a folder of another cluster is kept.
func (s *Store) Deletion(ctx context.Context, c *Contents) (*Deletion, error) {
	f, err := s.Folders(ctx, c.Spec, nil)
	if err != nil {
		return nil, err
	}
	name, spec := c.Spec.Name, c.Spec.Spec
	d := &Deletion{s: s, cluster: name, contents: c}
	claims, err := f.claims(ctx, true)
	if err != nil {
		return nil, err
	}
	for _, c := range claims {
		d.Kept = append(d.Kept, diag.Finding{Object: api.Name(f.cluster), Path: c.field, Value: c.url, Rule: "owned-folder", Warning: true,
			Message: "is kept, because it " + c.why, Remedy: "if it has files of cluster " + name + ", delete them yourself"})
	}
	isKept := func(field string) bool {
		return slices.ContainsFunc(claims, func(c claim) bool { return c.field == field })
	}
	if i := spec.ServiceAccountIssuerDiscovery; i != nil && i.DiscoveryStore != "" && !isKept(discoveryStore) {
		if err := d.addDiscovery(ctx, urlOr(i.DiscoveryStore, "")); err != nil {
			return nil, err
		}
	}
	if f.Secrets.isOutside(f.Base, f.state) && !isKept(secretStore) {
		err = d.addFolder(ctx, f.Secrets, func(key string) bool { return secretName(key) != "" })
	}
	if err == nil && f.Keys.isOutside(f.Base, f.state) && !isKept(keyStore) {
		err = d.addFolder(ctx, f.Keys, layout.IsKnownPKI)
	}
	known := func(folder Folder) func(string) bool {
		return func(key string) bool { return layout.IsKnown(key) || f.isInNestedFolder(folder, key) }
	}
	if err == nil && f.Base.Store != nil && !f.Base.Equal(f.state) && !isKept(configBase) {
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

// isOutside reports whether a folder is in none of the others.
func (f Folder) isOutside(others ...Folder) bool {
	return !slices.ContainsFunc(others, func(o Folder) bool {
		return o.tree != nil && o.tree == f.tree && strings.HasPrefix(f.prefix, o.prefix)
	})
}

// isInNestedFolder reports whether an object of a folder belongs to another of the cluster's folders, inside that one.
func (f *Folders) isInNestedFolder(folder Folder, key string) bool {
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

// addFolder appends everything in a folder, except what is deleted later.
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
				"check the file, and move it away if it is not needed; then delete the cluster again")
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
			return fmt.Errorf("list the files of cluster %s: %s: %w", d.cluster, discoveryStore, err)
		}
		if slices.ContainsFunc(listing, func(i store.Info) bool { return i.Key == key }) {
			d.add(t.store, key)
		}
	}
	return nil
}

// Run deletes everything; the last request deletes the config, together with the lease that
// Run holds. So a run that is interrupted anywhere can be repeated.
//
// It lists the objects twice: a machine that still ran may have written until the first listing.
// After that, machines find that the cluster is deleted, and create nothing (etcd.Guard).
func (d *Deletion) Run(ctx context.Context, lease *Lease) error {
	if err := d.runSteps(ctx, lease); err != nil {
		return err
	}
	d.s.deleteCache(ctx, d.cluster)
	if ctx.Err() != nil {
		return context.Cause(ctx) // another process may hold the lease
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

// runSteps deletes everything except the config and the lease.
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
