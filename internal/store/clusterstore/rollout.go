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
	rolloutKey = "rollout.json"
	wishesKey  = "rollout.wishes"
)

// Rollout reads the state of the rollout of a cluster, in the words of who keeps it. The
// error is of the class Gone when there was none.
func (s *Store) Rollout(ctx context.Context, cluster string) ([]byte, store.Version, error) {
	if err := checkName(cluster); err != nil {
		return nil, "", err
	}
	data, v, err := s.own(cluster).Get(ctx, rolloutKey)
	if err != nil {
		return nil, "", fmt.Errorf("read the rollout of cluster %s: %w", cluster, err)
	}
	return data, v, nil
}

// PutRollout replaces the state that has the version, which is empty when there is none.
// The error is of the class Conflict when somebody else has written another state, and wraps
// ErrLost when the lease is lost. Our own write whose answer was lost does not conflict.
func (s *Store) PutRollout(ctx context.Context, lease *Lease, data []byte, version store.Version) (store.Version, error) {
	if err := lease.Hold(ctx); err != nil {
		return "", err
	}
	v, err := s.own(lease.cluster).Put(ctx, rolloutKey, data, store.PutOptions{IfAbsent: version == "", IfVersion: version})
	if fault.Is(err, fault.Conflict) {
		if there, now, again := s.own(lease.cluster).Get(ctx, rolloutKey); again == nil && bytes.Equal(there, data) {
			return now, nil
		}
	}
	if err != nil {
		return "", fmt.Errorf("keep the rollout of cluster %s: %w", lease.cluster, err)
	}
	lease.recorded()
	return v, nil
}

// Wish adds a user's wish for the rollout of a cluster. It needs no lease: the holder of the
// lease reads the wishes.
func (s *Store) Wish(ctx context.Context, cluster string, wish json.RawMessage) error {
	for range leaseTries {
		all, v, err := s.Wishes(ctx, cluster)
		if err != nil {
			return err
		}
		data, err := json.Marshal(append(all, wish))
		if err != nil {
			return fmt.Errorf("write a request to the rollout of cluster %s: %w", cluster, err)
		}
		_, err = s.own(cluster).Put(ctx, wishesKey, data, store.PutOptions{IfAbsent: v == "", IfVersion: v})
		if !fault.Is(err, fault.Conflict) {
			return err
		}
	}
	return fault.New(fault.Conflict, "the requests to the rollout of cluster %s changed at each attempt to write one", cluster)
}

// Wishes are what users want of the rollout of a cluster, oldest first, and the version
// with which they are forgotten.
func (s *Store) Wishes(ctx context.Context, cluster string) ([]json.RawMessage, store.Version, error) {
	if err := checkName(cluster); err != nil {
		return nil, "", err
	}
	data, v, err := s.own(cluster).Get(ctx, wishesKey)
	if fault.Is(err, fault.Gone) {
		return nil, "", nil
	}
	var all []json.RawMessage
	if err == nil && json.Unmarshal(data, &all) != nil {
		all = nil // a damaged file keeps nobody from wishing
	}
	if err != nil {
		return nil, "", fmt.Errorf("read the requests to the rollout of cluster %s: %w", cluster, err)
	}
	return all, v, nil
}

// ForgetWishes removes the wishes that have the version. Where others came meanwhile all
// stay, and are read once more.
func (s *Store) ForgetWishes(ctx context.Context, cluster string, version store.Version) error {
	if version == "" {
		return nil
	}
	err := s.own(cluster).Delete(ctx, wishesKey, store.DeleteOptions{IfVersion: version})
	if fault.Is(err, fault.Conflict) || fault.Is(err, fault.Gone) {
		return nil
	}
	return err
}
