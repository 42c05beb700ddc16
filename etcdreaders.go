package kops

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/encryption"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store/clusterstore"
)

// restoreRefusal returns the error for a backup that must not be restored.
func (a *etcdArchive) restoreRefusal(b EtcdBackup, foreign bool) error {
	switch {
	case b.Foreign != "" && !foreign:
		return fault.Wrap(fault.Permanent, fmt.Errorf("the backup %s of etcd %s does not seem to come from cluster %s: %s", b.Name, a.name, a.cluster, b.Foreign),
			"restore another, "+a.list()+"; if it is the right one, use option:Foreign")
	case b.Encryption.State == EtcdUnreadable:
		return fault.Wrap(fault.Permanent, fmt.Errorf("API servers of cluster %s could not read the backup %s of etcd %s: %s", a.cluster, b.Name, a.name, a.missingKeys(b.Encryption)),
			"restore another, "+a.list()+"; or add the key after the others of the EncryptionConfiguration, and store that with kops create secret encryptionconfig and option:Force")
	case b.Encryption.State == EtcdNeedsEncryption:
		remedy := "set spec.encryptionConfig: true first, and update the machines: kops update cluster " + a.cluster + " --yes, and kops rolling-update cluster " + a.cluster + " --yes"
		if a.keys.config == nil {
			remedy = "store a configuration with kops create secret encryptionconfig; then " + remedy
		}
		return fault.Wrap(fault.Permanent, fmt.Errorf("API servers of cluster %s could not read the backup %s of etcd %s: it has encrypted objects, and spec.encryptionConfig is not true", a.cluster, b.Name, a.name), remedy)
	}
	return nil
}

// missingKeys describes which keys of a backup are missing.
func (a *etcdArchive) missingKeys(e EtcdEncryption) string {
	var missing []string
	for _, k := range e.Missing {
		missing = append(missing, encryption.KeyID(k).String())
	}
	return "it has objects encrypted by " + strings.Join(missing, ", ") + ", which neither the secret " + pki.EncryptionConfig + " nor the retired keys have"
}

// restoreNotes returns notes on tokens in a backup that API servers will reject, and on KMS plugins that it needs.
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

// putBack makes API servers read with the retired keys that the backup needs. If the API does
// not answer, it is unknown whether they do.
func (p *restoring) putBack(ctx context.Context) error {
	err := p.c.changeKeys(ctx, p.progress, func(ctx context.Context, f *clusterstore.Folders) (string, error) {
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
		return "restored retired keys that the backup " + p.Backup.Name + " of etcd needs", f.ReplaceSecret(ctx, pki.EncryptionConfig, pki.NewSecret(text), version)
	})
	if err != nil {
		return err
	}
	p.ready = true
	err = p.c.applyToMachines(ctx, p.progress.cluster, applyOptions{ReachOptions: p.o.ReachOptions, roll: p.o.Roll, on: p.o.On, groups: (*api.InstanceGroup).HasAPIServer})
	var away *unreachedError
	if errors.As(err, &away) {
		p.Unconfirmed, err = away.Error(), nil
	}
	return err
}

// rewindRotation makes a rotation in progress rewrite everything with the new key again: the
// restored data is encrypted with the old one.
func (c *Client) rewindRotation(ctx context.Context, cluster string) error {
	s, version, err := c.rotation(ctx, cluster)
	if err != nil {
		return err
	}
	back, changed := s.Rewind()
	if !changed {
		return nil
	}
	_, err = c.putRotation(ctx, cluster, back, version)
	return err
}
