package kops

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/encryption"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/ops/unseal"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/clusterstore"
)

const (
	// usualRetention is how many days backups are kept by default.
	usualRetention = 90
	// retirement is how long after a key was retired backups may still need it.
	retirement = time.Hour
)

// EtcdReadability says whether API servers can read what is encrypted in a backup.
type EtcdReadability string

// Readabilities of backups.
const (
	// EtcdReadable: the cluster's EncryptionConfiguration has every key.
	EtcdReadable EtcdReadability = "readable"
	// EtcdNeedsKey: retired keys are needed, which a restore puts back.
	EtcdNeedsKey EtcdReadability = "needs retired key"
	// EtcdUnreadable: a key is gone.
	EtcdUnreadable EtcdReadability = "unreadable"
	// EtcdUnknown: it was not recorded which keys are needed. A restore and a drill find out.
	EtcdUnknown EtcdReadability = "unknown"
)

// EtcdEncryption says what is needed to read the encrypted objects of a backup.
type EtcdEncryption struct {
	State EtcdReadability `json:"state"`
	// Retired are the needed keys that a restore has to put back, and Until is the earliest
	// time at which the first of them may be removed.
	Retired []EtcdKey `json:"retired,omitempty"`
	Until   time.Time `json:"until,omitzero"`
	// Missing are the needed keys that are gone.
	Missing []EtcdKey `json:"missing,omitempty"`
	// Plugins are the KMS plugins that are needed. Whether they still have their keys is not known.
	Plugins []string `json:"plugins,omitempty"`
}

// EtcdKey identifies a key by which API servers encrypt.
type EtcdKey struct {
	// Provider is aesgcm, aescbc, secretbox or kms.
	Provider string `json:"provider"`
	Name     string `json:"name"`
	// Digest distinguishes keys of one name. It is empty where the key is gone.
	Digest string `json:"digest,omitempty"`
}

// String describes it in a few words.
func (e EtcdEncryption) String() string {
	switch e.State {
	case EtcdNeedsKey:
		return fmt.Sprintf("needs retired key %s (kept until %s)", keyNames(e.Retired), e.Until.UTC().Format(time.DateOnly))
	case EtcdUnreadable:
		return fmt.Sprintf("unreadable: key %s gone", keyNames(e.Missing))
	}
	return string(e.State)
}

func keyNames(keys []EtcdKey) string {
	var out []string
	for _, k := range keys {
		out = append(out, k.Name)
	}
	return strings.Join(out, ", ")
}

// keyring holds the keys that a cluster's store has for what API servers encrypt.
type keyring struct {
	// config is nil where the API servers do not encrypt.
	config  *encryption.Config
	retired encryption.RetiredKeys
	// retention is how long backups are kept, and so retired keys at least.
	retention time.Duration
}

// keyring reads the keys of a cluster.
func (c *Client) keyring(ctx context.Context, cl *Cluster) (*keyring, error) {
	f, err := c.store.Folders(ctx, cl.Spec, cl.stored())
	if err != nil {
		return nil, err
	}
	k := &keyring{retention: backupRetention(cl.Spec)}
	if k.retired, _, err = retiredKeys(ctx, f); err != nil {
		return nil, err
	}
	if on := cl.Spec.Spec.EncryptionConfig; on == nil || !*on {
		return k, nil
	}
	secret, err := f.Secret(ctx, pki.EncryptionConfig)
	if err != nil {
		return nil, err
	}
	if k.config, err = encryption.Parse([]byte(secret.Reveal())); err != nil {
		return nil, fault.Wrap(fault.Permanent, fmt.Errorf("secret %s: %w", pki.EncryptionConfig, err), "correct it with kops create secret encryptionconfig and option:Force")
	}
	return k, nil
}

// retiredKeys reads the retired keys, and the version against which their next write is held.
func retiredKeys(ctx context.Context, f *clusterstore.Folders) (encryption.RetiredKeys, versioned, error) {
	secret, version, err := f.SecretAt(ctx, pki.RetiredKeys)
	if fault.Is(err, fault.Gone) {
		return encryption.RetiredKeys{}, versioned{}, nil
	}
	if err != nil {
		return encryption.RetiredKeys{}, versioned{}, err
	}
	keys, err := encryption.ParseRetired(secret.Reveal())
	if err != nil {
		err = fault.Wrap(fault.Permanent, fmt.Errorf("secret %s: %w", pki.RetiredKeys, err), "restore an earlier version of it, or give up the backups that need it: kops delete secret "+pki.RetiredKeys)
	}
	return keys, versioned{secret.Reveal(), version}, err
}

// versioned is the text of a secret, and its version; both are empty where there is none.
type versioned struct {
	text    string
	version store.Version
}

// backupRetention is how long the backups of a cluster are kept at most.
func backupRetention(c *api.Cluster) time.Duration {
	days := uint32(0)
	for _, e := range c.Spec.EtcdClusters {
		own := uint32(usualRetention)
		if e.Manager != nil && e.Manager.BackupRetentionDays != nil {
			own = *e.Manager.BackupRetentionDays
		}
		days = max(days, own)
	}
	return time.Duration(days) * 24 * time.Hour
}

// recorded judges a backup by what was recorded when it was taken: all keys that API servers
// could read by, of which it may need fewer.
func (k *keyring) recorded(f *etcd.Facts) EtcdEncryption {
	if k == nil || f == nil || f.Encryption == nil {
		return EtcdEncryption{State: EtcdUnknown}
	}
	var out EtcdEncryption
	for _, id := range f.Encryption {
		k.judge(&out, id)
	}
	return out.settled()
}

// found judges a backup by its encrypted objects, and returns the keys that were retired
// once and are needed, whether or not the configuration has them again.
func (k *keyring) found(needs []unseal.Need) (EtcdEncryption, []encryption.Retired) {
	var out EtcdEncryption
	var back []encryption.Retired
	for _, n := range needs {
		if n.KMS() {
			k.judge(&out, encryption.KeyID{Provider: n.Provider, Name: n.Name})
		}
		for _, key := range n.Keys {
			k.judge(&out, key.ID())
			if r, ok := k.retired.Find(key.ID()); ok {
				back = append(back, r)
			}
		}
		if n.Missing {
			out.Missing = append(out.Missing, EtcdKey{Provider: n.Provider, Name: n.Name})
		}
	}
	return out.settled(), back
}

// judge adds a key that a backup needs.
func (k *keyring) judge(e *EtcdEncryption, id encryption.KeyID) {
	if id.Provider == "kms" {
		e.Plugins = append(e.Plugins, id.Name)
	}
	if k.config != nil && slices.Contains(k.config.Keys(), id) {
		return
	}
	r, ok := k.retired.Find(id)
	if !ok {
		e.Missing = append(e.Missing, EtcdKey(id))
		return
	}
	e.Retired = append(e.Retired, EtcdKey(id))
	if until := r.Retired.Add(k.retention); e.Until.IsZero() || until.Before(e.Until) {
		e.Until = until
	}
}

// settled returns e with its state.
func (e EtcdEncryption) settled() EtcdEncryption {
	switch {
	case len(e.Missing) > 0:
		e.State = EtcdUnreadable
	case len(e.Retired) > 0:
		e.State = EtcdNeedsKey
	default:
		e.State = EtcdReadable
	}
	return e
}

// all are all keys at hand.
func (k *keyring) all() []encryption.Retired { return encryption.AllKeys(k.config, k.retired) }

// retire keeps the keys that a configuration had and its successor, nil for none, lacks: the
// backups from before need them. It is to be called before the successor is written. Keys
// that no backup needs are removed.
func (c *Client) retire(ctx context.Context, cluster string, f *clusterstore.Folders, was, now *encryption.Config) error {
	before, at, err := retiredKeys(ctx, f)
	if err != nil {
		return err
	}
	cl, err := c.Clusters().Get(ctx, cluster)
	if err != nil {
		return err
	}
	keys, err := c.unexpired(ctx, cl, before.Retire(was, now, c.cfg.World.Now()))
	if err != nil {
		return err
	}
	text, err := keys.Text()
	if err != nil || text == at.text || at.version == "" && len(keys.Keys) == 0 {
		return err
	}
	return f.ReplaceSecret(ctx, pki.RetiredKeys, pki.NewSecret(text), at.version)
}

// unexpired returns the keys that backups may need: those that were retired less long ago
// than backups are kept, and those before whose retirement a backup was taken.
func (c *Client) unexpired(ctx context.Context, cl *Cluster, l encryption.RetiredKeys) (encryption.RetiredKeys, error) {
	kept, now := backupRetention(cl.Spec), c.cfg.World.Now()
	old := func(r encryption.Retired) bool { return now.Sub(r.Retired) >= kept }
	if !slices.ContainsFunc(l.Keys, old) {
		return l, nil
	}
	archives, err := c.etcdArchives(ctx, cl, "")
	if err != nil {
		return l, err
	}
	var oldest time.Time
	for _, a := range archives {
		all, err := etcd.Backups(ctx, a.store)
		if err != nil {
			return l, err
		}
		if len(all) > 0 && (oldest.IsZero() || all[0].Time.Before(oldest)) {
			oldest = all[0].Time
		}
	}
	l.Keys = slices.DeleteFunc(slices.Clone(l.Keys), func(r encryption.Retired) bool {
		return old(r) && (oldest.IsZero() || oldest.After(r.Retired.Add(retirement)))
	})
	return l, nil
}
