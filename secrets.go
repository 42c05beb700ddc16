package kops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/finding"
	"kops.local/kops/internal/contract/encryption"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store/clusterstore"
)

// Names of the secrets that users provide.
const (
	// SecretEncryptionConfig is the EncryptionConfiguration with which API servers encrypt stored data.
	SecretEncryptionConfig = pki.EncryptionConfig
	// SecretDockerConfig contains the credentials with which machines pull images: Docker's config.json.
	SecretDockerConfig = pki.DockerConfig
	// SecretCiliumPassword contains Cilium's IPsec keys.
	SecretCiliumPassword = pki.CiliumPassword
)

// Secrets operates on the secrets of clusters. No method returns their contents.
type Secrets struct {
	c  *Client
	on On
}

// Secrets returns the operations on secrets; on receives their events, and may be nil.
func (c *Client) Secrets(on On) Secrets { return Secrets{c, on} }

// List lists the names of a cluster's secrets, sorted.
func (s Secrets) List(ctx context.Context, cluster string) ([]string, error) {
	f, err := s.c.folders(ctx, cluster)
	if err != nil {
		return nil, err
	}
	return f.SecretNames(ctx)
}

// Create checks and stores one of the secrets that users provide. An existing secret is an error of class fault.Conflict, unless replace is set.
func (s Secrets) Create(ctx context.Context, cluster, name string, text []byte, replace bool) (finding.List, error) {
	if err := checkSecret(name, text); err != nil {
		return nil, fault.Wrap(fault.Permanent, fmt.Errorf("secret %s: %w", name, err), "")
	}
	var warnings finding.List
	err := s.c.changeKeys(ctx, &reporter{cluster: cluster, on: s.on}, func(ctx context.Context, f *clusterstore.Folders) (string, error) {
		was, version, err := f.SecretAt(ctx, name)
		switch {
		case err == nil && !replace:
			return "", fault.Wrap(fault.Conflict, fmt.Errorf("cluster %s already has a secret %s", cluster, name), "use option:Force to replace it")
		case err != nil && !fault.Is(err, fault.Gone):
			return "", err
		}
		if name == SecretEncryptionConfig && err == nil {
			warnings = checkReadable(was, text)
			if err := s.c.keepAllRetired(ctx, cluster, f, was, text); err != nil {
				return "", err
			}
		}
		return "secret " + name + " was stored", f.ReplaceSecret(ctx, name, pki.NewSecret(string(text)), version)
	})
	return warnings, err
}

// keepAllRetired keeps the keys of an EncryptionConfiguration that its replacement text (nil if
// there is no replacement) does not have. An invalid configuration has no keys to keep.
func (c *Client) keepAllRetired(ctx context.Context, cluster string, f *clusterstore.Folders, was pki.Secret, text []byte) error {
	old, err := encryption.Parse([]byte(was.Reveal()))
	if err != nil {
		return nil //nolint:nilerr // the API server could not read it either
	}
	var now *encryption.Config
	if text != nil {
		if now, err = encryption.Parse(text); err != nil {
			return err
		}
	}
	return c.keepRetired(ctx, cluster, f, old, now)
}

// checkSecret refuses contents that their consumer would refuse.
func checkSecret(name string, text []byte) error {
	switch name {
	case SecretEncryptionConfig:
		_, err := encryption.Parse(text)
		return err
	case SecretDockerConfig:
		var config map[string]any
		if err := json.Unmarshal(text, &config); err != nil || config == nil {
			return errors.New("it is not a JSON object, as in ~/.docker/config.json")
		}
		return nil
	case SecretCiliumPassword:
		if strings.TrimSpace(string(text)) == "" {
			return errors.New("it is empty")
		}
		return nil
	}
	return fmt.Errorf("users cannot create it; they can create %s, %s and %s", SecretEncryptionConfig, SecretDockerConfig, SecretCiliumPassword)
}

// checkReadable warns about a configuration with which stored data could not be read.
func checkReadable(was pki.Secret, text []byte) finding.List {
	old, err := encryption.Parse([]byte(was.Reveal()))
	now, nerr := encryption.Parse(text)
	if err != nil || nerr != nil || now.Reads(old) {
		return nil
	}
	return finding.List{{Rule: "unreadable", Warning: true,
		Message: "the new configuration lacks the key that the old one encrypts with: API servers could not read objects encrypted with it",
		Remedy:  "list that key after the new one until all objects are written again; kops rotate encryption does all of this"}}
}

// Delete removes secrets. It is an error if one of them does not exist, or if the cluster
// needs it; then Delete removes no secret.
func (s Secrets) Delete(ctx context.Context, cluster string, names ...string) error {
	cl, err := s.c.Clusters().Get(ctx, cluster)
	if err != nil {
		return err
	}
	if slices.Contains(names, SecretEncryptionConfig) && encrypts(cl.Spec) {
		return fault.Wrap(fault.Permanent, fmt.Errorf("the API servers of %s encrypt with the secret %s, and could not start without it", cluster, SecretEncryptionConfig),
			"first write all objects again with the provider identity, and set spec.encryptionConfig to false")
	}
	return s.c.changeKeys(ctx, &reporter{cluster: cluster, on: s.on}, func(ctx context.Context, f *clusterstore.Folders) (string, error) {
		there, err := f.SecretNames(ctx)
		if err != nil {
			return "", err
		}
		for _, n := range names {
			if !slices.Contains(there, n) {
				return "", fault.New(fault.Gone, "cluster %s has no secret %s", cluster, n)
			}
		}
		for _, n := range names {
			if n == SecretEncryptionConfig {
				if was, err := f.Secret(ctx, n); err == nil { // a damaged one has no keys to keep
					if err := s.c.keepAllRetired(ctx, cluster, f, was, nil); err != nil {
						return "", err
					}
				}
			}
			if err := f.DeleteSecret(ctx, n); err != nil {
				return "", err
			}
		}
		return "deleted the secrets " + strings.Join(names, ", "), nil
	})
}

// changeKeys runs f under the lease of a cluster, and records what it has done, unless
// it has done nothing.
func (c *Client) changeKeys(ctx context.Context, progress *reporter, f func(context.Context, *clusterstore.Folders) (string, error)) error {
	return c.withLease(ctx, progress, func(ctx context.Context, lease *clusterstore.Lease) error {
		cl, err := c.Clusters().Get(ctx, progress.cluster)
		if err != nil {
			return err
		}
		folders, err := c.ownedFolders(ctx, cl)
		if err != nil {
			return err
		}
		if err := lease.Hold(ctx); err != nil {
			return err
		}
		done, err := f(ctx, folders)
		if done == "" || err != nil {
			return err
		}
		_, err = c.store.Append(ctx, lease, cl.stored(), clusterstore.Revision{Result: "done", Message: done})
		return err
	})
}
