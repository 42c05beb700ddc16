package clusterstore

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/store"
)

// Folders are where the files of one cluster are. The spec may put them anywhere.
//
// Keysets and secrets are read from where the spec says, and keysets, when absent
// there, from the state store's <cluster>/pki. They are written to where the spec
// says, or, when that store cannot be reached (Config.Offline), to their place in the
// state store. SSH keys are read from both and written to the state store.
type Folders struct {
	// Base is the folder of the managed files.
	Base Folder
	// Keys and Secrets are where keysets and secrets are written, and read first.
	Keys, Secrets Folder
	// state is <state>/<cluster>, and statePKI its folder pki; they may be the same as Base and Keys.
	state, statePKI Folder
	own             Folder // ours, with lease and revisions
}

// Folder is a part of some store.
type Folder struct {
	// URL is its address, without a final slash.
	URL string
	// Store holds its objects; nil when it cannot be reached (Config.Offline).
	Store store.Store

	tree   *tree
	prefix string // of its keys in the tree; empty, or ends in a slash
}

// Listing lists the folder. Folders below one another share one listing, which is
// made once and remembered until something is written through Folders.
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

// Same reports whether two folders are one.
func (f Folder) Same(o Folder) bool { return f.tree == o.tree && f.prefix == o.prefix }

// tree is the root of one or more folders, with its remembered listing.
type tree struct {
	url   string
	store store.Store

	mu      sync.Mutex
	known   bool
	listing []store.Info
}

func (t *tree) list(ctx context.Context) ([]store.Info, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.known {
		all, err := collect(ctx, t.store, "")
		if err != nil {
			return nil, err
		}
		t.listing, t.known = all, true
	}
	return t.listing, nil
}

// changed makes the tree forget its listing.
func (t *tree) changed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known, t.listing = false, nil
}

// at is the folder at a URL within the tree.
func (t *tree) at(url string) (Folder, bool) {
	rest, ok := strings.CutPrefix(url+"/", t.url+"/")
	if !ok {
		return Folder{}, false
	}
	return Folder{URL: url, Store: store.Sub(t.store, rest), tree: t, prefix: rest}, true
}

// Folders finds the folders of a cluster. known are contents that Load or Save
// returned, whose listing is then used; or nil. It opens the stores that the spec
// names, and makes no request of its own.
func (s *Store) Folders(ctx context.Context, c *api.Cluster, known *Contents) (*Folders, error) {
	if err := checkName(c.Name); err != nil {
		return nil, err
	}
	own := &tree{url: s.folder(c.Name).About().URL, store: s.folder(c.Name)}
	if known != nil && known.listing != nil {
		own.listing, own.known = known.listing, true
	}
	var f Folders
	f.state, _ = own.at(own.url)
	f.statePKI, _ = own.at(own.url + "/" + layout.PKI)
	ours := &tree{url: s.own(c.Name).About().URL, store: s.own(c.Name)}
	f.own, _ = ours.at(ours.url)
	trees := []*tree{own}
	find := func(field, url string) (Folder, error) {
		for _, t := range trees {
			if folder, ok := t.at(url); ok {
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
		folder, _ := t.at(url)
		return folder, nil
	}
	var err error
	spec := c.Spec.ConfigStore
	if f.Base, err = find("spec.configStore.base", orElse(spec.Base, own.url)); err != nil {
		return nil, err
	}
	if f.Keys, err = find("spec.configStore.keypairs", orElse(spec.Keypairs, f.Base.URL+"/"+layout.PKI)); err != nil {
		return nil, err
	}
	if f.Secrets, err = find("spec.configStore.secrets", orElse(spec.Secrets, f.Base.URL+"/"+layout.Secrets)); err != nil {
		return nil, err
	}
	if f.Keys.Store == nil {
		f.Keys = f.statePKI
	}
	if f.Secrets.Store == nil {
		f.Secrets, _ = own.at(own.url + "/" + layout.Secrets)
	}
	return &f, nil
}

// open opens a store that a spec names: a part of the state store where it is
// one, nothing when the store is offline and it is another, unless that is a folder.
func (s *Store) open(ctx context.Context, url string) (*tree, error) {
	if rest, ok := strings.CutPrefix(url, s.URL()+"/"); ok {
		return &tree{url: url, store: store.Sub(s.cfg.State, rest)}, nil
	}
	if s.cfg.Offline && !store.IsFolder(url) {
		return nil, nil
	}
	opened, err := s.cfg.Backends.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	return &tree{url: url, store: opened}, nil
}

// orElse is a URL without its final slash, or the other when it is empty.
func orElse(url, other string) string {
	if url == "" {
		return other
	}
	return strings.TrimSuffix(url, "/")
}
