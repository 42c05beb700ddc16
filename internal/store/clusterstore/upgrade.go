package clusterstore

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
)

// upgradeKey is where an upgrade of several hops is kept.
const upgradeKey = "upgrade.json"

// Upgrade is an upgrade of Kubernetes that takes several hops. Those that remain are the
// ones that are newer than what the cluster's spec says.
type Upgrade struct {
	// Hops are the versions of Kubernetes that follow each other.
	Hops []string `json:"hops"`
	// Holder is who asked for it, and Time is when.
	Holder
	Time time.Time `json:"time"`
}

// Upgrade reads the upgrade of a cluster; nil is that there is none.
func (s *Store) Upgrade(ctx context.Context, cluster string) (*Upgrade, error) {
	if err := checkName(cluster); err != nil {
		return nil, err
	}
	data, _, err := s.own(cluster).Get(ctx, upgradeKey)
	if fault.Is(err, fault.Gone) {
		return nil, nil
	}
	var u Upgrade
	if err == nil {
		err = json.Unmarshal(data, &u)
	}
	if err != nil {
		return nil, fmt.Errorf("read the upgrade of cluster %s, %s: %w", cluster, store.URL(s.own(cluster), upgradeKey), err)
	}
	return &u, nil
}

// PutUpgrade keeps an upgrade in the place of any other.
func (s *Store) PutUpgrade(ctx context.Context, cluster string, u Upgrade) error {
	if err := checkName(cluster); err != nil {
		return err
	}
	u.Time = s.cfg.Now().UTC()
	data, err := json.MarshalIndent(u, "", "  ")
	if err == nil {
		_, err = s.own(cluster).Put(ctx, upgradeKey, append(data, '\n'), store.PutOptions{})
	}
	if err != nil {
		return fmt.Errorf("keep the upgrade of cluster %s: %w", cluster, err)
	}
	return nil
}

// DropUpgrade forgets the upgrade of a cluster, if there is one.
func (s *Store) DropUpgrade(ctx context.Context, cluster string) error {
	if err := checkName(cluster); err != nil {
		return err
	}
	if err := s.own(cluster).Delete(ctx, upgradeKey, store.DeleteOptions{}); err != nil && !fault.Is(err, fault.Gone) {
		return fmt.Errorf("forget the upgrade of cluster %s: %w", cluster, err)
	}
	return nil
}
