package kops

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"kops.local/kops/internal/ops/roll"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/clusterstore"
)

// rolloutFile is where the state of a rollout, and the wishes for it, are kept.
type rolloutFile struct {
	store   *clusterstore.Store
	cluster string
	lease   *clusterstore.Lease
	version store.Version // of the state

	mu   sync.Mutex
	id   string        // the rollout's
	read store.Version // of the wishes that were read last
}

// save keeps a state under the lease.
func (f *rolloutFile) save(ctx context.Context, s roll.State) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("keep the rollout: %w", err)
	}
	v, err := f.store.PutRollout(ctx, f.lease, append(data, '\n'), f.version)
	if err != nil {
		return notKept(err)
	}
	f.version = v
	return nil
}

// of says which rollout the wishes are for.
func (f *rolloutFile) of(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.id = id
}

// wishes are those for this rollout.
func (f *rolloutFile) wishes(ctx context.Context) ([]roll.Wish, error) {
	all, version, err := f.store.Wishes(ctx, f.cluster)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read = version
	var out []roll.Wish
	for _, text := range all {
		var w wished
		if json.Unmarshal(text, &w) == nil && w.Rollout == f.id { // others are of the past
			out = append(out, roll.Wish{Want: w.Want})
		}
	}
	return out, nil
}

// heard forgets the wishes that were read.
func (f *rolloutFile) heard(ctx context.Context) error {
	f.mu.Lock()
	version := f.read
	f.read = ""
	f.mu.Unlock()
	return f.store.ForgetWishes(ctx, f.cluster, version)
}
