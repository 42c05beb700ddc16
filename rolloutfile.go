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

// rolloutFile stores the state of a rollout, and the requests to it.
type rolloutFile struct {
	store   *clusterstore.Store
	cluster string
	lease   *clusterstore.Lease
	version store.Version // of the state

	mu   sync.Mutex
	id   string        // the rollout's
	read store.Version // of the last requests that were read
}

// save stores a state under the lease.
func (f *rolloutFile) save(ctx context.Context, s roll.State) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("save the rollout: %w", err)
	}
	v, err := f.store.PutRollout(ctx, f.lease, append(data, '\n'), f.version)
	if err != nil {
		return notStoredError(err)
	}
	f.version = v
	return nil
}

// setRollout sets the rollout that the requests apply to.
func (f *rolloutFile) setRollout(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.id = id
}

// requests returns the requests to this rollout.
func (f *rolloutFile) requests(ctx context.Context) ([]roll.Request, error) {
	all, version, err := f.store.RolloutRequests(ctx, f.cluster)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read = version
	var out []roll.Request
	for _, text := range all {
		var w storedRequest
		if json.Unmarshal(text, &w) == nil && w.Rollout == f.id { // others are for earlier rollouts
			out = append(out, roll.Request{Want: w.Want})
		}
	}
	return out, nil
}

// deleteRead removes the requests that were read.
func (f *rolloutFile) deleteRead(ctx context.Context) error {
	f.mu.Lock()
	version := f.read
	f.read = ""
	f.mu.Unlock()
	return f.store.DeleteRolloutRequests(ctx, f.cluster, version)
}
