package clusterstore

import (
	"context"
	"fmt"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
)

// rotationKey is the key of the state of a cluster's key rotation, in our own folder.
const rotationKey = "rotation.json"

// Rotation reads the stored state of a cluster's key rotation, and its version; both are
// empty if no rotation was started.
func (s *Store) Rotation(ctx context.Context, cluster string) ([]byte, store.Version, error) {
	if err := checkName(cluster); err != nil {
		return nil, "", err
	}
	data, v, err := s.privateFolder(cluster).Get(ctx, rotationKey)
	if fault.Is(err, fault.Gone) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("read the rotation of cluster %s: %w", cluster, err)
	}
	return data, v, nil
}

// PutRotation writes the state, if the stored one still has the given version; otherwise the error
// has class fault.Conflict.
func (s *Store) PutRotation(ctx context.Context, cluster string, data []byte, was store.Version) (store.Version, error) {
	v, err := s.privateFolder(cluster).Put(ctx, rotationKey, data, store.PutOptions{IfAbsent: was == "", IfVersion: was, Private: true})
	if fault.Is(err, fault.Conflict) {
		return "", fault.Wrap(fault.Conflict, fmt.Errorf("another command is continuing the rotation of cluster %s: %w", cluster, err), "wait until it is done, or run this command again")
	}
	return v, err
}
