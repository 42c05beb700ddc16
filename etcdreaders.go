package kops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/encryption"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/ops/rotate"
	"kops.local/kops/internal/store/clusterstore"
)

// refuse returns the error of a backup that is not to be restored.
func (a *etcdArchive) refuse(b EtcdBackup, foreign bool) error {
	switch {
	case b.Foreign != "" && !foreign:
		return fault.Wrap(fault.Permanent, fmt.Errorf("the backup %s of etcd %s does not seem to come from cluster %s: %s", b.Name, a.name, a.cluster, b.Foreign),
			"restore another, "+a.list()+"; if it is the right one, use option:Foreign")
	case b.Encryption.State == EtcdUnreadable:
		return fault.Wrap(fault.Permanent, fmt.Errorf("API servers of cluster %s could not read the backup %s of etcd %s: %s", a.cluster, b.Name, a.name, a.unreadable(b.Encryption)),
			"restore another, "+a.list()+"; or add the key after the others of the EncryptionConfiguration, and store that with kops create secret encryptionconfig and option:Force")
	}
	return nil
}

// unreadable says which keys of a backup are not there.
func (a *etcdArchive) unreadable(e EtcdEncryption) string {
	var missing []string
	for _, k := range e.Missing {
		missing = append(missing, encryption.KeyID(k).String())
	}
	out := "it has objects encrypted by " + strings.Join(missing, ", ") + ", which neither the secret " + pki.EncryptionConfig + " nor the retired keys have"
	if a.keys.config == nil {
		out += "; spec.encryptionConfig is not true"
	}
	return out
}

// restoreNotes says what in a backup other keys have signed than those that sign now.
func (c *Client) restoreNotes(ctx context.Context, cl *Cluster, b EtcdBackup) ([]string, error) {
	f, err := c.store.Folders(ctx, cl.Spec, cl.stored())
	if err != nil {
		return nil, err
	}
	var out []string
	keys, _, err := f.Keyset(ctx, pki.ServiceAccount)
	switch {
	case fault.Is(err, fault.Gone): // the cluster was never applied
	case err != nil:
		return nil, err
	case slices.ContainsFunc(keys.Items, func(i pki.Item) bool { return i.Distrusted.After(b.Time) }):
		out = append(out, "The service account key was replaced since then: tokens in Secrets of this backup will be rejected. Pods get new tokens by themselves; for the Secrets: kops rotate service-account "+cl.Spec.Name+" --yes")
	}
	for _, p := range b.Encryption.Plugins {
		out = append(out, "Objects in this backup are encrypted by the KMS plugin "+p+", which must still have the key of that time; kops cannot check this.")
	}
	return out, nil
}

// putBack has API servers read by the retired keys that the backup needs. Where the API does
// not answer, it is not known whether they do.
func (p *restoring) putBack(ctx context.Context) error {
	err := p.c.changeKeys(ctx, p.told, func(ctx context.Context, f *clusterstore.Folders) (string, error) {
		secret, version, err := f.SecretAt(ctx, pki.EncryptionConfig)
		if err != nil {
			return "", err
		}
		config, err := encryption.Parse([]byte(secret.Reveal()))
		for _, k := range p.back {
			if err == nil {
				config, err = config.PutBack(k)
			}
		}
		if err != nil {
			return "", fmt.Errorf("secret %s: %w", pki.EncryptionConfig, err)
		}
		text, err := config.Text()
		if err != nil || text == secret.Reveal() {
			return "", err
		}
		return "put back retired keys that the backup " + p.Backup.Name + " of etcd needs", f.ReplaceSecret(ctx, pki.EncryptionConfig, pki.NewSecret(text), version)
	})
	if err != nil {
		return err
	}
	p.ready = true
	err = p.c.takeUp(ctx, p.told.cluster, takingUp{ReachOptions: p.o.ReachOptions, roll: p.o.Roll, on: p.o.On, groups: (*api.InstanceGroup).HasAPIServer})
	var away *unreachedError
	if errors.As(err, &away) {
		p.Unconfirmed, err = away.Error(), nil
	}
	return err
}

// rewindRotation has a rotation that is under way write everything with the new key again: what
// is restored is written with the old one.
func (c *Client) rewindRotation(ctx context.Context, cluster string) error {
	data, version, err := c.store.Rotation(ctx, cluster)
	if err != nil || len(data) == 0 {
		return err
	}
	var s rotate.State
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("read the rotation of cluster %s: %w", cluster, err)
	}
	back, changed := s.Rewind()
	if !changed {
		return nil
	}
	if data, err = json.MarshalIndent(back, "", "  "); err != nil {
		return fmt.Errorf("write the rotation of cluster %s: %w", cluster, err)
	}
	_, err = c.store.PutRotation(ctx, cluster, append(data, '\n'), version)
	return err
}
