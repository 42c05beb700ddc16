package clusterstore

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
)

// configDays is how many days a node configuration is kept that nobody wants any more.
const configDays = 90

// keptConfig is where a node configuration is kept: under its hash, and the day.
type keptConfig struct {
	key, hash string
	day       time.Time
}

// configKey is the key of a configuration in our own folder; hash is the hexadecimal SHA-256.
func configKey(hash string, day time.Time) string {
	return configsFolder + hash + "." + day.UTC().Format(dayFormat)
}

const dayFormat = "20060102"

// hexHash is the hexadecimal spelling of the base64 of a hash; "" for what is none.
func hexHash(hash string) string {
	sum, err := base64.StdEncoding.DecodeString(hash)
	if err != nil || len(sum) != sha256.Size {
		return ""
	}
	return hex.EncodeToString(sum)
}

// keptConfigs lists the node configurations that are kept of a cluster, in one request.
func (s *Store) keptConfigs(ctx context.Context, cluster string) ([]keptConfig, error) {
	if err := checkName(cluster); err != nil {
		return nil, err
	}
	listing, err := collect(ctx, s.own(cluster), configsFolder)
	if err != nil && !store.IsMissing(err) {
		return nil, fmt.Errorf("list the node configurations of cluster %s: %w", cluster, err)
	}
	var out []keptConfig
	for _, info := range listing {
		hash, day, _ := strings.Cut(strings.TrimPrefix(info.Key, configsFolder), ".")
		if t, err := time.Parse(dayFormat, day); err == nil {
			out = append(out, keptConfig{info.Key, hash, t})
		}
	}
	return out, nil
}

// NodeConfigs reads node configurations of the past by their hashes, the base64 of the
// SHA-256, as machines know them. One that is not kept is not in the result.
func (s *Store) NodeConfigs(ctx context.Context, cluster string, hashes ...string) (map[string][]byte, error) {
	out := map[string][]byte{}
	if len(hashes) == 0 {
		return out, nil
	}
	kept, err := s.keptConfigs(ctx, cluster)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	err = each(ctx, hashes, func(ctx context.Context, _ int, hash string) error {
		at := slices.IndexFunc(kept, func(k keptConfig) bool { return k.hash == hexHash(hash) })
		if at < 0 {
			return nil
		}
		data, _, err := s.own(cluster).Get(ctx, kept[at].key)
		if fault.Is(err, fault.Gone) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read a node configuration of cluster %s: %w", cluster, err)
		}
		mu.Lock()
		defer mu.Unlock()
		out[hash] = data
		return nil
	})
	return out, err
}

// KeepNodeConfigs keeps node configurations, in a request for each that is not kept yet,
// and one for a listing. Of the others, those are removed that were kept more than
// 90 days ago and are not in use, whose hashes are as for NodeConfigs; where it is not
// known what is in use, inUse is nil, and none is.
func (s *Store) KeepNodeConfigs(ctx context.Context, cluster string, configs [][]byte, inUse []string) error {
	kept, err := s.keptConfigs(ctx, cluster)
	if err != nil {
		return err
	}
	today := s.cfg.Now()
	var used []string
	for _, h := range inUse {
		used = append(used, hexHash(h))
	}
	var missing []keptConfig
	texts := map[string][]byte{}
	for _, c := range configs {
		sum := sha256.Sum256(c)
		k := keptConfig{hash: hex.EncodeToString(sum[:])}
		k.key = configKey(k.hash, today)
		used = append(used, k.hash)
		if texts[k.key] == nil && !slices.ContainsFunc(kept, func(x keptConfig) bool { return x.hash == k.hash }) {
			missing = append(missing, k)
		}
		texts[k.key] = c
	}
	err = each(ctx, missing, func(ctx context.Context, _ int, k keptConfig) error {
		_, err := s.own(cluster).Put(ctx, k.key, texts[k.key], store.PutOptions{Private: true})
		return err
	})
	if err != nil {
		return fmt.Errorf("keep the node configurations of cluster %s: %w", cluster, err)
	}
	if inUse == nil {
		return nil
	}
	var old []string
	for _, k := range kept {
		if today.Sub(k.day) > configDays*24*time.Hour && !slices.Contains(used, k.hash) {
			old = append(old, k.key)
		}
	}
	if len(old) == 0 {
		return nil
	}
	if err := store.DeleteAll(ctx, s.own(cluster), old); err != nil {
		return fmt.Errorf("remove old node configurations of cluster %s: %w", cluster, err)
	}
	return nil
}
