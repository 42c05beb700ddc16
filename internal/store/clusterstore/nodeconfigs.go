package clusterstore

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
)

// configDays is how many days an unused node configuration is kept.
const configDays = 90

// configSet identifies the node configurations of one update, which are stored as one
// object: by the digest of their hashes, and the day.
type configSet struct {
	key, digest string
	day         time.Time
}

const dayFormat = "20060102"

// newConfigSet returns the set of the given configurations, which are keyed by their hexadecimal SHA-256.
func newConfigSet(texts map[string][]byte, day time.Time) configSet {
	sum := sha256.Sum256([]byte(strings.Join(slices.Sorted(maps.Keys(texts)), "\n")))
	digest := hex.EncodeToString(sum[:])
	return configSet{configsFolder + digest + "." + day.UTC().Format(dayFormat), digest, day}
}

// hashConfig returns the hexadecimal SHA-256 of a configuration.
func hashConfig(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// hexHash turns a base64 hash into hexadecimal; "" if it is not one.
func hexHash(hash string) string {
	sum, err := base64.StdEncoding.DecodeString(hash)
	if err != nil || len(sum) != sha256.Size {
		return ""
	}
	return hex.EncodeToString(sum)
}

// encodeConfigs packs configurations, in the order of their hashes.
func encodeConfigs(texts map[string][]byte) ([]byte, error) {
	var all []string
	for _, hash := range slices.Sorted(maps.Keys(texts)) {
		all = append(all, string(texts[hash]))
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if err := json.NewEncoder(w).Encode(all); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// decodeConfigs returns the configurations of an object by their hashes, which are
// computed, so that a damaged configuration gets another hash. An object that is not a
// set is a single configuration, as earlier versions stored them.
func decodeConfigs(data []byte) map[string][]byte {
	single := map[string][]byte{hashConfig(data): data}
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return single
	}
	text, err := io.ReadAll(io.LimitReader(r, packLimit))
	var all []string
	if err != nil || json.Unmarshal(text, &all) != nil {
		return single
	}
	out := map[string][]byte{}
	for _, c := range all {
		out[hashConfig([]byte(c))] = []byte(c)
	}
	return out
}

// configSets lists the stored sets of a cluster, the newest first, in one request.
func (s *Store) configSets(ctx context.Context, cluster string) ([]configSet, error) {
	if err := checkName(cluster); err != nil {
		return nil, err
	}
	listing, err := collect(ctx, s.privateFolder(cluster), configsFolder)
	if err != nil && !store.IsMissing(err) {
		return nil, fmt.Errorf("list the node configurations of cluster %s: %w", cluster, err)
	}
	var out []configSet
	for _, info := range listing {
		digest, day, _ := strings.Cut(strings.TrimPrefix(info.Key, configsFolder), ".")
		if t, err := time.Parse(dayFormat, day); err == nil {
			out = append(out, configSet{info.Key, digest, t})
		}
	}
	slices.SortStableFunc(out, func(a, b configSet) int { return b.day.Compare(a.day) })
	return out, nil
}

// readSets reads the configurations of some sets, by their hexadecimal hashes.
func (s *Store) readSets(ctx context.Context, cluster string, sets []configSet) ([]map[string][]byte, error) {
	out := make([]map[string][]byte, len(sets))
	err := forEach(ctx, sets, func(ctx context.Context, i int, k configSet) error {
		data, _, err := s.privateFolder(cluster).Get(ctx, k.key)
		if fault.Is(err, fault.Gone) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read node configurations of cluster %s: %w", cluster, err)
		}
		out[i] = decodeConfigs(data)
		return nil
	})
	return out, err
}

// NodeConfigs reads past node configurations by their hashes, the base64 of the SHA-256, as
// machines report them. One that is not stored is not in the result. It takes one listing, and one
// request for each set until all are found: the newest two first, then four, and so on.
func (s *Store) NodeConfigs(ctx context.Context, cluster string, hashes ...string) (map[string][]byte, error) {
	out := map[string][]byte{}
	if len(hashes) == 0 {
		return out, nil
	}
	sets, err := s.configSets(ctx, cluster)
	if err != nil {
		return nil, err
	}
	lacking := slices.DeleteFunc(slices.Clone(hashes), func(h string) bool { return hexHash(h) == "" })
	for most := 2; len(sets) > 0 && len(lacking) > 0; most *= 2 {
		some := sets[:min(most, len(sets))]
		sets = sets[len(some):]
		found, err := s.readSets(ctx, cluster, some)
		if err != nil {
			return nil, err
		}
		for _, texts := range found {
			lacking = slices.DeleteFunc(lacking, func(h string) bool {
				text, ok := texts[hexHash(h)]
				if ok {
					out[h] = text
				}
				return ok
			})
		}
	}
	return out, nil
}

// KeepNodeConfigs stores node configurations as one set; this takes one listing, and one
// more request if the set is not stored yet. It removes older sets stored more than 90 days
// ago that contain no configuration in use; inUse contains the hashes, as for NodeConfigs.
// A nil inUse means that this is unknown, and nothing is removed.
func (s *Store) KeepNodeConfigs(ctx context.Context, cluster string, configs [][]byte, inUse []string) error {
	sets, err := s.configSets(ctx, cluster)
	if err != nil {
		return err
	}
	texts := map[string][]byte{}
	for _, c := range configs {
		texts[hashConfig(c)] = c
	}
	set := newConfigSet(texts, s.cfg.Now())
	if len(texts) > 0 && !slices.ContainsFunc(sets, func(x configSet) bool { return x.digest == set.digest }) {
		data, err := encodeConfigs(texts)
		if err == nil {
			_, err = s.privateFolder(cluster).Put(ctx, set.key, data, store.PutOptions{Private: true})
		}
		if err != nil {
			return fmt.Errorf("save the node configurations of cluster %s: %w", cluster, err)
		}
	}
	if inUse == nil {
		return nil
	}
	old := slices.DeleteFunc(sets, func(x configSet) bool {
		return x.digest == set.digest || s.cfg.Now().Sub(x.day) <= configDays*24*time.Hour
	})
	return s.dropSets(ctx, cluster, old, inUse)
}

// dropSets removes the sets that contain nothing that is in use.
func (s *Store) dropSets(ctx context.Context, cluster string, sets []configSet, inUse []string) error {
	found, err := s.readSets(ctx, cluster, sets)
	if err != nil {
		return err
	}
	var keys []string
	for i, k := range sets {
		if !slices.ContainsFunc(inUse, func(h string) bool { return found[i][hexHash(h)] != nil }) {
			keys = append(keys, k.key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	if err := store.DeleteAll(ctx, s.privateFolder(cluster), keys); err != nil {
		return fmt.Errorf("remove old node configurations of cluster %s: %w", cluster, err)
	}
	return nil
}
