// Package clusterstore is the typed view of a state store: clusters with their
// groups, keysets, secrets and SSH keys in kOps' layout, and, in a separate folder of
// our own, the lease of each cluster, its revisions, and a pack of its documents that
// makes reading cheap.
//
// It must not know the engine, any cloud, what a valid spec is, or the command line.
// Reading never locks and never writes to the store.
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

// The layout below ownFolder/<cluster>/, the folder of our own.
const (
	ownFolder       = ".kops/"
	leaseKey        = "lease"
	packKey         = "pack"
	revisionsFolder = "revisions/"
	configsFolder   = "nodeconfigs/"
)

// parallel is how many requests to the store one call has in flight.
const parallel = 32

// Config configures a Store. State and Now are required.
type Config struct {
	// State is the state store.
	State store.Store
	// Backends open the other stores that a cluster's spec may name.
	Backends store.Backends
	// Offline means that, with a local State, only local stores can be reached: what belongs in
	// another store is then read from, and written to, its place in State.
	Offline bool
	// Cache is a folder for copies of documents, created when needed; empty means no cache.
	Cache string
	// Version is this program's version, for revisions.
	Version string
	// Now returns the current time.
	Now func() time.Time
	// Sleep waits, or returns an error if ctx is done first; nil means a real wait.
	Sleep func(ctx context.Context, d time.Duration) error
	// Random is the source of unique lease IDs; nil means the system's.
	Random io.Reader
	// ProcessEnded reports whether a process, identified by Holder.Process, has certainly exited, so that
	// its lease may be taken at once; nil means that nothing is known about processes.
	ProcessEnded func(process string) bool
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
	if cfg.ProcessEnded == nil {
		cfg.ProcessEnded = func(string) bool { return false }
	}
	s := &Store{cfg: cfg}
	if cfg.Cache != "" {
		s.cache = store.Sub(store.NewFolder(cfg.Cache), store.Digest([]byte(s.URL())))
	}
	return s, nil
}

// URL returns the root of the state store, without a final slash.
func (s *Store) URL() string { return s.cfg.State.About().URL }

// folder returns the folder of kOps' files of a cluster, and privateFolder the folder of ours.
func (s *Store) folder(cluster string) store.Store { return store.Sub(s.cfg.State, cluster) }
func (s *Store) privateFolder(cluster string) store.Store {
	return store.Sub(s.cfg.State, ownFolder+cluster)
}

// Names returns the names of all clusters, in order. It takes one listing of the whole store.
func (s *Store) Names(ctx context.Context) ([]string, error) {
	found, err := s.configs(ctx)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(found))
	for i, f := range found {
		names[i] = clusterName(f.Key)
	}
	return names, nil
}

// configs lists the key of every cluster's config. Cluster names contain no slash: everything
// below a cluster's folder belongs to it, whatever its name.
func (s *Store) configs(ctx context.Context) ([]store.Info, error) {
	var found []store.Info
	for info, err := range s.cfg.State.List(ctx, "") {
		if err != nil {
			return nil, err
		}
		if checkName(clusterName(info.Key)) == nil {
			found = append(found, info)
		}
	}
	return found, nil
}

// clusterName returns the cluster whose config has the key, or "".
func clusterName(key string) string {
	name, ok := strings.CutSuffix(key, "/"+layout.Config)
	if !ok {
		return ""
	}
	return name
}

// checkName rejects a name that cannot be a folder of its own in the store.
func checkName(cluster string) error {
	if cluster == "" {
		return fault.New(fault.Permanent, "the name of the cluster is empty")
	}
	if strings.HasPrefix(cluster+"/", ownFolder) || strings.Contains(cluster, "/") {
		return fault.New(fault.Permanent, "%q is not a valid cluster name", cluster)
	}
	return store.CheckKey(cluster)
}

// collect returns a whole listing.
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

// forEach runs f for every item, several at a time, and returns the first error.
func forEach[T any](ctx context.Context, items []T, f func(ctx context.Context, i int, item T) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i, item := range items {
		g.Go(func() error { return f(ctx, i, item) })
	}
	return g.Wait()
}

// Owners returns the names of the clusters that have an instance group with the given
// name, in order. It takes one listing of the whole store.
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
