package clusterstore

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
)

const (
	rolloutKey         = "rollout.json"
	rolloutRequestsKey = "rollout.wishes"
)

// Rollout reads the state of a cluster's rollout, in its writer's format. If there was
// none, the error has class fault.Gone.
func (s *Store) Rollout(ctx context.Context, cluster string) ([]byte, store.Version, error) {
	if err := checkName(cluster); err != nil {
		return nil, "", err
	}
	data, v, err := s.privateFolder(cluster).Get(ctx, rolloutKey)
	if err != nil {
		return nil, "", fmt.Errorf("read the rollout of cluster %s: %w", cluster, err)
	}
	return data, v, nil
}

// PutRollout replaces the state that has the version, which is empty if there is none. The
// error has class fault.Conflict if another writer has changed the state, and wraps ErrLost
// if the lease is lost. Our own write whose answer was lost does not conflict.
func (s *Store) PutRollout(ctx context.Context, lease *Lease, data []byte, version store.Version) (store.Version, error) {
	if err := lease.Hold(ctx); err != nil {
		return "", err
	}
	v, err := s.privateFolder(lease.cluster).Put(ctx, rolloutKey, data, store.PutOptions{IfAbsent: version == "", IfVersion: version})
	if fault.Is(err, fault.Conflict) {
		if there, now, again := s.privateFolder(lease.cluster).Get(ctx, rolloutKey); again == nil && bytes.Equal(there, data) {
			return now, nil
		}
	}
	if err != nil {
		return "", fmt.Errorf("save the rollout of cluster %s: %w", lease.cluster, err)
	}
	lease.markRecorded()
	return v, nil
}

// AddRolloutRequest adds a user's request to a cluster's rollout. It needs no lease: the holder of the
// lease reads the requests.
func (s *Store) AddRolloutRequest(ctx context.Context, cluster string, wish json.RawMessage) error {
	for range leaseTries {
		all, v, err := s.RolloutRequests(ctx, cluster)
		if err != nil {
			return err
		}
		data, err := json.Marshal(append(all, wish))
		if err != nil {
			return fmt.Errorf("write a request to the rollout of cluster %s: %w", cluster, err)
		}
		_, err = s.privateFolder(cluster).Put(ctx, rolloutRequestsKey, data, store.PutOptions{IfAbsent: v == "", IfVersion: v})
		if !fault.Is(err, fault.Conflict) {
			return err
		}
	}
	return fault.New(fault.Conflict, "the requests to the rollout of cluster %s changed at each attempt to write one", cluster)
}

// RolloutRequests returns the users' requests to a cluster's rollout, oldest first, and the
// version to pass to DeleteRolloutRequests.
func (s *Store) RolloutRequests(ctx context.Context, cluster string) ([]json.RawMessage, store.Version, error) {
	if err := checkName(cluster); err != nil {
		return nil, "", err
	}
	data, v, err := s.privateFolder(cluster).Get(ctx, rolloutRequestsKey)
	if fault.Is(err, fault.Gone) {
		return nil, "", nil
	}
	var all []json.RawMessage
	if err == nil && json.Unmarshal(data, &all) != nil {
		all = nil // a damaged file must not block requests
	}
	if err != nil {
		return nil, "", fmt.Errorf("read the requests to the rollout of cluster %s: %w", cluster, err)
	}
	return all, v, nil
}

// DeleteRolloutRequests removes the requests, if they still have the version. If others were added
// meanwhile, all are kept and read again.
func (s *Store) DeleteRolloutRequests(ctx context.Context, cluster string, version store.Version) error {
	if version == "" {
		return nil
	}
	err := s.privateFolder(cluster).Delete(ctx, rolloutRequestsKey, store.DeleteOptions{IfVersion: version})
	if fault.Is(err, fault.Conflict) || fault.Is(err, fault.Gone) {
		return nil
	}
	return err
}
