package kops

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/validate"
	"kops.local/kops/internal/spec/versions"
	"kops.local/kops/internal/store"
)

// gathered is what completing and modelling a cluster needs of the world.
type gathered struct {
	facts   *facts.Facts
	channel *versions.Channel
	// keysets are those that exist, and new ones for those that the stored spec lacks.
	keysets map[string]*pki.Keyset
	// founding says that the cluster has no authority yet: no machine of it has ever run.
	founding bool
	// secrets are the names of those that exist, and tokens the random ones that do not.
	secrets    map[string]bool
	tokens     map[string]pki.Secret
	encryption pki.Secret
	sshKeys    []string
	// applied is the version of this program that applied the cluster last, or "".
	applied string
	// workersMove says that workers are to get another version of Kubernetes than they
	// had, and running is then the one that the control plane runs; "" is not known.
	workersMove bool
	running     string
}

// gather reads all of it at once.
func (c *Client) gather(ctx context.Context, p *prepared, o UpdateOptions) error {
	c.cfg.Phase("look up")
	g, parts := errgroup.WithContext(ctx)
	work := []func(context.Context) error{
		func(parts context.Context) error {
			err := p.lookUp(parts, o.Facts)
			if err == nil && o.ahead != nil {
				p.askAhead(ctx, o.ahead) // for longer than the parts take
			}
			return err
		},
		p.readChannel, p.readKeysets, p.readSecrets, p.readSSHKeys, p.readVersion,
	}
	if !o.IgnoreSkew && o.Facts == nil && !c.cfg.Offline {
		work = append(work, p.readWorkers)
	}
	for _, part := range work {
		g.Go(func() error { return part(parts) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if err := p.readEncryption(ctx); err != nil {
		return err
	}
	if err := p.findRunning(ctx); err != nil {
		return err
	}
	return p.judge(validate.SSHKeys(p.cluster.Spec, len(p.sshKeys)))
}

// lookUp takes the facts that are known, or asks the platform, and lets the session know.
func (p *prepared) lookUp(ctx context.Context, known *facts.Facts) (err error) {
	if p.facts = known; known == nil {
		p.facts, err = p.provider.LookUp(ctx, p.session, p.cluster.Spec, p.cluster.Groups)
	}
	if err == nil && p.provider.Know != nil {
		p.provider.Know(p.session, p.facts)
	}
	return err
}

// readChannel reads the channel; without it, nothing is recommended.
func (p *prepared) readChannel(ctx context.Context) (err error) {
	name := p.cluster.Spec.Spec.Channel
	if p.channel, err = p.client.channel(ctx, name); err != nil {
		p.warnings = append(p.warnings, diag.Finding{Rule: "channel", Path: "spec.channel", Value: name, Warning: true,
			Message: "could not be read: " + err.Error()})
	}
	return nil
}

// readKeysets reads the keysets; those that do not exist are made, in memory.
func (p *prepared) readKeysets(ctx context.Context) error {
	existing, err := p.places.Keysets(ctx)
	if err != nil {
		return err
	}
	p.founding = existing[pki.KubernetesCA] == nil
	p.keysets, _, err = pki.Ensure(existing, pki.KeysetNames(p.cluster.Spec), p.client.issuer())
	return err
}

// readSecrets lists the secrets, and makes the random ones that do not exist.
func (p *prepared) readSecrets(ctx context.Context) error {
	names, err := p.places.SecretNames(ctx)
	if err != nil {
		return err
	}
	p.secrets = map[string]bool{}
	for _, n := range names {
		p.secrets[n] = true
	}
	p.tokens, err = pki.MissingTokens(p.secrets, p.client.cfg.Random)
	return err
}

// readEncryption checks that the secrets that the cluster asks for are there, and
// reads what becomes part of files. The key that encrypts etcd is made for a
// hardened cluster with its authority: with another one than it began with, no API
// server could read what it has stored.
func (p *prepared) readEncryption(ctx context.Context) (err error) {
	on := p.cluster.Spec.Spec.EncryptionConfig
	encrypts := on != nil && *on
	if encrypts && p.founding && p.cluster.Spec.IsHardened() && !p.secrets[pki.EncryptionConfig] {
		if p.encryption, err = pki.NewEncryptionConfig(p.client.cfg.Random); err != nil {
			return err
		}
		p.tokens[pki.EncryptionConfig], p.secrets[pki.EncryptionConfig] = p.encryption, true
		encrypts = false // it is known already
	}
	if err := validate.Secrets(p.cluster.Spec, func(name string) bool { return p.secrets[name] }).Err(); err != nil {
		return err
	}
	if encrypts {
		p.encryption, err = p.places.Secret(ctx, pki.EncryptionConfig)
	}
	return err
}

func (p *prepared) readSSHKeys(ctx context.Context) error {
	keys, err := p.places.SSHKeys(ctx)
	for _, k := range keys {
		p.sshKeys = append(p.sshKeys, k.Text)
	}
	return err
}

// versionFile holds the version of the program that applied a cluster last.
const versionFile = layout.Version

// readVersion reads that file, unless its listing tells that it says what this
// program would write.
func (p *prepared) readVersion(ctx context.Context) error {
	if p.places.Base.Store == nil {
		return nil
	}
	listing, err := p.places.Base.Listing(ctx)
	i := slices.IndexFunc(listing, func(i store.Info) bool { return i.Key == versionFile })
	if err != nil || i < 0 {
		return err
	}
	if own := p.client.cfg.Version; listing[i].Digest == store.Digest([]byte(own)) {
		p.applied = own
		return nil
	}
	data, _, err := p.places.Base.Store.Get(ctx, versionFile)
	if err != nil {
		return fmt.Errorf("read the version that applied the cluster last: %w", err)
	}
	p.applied = strings.TrimSpace(string(data))
	return nil
}
