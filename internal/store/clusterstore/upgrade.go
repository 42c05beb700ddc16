package clusterstore

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
)

// upgradeKey is the key of an upgrade that takes several hops.
const upgradeKey = "upgrade.json"

// Upgrade is an upgrade of Kubernetes that takes several hops. The remaining ones are
// those newer than the version in the cluster's spec.
type Upgrade struct {
	// Hops are the successive versions of Kubernetes.
	Hops []string `json:"hops"`
	// Holder is who requested it, and Time is when.
	Holder
	Time time.Time `json:"time"`
}

// Upgrade reads the upgrade of a cluster, or nil if there is none.
func (s *Store) Upgrade(ctx context.Context, cluster string) (*Upgrade, error) {
	if err := checkName(cluster); err != nil {
		return nil, err
	}
	data, _, err := s.privateFolder(cluster).Get(ctx, upgradeKey)
	if fault.Is(err, fault.Gone) {
		return nil, nil
	}
	var u Upgrade
	if err == nil {
		err = json.Unmarshal(data, &u)
	}
	if err != nil {
		return nil, fmt.Errorf("read the upgrade of cluster %s, %s: %w", cluster, store.URL(s.privateFolder(cluster), upgradeKey), err)
	}
	return &u, nil
}

// PutUpgrade stores an upgrade, replacing any other.
func (s *Store) PutUpgrade(ctx context.Context, cluster string, u Upgrade) error {
	if err := checkName(cluster); err != nil {
		return err
	}
	u.Time = s.cfg.Now().UTC()
	data, err := json.MarshalIndent(u, "", "  ")
	if err == nil {
		_, err = s.privateFolder(cluster).Put(ctx, upgradeKey, append(data, '\n'), store.PutOptions{})
	}
	if err != nil {
		return fmt.Errorf("save the upgrade of cluster %s: %w", cluster, err)
	}
	return nil
}

// DropUpgrade removes the upgrade of a cluster, if there is one.
func (s *Store) DropUpgrade(ctx context.Context, cluster string) error {
	if err := checkName(cluster); err != nil {
		return err
	}
	if err := s.privateFolder(cluster).Delete(ctx, upgradeKey, store.DeleteOptions{}); err != nil && !fault.Is(err, fault.Gone) {
		return fmt.Errorf("delete the upgrade of cluster %s: %w", cluster, err)
	}
	return nil
}
