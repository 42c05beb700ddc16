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
	// defaultRetention is the default number of days for which backups are kept.
	defaultRetention = 90
	// retirement is how long after its retirement backups may still need a key.
	retirement = time.Hour
)

// EtcdReadability describes whether API servers can read the encrypted objects in a backup.
type EtcdReadability string

// Readabilities of backups.
const (
	// EtcdReadable: the cluster's EncryptionConfiguration has every key.
	EtcdReadable EtcdReadability = "readable"
	// EtcdNeedsKey: retired keys are needed, which a restore puts back.
	EtcdNeedsKey EtcdReadability = "needs retired key"
	// EtcdNeedsEncryption: keys are needed, but spec.encryptionConfig is not true, so API servers
	// have none. A restore is refused.
	EtcdNeedsEncryption EtcdReadability = "needs encryption"
	// EtcdUnreadable: a key no longer exists.
	EtcdUnreadable EtcdReadability = "unreadable"
	// EtcdUnknown: the needed keys were not recorded. A restore and a drill determine them.
	EtcdUnknown EtcdReadability = "unknown"
)

// EtcdEncryption describes what is needed to read the encrypted objects in a backup.
type EtcdEncryption struct {
	State EtcdReadability `json:"state"`
	// Retired are the needed keys that a restore must put back, and Until is the earliest
	// time at which the first of them may be removed.
	Retired []EtcdKey `json:"retired,omitempty"`
	Until   time.Time `json:"until,omitzero"`
	// Missing are the needed keys that no longer exist.
	Missing []EtcdKey `json:"missing,omitempty"`
	// Plugins are the KMS plugins that are needed. Whether they still have their keys is unknown.
	Plugins []string `json:"plugins,omitempty"`
}

// EtcdKey identifies a key with which API servers encrypt.
type EtcdKey struct {
	// Provider is aesgcm, aescbc, secretbox or kms.
	Provider string `json:"provider"`
	Name     string `json:"name"`
	// Digest distinguishes keys with the same name. It is empty if the key no longer exists.
	Digest string `json:"digest,omitempty"`
}

// String returns a description in a few words.
func (e EtcdEncryption) String() string {
	switch e.State {
	case EtcdNeedsKey:
		return fmt.Sprintf("needs retired key %s (kept until %s)", keyNames(e.Retired), e.Until.UTC().Format(time.DateOnly))
	case EtcdNeedsEncryption:
		return "set spec.encryptionConfig: true first"
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

// keyring holds a cluster's stored keys for API server encryption.
type keyring struct {
	// used reports whether API servers use the configuration.
	used bool
	// config is the stored configuration; nil if there is none.
	config  *encryption.Config
	retired encryption.RetiredKeys
	// retention is how long backups, and therefore also retired keys, are kept.
	retention time.Duration
}

// keyring reads the keys of a cluster.
func (c *Client) keyring(ctx context.Context, cl *Cluster) (*keyring, error) {
	f, err := c.store.Folders(ctx, cl.Spec, cl.stored())
	if err != nil {
		return nil, err
	}
	k := &keyring{used: encrypts(cl.Spec), retention: backupRetention(cl.Spec)}
	if k.retired, _, err = retiredKeys(ctx, f); err != nil {
		return nil, err
	}
	secret, err := f.Secret(ctx, pki.EncryptionConfig)
	switch {
	case fault.Is(err, fault.Gone) && k.used:
		return nil, fault.Wrap(fault.Gone, err, "spec.encryptionConfig is true: store the configuration with kops create secret encryptionconfig")
	case fault.Is(err, fault.Gone):
		return k, nil
	case err != nil:
		return nil, err
	}
	config, err := encryption.Parse([]byte(secret.Reveal()))
	switch {
	case err == nil:
		k.config = config
	case k.used:
		return nil, fault.Wrap(fault.Permanent, fmt.Errorf("secret %s: %w", pki.EncryptionConfig, err), "correct it with kops create secret encryptionconfig and option:Force")
	}
	return k, nil
}

// encrypts reports whether the API servers of a cluster encrypt objects.
func encrypts(c *api.Cluster) bool { return c.Spec.EncryptionConfig != nil && *c.Spec.EncryptionConfig }

// retiredKeys reads the retired keys, and the version for the precondition of their next write.
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

// versioned is the text of a secret, and its version; both are empty if it does not exist.
type versioned struct {
	text    string
	version store.Version
}

// backupRetention returns how long the backups of a cluster are kept at most.
func backupRetention(c *api.Cluster) time.Duration {
	days := uint32(0)
	for _, e := range c.Spec.EtcdClusters {
		own := uint32(defaultRetention)
		if e.Manager != nil && e.Manager.BackupRetentionDays != nil {
			own = *e.Manager.BackupRetentionDays
		}
		days = max(days, own)
	}
	return time.Duration(days) * 24 * time.Hour
}

// judgeRecorded judges a backup by what was recorded when it was taken: all keys that API servers
// could read with; it may need fewer.
func (k *keyring) judgeRecorded(f *etcd.Facts) EtcdEncryption {
	if k == nil || f == nil || f.Encryption == nil {
		return EtcdEncryption{State: EtcdUnknown}
	}
	var out EtcdEncryption
	for _, id := range f.Encryption {
		k.addKey(&out, id)
	}
	return out.withState()
}

// judgeObjects judges a backup by its encrypted objects, and returns the needed keys that were
// retired at some time, whether or not the configuration has them again.
func (k *keyring) judgeObjects(needs []unseal.Need) (EtcdEncryption, []encryption.Retired) {
	var out EtcdEncryption
	var back []encryption.Retired
	for _, n := range needs {
		if n.KMS() {
			k.addKey(&out, encryption.KeyID{Provider: n.Provider, Name: n.Name})
		}
		for _, key := range n.Keys {
			k.addKey(&out, key.ID())
			if r, ok := k.retired.Find(key.ID()); ok {
				back = append(back, r)
			}
		}
		if n.Missing {
			out.Missing = append(out.Missing, EtcdKey{Provider: n.Provider, Name: n.Name})
		}
	}
	return out.withState(), back
}

// addKey adds a key that a backup needs.
func (k *keyring) addKey(e *EtcdEncryption, id encryption.KeyID) {
	if id.Provider == "kms" {
		e.Plugins = append(e.Plugins, id.Name)
	}
	if !k.used {
		e.State = EtcdNeedsEncryption
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

// withState returns e with its state.
func (e EtcdEncryption) withState() EtcdEncryption {
	switch {
	case len(e.Missing) > 0:
		e.State = EtcdUnreadable
	case e.State == EtcdNeedsEncryption:
	case len(e.Retired) > 0:
		e.State = EtcdNeedsKey
	default:
		e.State = EtcdReadable
	}
	return e
}

// all returns all available keys.
func (k *keyring) all() []encryption.Retired { return encryption.AllKeys(k.config, k.retired) }

// keepRetired keeps the keys of a configuration that its successor (nil if there is no successor)
// does not have: backups from before need them. It must be called before the successor is written.
// Keys that no backup needs are removed.
func (c *Client) keepRetired(ctx context.Context, cluster string, f *clusterstore.Folders, was, now *encryption.Config) error {
	before, at, err := retiredKeys(ctx, f)
	if err != nil {
		return err
	}
	cl, err := c.Clusters().Get(ctx, cluster)
	if err != nil {
		return err
	}
	keys, err := c.unexpiredKeys(ctx, cl, before.Retire(was, now, c.cfg.World.Now()))
	if err != nil {
		return err
	}
	text, err := keys.Text()
	if err != nil || text == at.text || at.version == "" && len(keys.Keys) == 0 {
		return err
	}
	return f.ReplaceSecret(ctx, pki.RetiredKeys, pki.NewSecret(text), at.version)
}

// unexpiredKeys returns the keys that backups may need: those whose retirement is more recent than
// the retention of backups, and those with a backup from before their retirement.
func (c *Client) unexpiredKeys(ctx context.Context, cl *Cluster, l encryption.RetiredKeys) (encryption.RetiredKeys, error) {
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
