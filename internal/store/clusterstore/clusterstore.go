// Package clusterstore is the typed view of a state store: clusters with their
// groups, keysets, secrets and SSH keys in kOps' layout, and, in a folder of our
// own beside it, the lease of each cluster, its revisions, and a pack of its
// documents that makes reading cheap.
//
// It must not know the engine, any cloud, what a valid spec is, or the command
// line. Reading never locks and never writes to the store.
package clusterstore

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/engine/clock"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
)

// The layout below ownFolder/<cluster>/, which is ours.
const (
	ownFolder       = ".kops/"
	leaseKey        = "lease"
	packKey         = "pack"
	revisionsFolder = "revisions/"
	configsFolder   = "nodeconfigs/"
)

// parallel is how many requests to the store one call has in flight.
const parallel = 32

// Config is what a Store needs of the world. State and Now are required.
type Config struct {
	// State is the state store.
	State store.Store
	// Backends open the other stores that a cluster's spec may name.
	Backends store.Backends
	// Offline says that only State and folders can be reached: what belongs to another
	// store is then read from, and written to, its place in State.
	Offline bool
	// Cache is a folder for copies of documents, made when needed; empty means none.
	Cache string
	// Version is this program's, for revisions.
	Version string
	// Now tells the time.
	Now func() time.Time
	// Sleep waits, and returns an error when ctx ends first; nil waits for real.
	Sleep func(ctx context.Context, d time.Duration) error
	// Random makes leases unique; nil is the system's.
	Random io.Reader
	// Gone reports that a process, by its Holder.Process, has certainly ended, so that
	// its lease may be taken at once; nil means that nothing is known of processes.
	Gone func(process string) bool
}

// Store is a state store. It is safe for concurrent use.
type Store struct {
	cfg   Config
	cache store.Store // nil without one
}

// Open returns the typed view of cfg.State. It makes no request.
func Open(cfg Config) (*Store, error) {
	if cfg.State == nil || cfg.Now == nil {
		return nil, errors.New("open the cluster store: a state store and a clock are needed")
	}
	if cfg.Sleep == nil {
		cfg.Sleep = clock.Sleep
	}
	if cfg.Random == nil {
		cfg.Random = rand.Reader
	}
	if cfg.Gone == nil {
		cfg.Gone = func(string) bool { return false }
	}
	s := &Store{cfg: cfg}
	if cfg.Cache != "" {
		s.cache = store.Sub(store.NewFolder(cfg.Cache), store.Digest([]byte(s.URL())))
	}
	return s, nil
}

// URL is the root of the state store, without a final slash.
func (s *Store) URL() string { return s.cfg.State.About().URL }

// folder is where kOps' files of a cluster are, and own where ours are.
func (s *Store) folder(cluster string) store.Store { return store.Sub(s.cfg.State, cluster) }
func (s *Store) own(cluster string) store.Store    { return store.Sub(s.cfg.State, ownFolder+cluster) }

// Names returns the names of all clusters, in order. It is one listing of the whole store.
func (s *Store) Names(ctx context.Context) ([]string, error) {
	found, err := s.configs(ctx)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(found))
	for i, f := range found {
		names[i] = clusterOf(f.Key)
	}
	return names, nil
}

// configs lists the key of every cluster's config. Names of clusters have no slash: everything
// below the folder of a cluster belongs to it, under any name.
func (s *Store) configs(ctx context.Context) ([]store.Info, error) {
	var found []store.Info
	for info, err := range s.cfg.State.List(ctx, "") {
		if err != nil {
			return nil, err
		}
		if checkName(clusterOf(info.Key)) == nil {
			found = append(found, info)
		}
	}
	return found, nil
}

// clusterOf is the cluster whose config has the key, or "".
func clusterOf(key string) string {
	name, ok := strings.CutSuffix(key, "/"+layout.Config)
	if !ok {
		return ""
	}
	return name
}

// checkName refuses a name that cannot be a folder of its own in the store.
func checkName(cluster string) error {
	if cluster == "" {
		return fault.New(fault.Permanent, "the name of the cluster is empty")
	}
	if strings.HasPrefix(cluster+"/", ownFolder) || strings.Contains(cluster, "/") {
		return fault.New(fault.Permanent, "%q cannot be the name of a cluster", cluster)
	}
	return store.CheckKey(cluster)
}

// collect is a whole listing.
func collect(ctx context.Context, s store.Store, prefix string) ([]store.Info, error) {
	var out []store.Info
	for info, err := range s.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		out = append(out, info)
	}
	return out, nil
}

// each runs f for every item, some at a time, and returns the first error.
func each[T any](ctx context.Context, items []T, f func(ctx context.Context, i int, item T) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i, item := range items {
		g.Go(func() error { return f(ctx, i, item) })
	}
	return g.Wait()
}

// Owners returns the names of the clusters that have an instance group of a name,
// in order. It is one listing of the whole store.
func (s *Store) Owners(ctx context.Context, group string) ([]string, error) {
	var out []string
	for info, err := range s.cfg.State.List(ctx, "") {
		if err != nil {
			return nil, err
		}
		if cluster, ok := strings.CutSuffix(info.Key, "/"+layout.Groups+group); ok && !strings.HasPrefix(cluster, ownFolder) {
			out = append(out, cluster)
		}
	}
	return out, nil
}
