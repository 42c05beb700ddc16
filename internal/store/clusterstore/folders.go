package clusterstore

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/store"
)

// Folders are the locations of one cluster's files. The spec may put them anywhere.
//
// Keysets and secrets are read from where the spec says, and keysets that are missing
// there from the state store's <cluster>/pki. They are written to where the spec says,
// or, if that store cannot be reached (Config.Offline), to their place in the state
// store; Unreached is then set. SSH keys are read from both and written to the state store.
type Folders struct {
	// Base is the folder of the managed files.
	Base Folder
	// Keys and Secrets are where keysets and secrets are written, and read first.
	Keys, Secrets Folder
	// Unreached is where the spec has the keysets or the secrets, if that cannot be reached; otherwise empty.
	Unreached string
	// state is <state>/<cluster>, and statePKI its folder pki; they may be the same as Base and Keys.
	state, statePKI Folder
	own             Folder // ours, with lease and revisions

	s       *Store
	cluster *api.Cluster
}

// Folder is a part of some store.
type Folder struct {
	// URL is its address, without a final slash.
	URL string
	// Store contains its objects; nil if it cannot be reached (Config.Offline).
	Store store.Store

	tree   *tree
	prefix string // of its keys in the tree; empty, or with a final slash
}

// Listing lists the folder. Folders inside one another share one listing, which is
// kept until something is written through Folders.
func (f Folder) Listing(ctx context.Context) ([]store.Info, error) {
	if f.tree == nil {
		return nil, nil
	}
	all, err := f.tree.list(ctx)
	if err != nil {
		return nil, err
	}
	var out []store.Info
	for _, info := range all {
		if key, ok := strings.CutPrefix(info.Key, f.prefix); ok {
			info.Key = key
			out = append(out, info)
		}
	}
	return out, nil
}

// Equal reports whether two folders are the same.
func (f Folder) Equal(o Folder) bool { return f.tree == o.tree && f.prefix == o.prefix }

// tree is the root of one or more folders, with its cached listing.
type tree struct {
	url   string
	store store.Store

	mu      sync.Mutex
	listed  bool
	listing []store.Info
}

func (t *tree) list(ctx context.Context) ([]store.Info, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.listed {
		all, err := collect(ctx, t.store, "")
		if err != nil {
			return nil, err
		}
		t.listing, t.listed = all, true
	}
	return t.listing, nil
}

// invalidate discards the tree's listing.
func (t *tree) invalidate() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.listed, t.listing = false, nil
}

// folder returns the folder at a URL within the tree.
func (t *tree) folder(url string) (Folder, bool) {
	rest, ok := strings.CutPrefix(url+"/", t.url+"/")
	if !ok {
		return Folder{}, false
	}
	return Folder{URL: url, Store: store.Sub(t.store, rest), tree: t, prefix: rest}, true
}

// Folders returns the folders of a cluster. known are contents returned by Load or
// Save, whose listing is then used; or nil. It opens the stores named in the spec,
// but makes no requests itself.
func (s *Store) Folders(ctx context.Context, c *api.Cluster, known *Contents) (*Folders, error) {
	if err := checkName(c.Name); err != nil {
		return nil, err
	}
	own := &tree{url: s.folder(c.Name).About().URL, store: s.folder(c.Name)}
	if known != nil && known.listing != nil {
		own.listing, own.listed = known.listing, true
	}
	f := Folders{s: s, cluster: c}
	f.state, _ = own.folder(own.url)
	f.statePKI, _ = own.folder(own.url + "/" + layout.PKI)
	ours := &tree{url: s.privateFolder(c.Name).About().URL, store: s.privateFolder(c.Name)}
	f.own, _ = ours.folder(ours.url)
	trees := []*tree{own}
	find := func(field, url string) (Folder, error) {
		for _, t := range trees {
			if folder, ok := t.folder(url); ok {
				return folder, nil
			}
		}
		t, err := s.open(ctx, url)
		if err != nil {
			return Folder{}, fmt.Errorf("cluster %s: open %s: %w", c.Name, field, err)
		}
		if t == nil {
			return Folder{URL: url}, nil
		}
		trees = append(trees, t)
		folder, _ := t.folder(url)
		return folder, nil
	}
	var err error
	spec := c.Spec.ConfigStore
	if f.Base, err = find("spec.configStore.base", urlOr(spec.Base, own.url)); err != nil {
		return nil, err
	}
	if f.Keys, err = find("spec.configStore.keypairs", urlOr(spec.Keypairs, f.Base.URL+"/"+layout.PKI)); err != nil {
		return nil, err
	}
	if f.Secrets, err = find("spec.configStore.secrets", urlOr(spec.Secrets, f.Base.URL+"/"+layout.Secrets)); err != nil {
		return nil, err
	}
	if f.Keys.Store == nil {
		f.Unreached, f.Keys = f.Keys.URL, f.statePKI
	}
	if f.Secrets.Store == nil {
		f.Unreached = cmp.Or(f.Unreached, f.Secrets.URL)
		f.Secrets, _ = own.folder(own.url + "/" + layout.Secrets)
	}
	return &f, nil
}

// open opens a store that a spec names: as a part of the state store if it is inside
// it; nil if the state store is local, offline, and this one is not.
func (s *Store) open(ctx context.Context, url string) (*tree, error) {
	if rest, ok := strings.CutPrefix(url, s.URL()+"/"); ok {
		return &tree{url: url, store: store.Sub(s.cfg.State, rest)}, nil
	}
	if s.cfg.Offline && isLocal(s.URL()) && !isLocal(url) {
		return nil, nil
	}
	opened, err := s.cfg.Backends.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	return &tree{url: url, store: opened}, nil
}

// isLocal reports whether a store can be reached without a network.
func isLocal(url string) bool {
	return store.IsFolder(url) || strings.HasPrefix(url, "memory://") || strings.HasPrefix(url, "memfs://")
}

// urlOr returns a URL without its final slash, or other if it is empty.
func urlOr(url, other string) string {
	if url == "" {
		return other
	}
	return strings.TrimSuffix(url, "/")
}
