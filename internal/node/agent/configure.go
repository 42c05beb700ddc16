package agent

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/agent/node"
	"kops.local/kops/internal/node/bootstrap"
)

// configure gets the node configuration and checks that it is the one that the machine was
// started with, or the one that it has been told to take since.
func (r *run) configure(ctx context.Context) error {
	var text []byte
	var err error
	if r.boot.ConfigBase != "" {
		url := strings.TrimSuffix(r.boot.ConfigBase, "/") + "/" + layout.NodeConfig(r.boot.InstanceGroupRole, r.boot.InstanceGroupName)
		if text, err = r.read(ctx, url); err != nil {
			return fmt.Errorf("read the node configuration: %w", err)
		}
	} else {
		var secrets map[string][]byte
		if r.joiner, err = r.Join(r.boot, r.recordRetry); err != nil {
			return err
		}
		if text, secrets, err = r.joiner.Configuration(ctx, r.requestedHash); err != nil {
			return fmt.Errorf("get the node configuration from kops-controller: %w", withRemedy(err))
		}
		for name, s := range secrets {
			r.input.Secrets[name] = pki.NewSecret(string(s))
		}
	}
	want, err := r.hash()
	if err != nil {
		return err
	}
	if got := nodeconfig.Hash(text); want != "" && got != want {
		if r.requestedHash != "" {
			return fault.Wrap(fault.NotYet, fmt.Errorf("the node configuration of the group differs from the requested one: its hash is %s, not %s", got, want),
				"run kops update cluster --yes and then kops rolling-update cluster --yes")
		}
		// the cluster's configuration is newer; the machine keeps its own until its turn comes
		if text, err = r.keptConfig(want); err != nil {
			return fault.Wrap(fault.NotYet, fmt.Errorf("the node configuration is not the one that this machine was started with: its hash is %s, not %s", got, want),
				"run kops update cluster --yes and then kops rolling-update cluster --yes, so that the machine is replaced by one with the new configuration")
		}
		r.usesKeptConfig = true
	}
	r.text = text
	return r.parseConfig()
}

// keptConfig returns the configuration of the machine's last run if it has the given hash.
func (r *run) keptConfig(hash string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(r.Machine.Root, configFile))
	if err == nil && nodeconfig.Hash(text) != hash {
		err = fault.New(fault.Gone, "the configuration of the last run has another hash")
	}
	return text, err
}

// parseConfig parses the text of the node configuration.
func (r *run) parseConfig() error {
	c, err := nodeconfig.Parse(r.text)
	r.input.Config = c
	return err
}

// withRemedy adds a remedy to an error from kops-controller.
func withRemedy(err error) error {
	remedy := "see the log of kops-controller on the control plane for the reason; if it does not know the machine, replace the machine"
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &certificate):
		remedy = "check that the address belongs to this cluster; if the certificate authority was replaced, run kops update cluster --yes and replace the machine"
	case errors.As(err, new(*bootstrap.Trouble)):
		remedy = "see the log of kops-controller on the control plane for the reason; the machine retries by itself"
	case fault.Of(err).Retryable():
		remedy = "check that kops-controller runs on the control plane, and that this machine can reach its port"
	}
	if err = clockRemedy(err); err == nil || errors.Is(err, ErrJoined) || fault.Remedy(err) != "" {
		return err
	}
	return fault.Wrap(fault.Of(err), err, remedy)
}

func (r *run) read(ctx context.Context, url string) ([]byte, error) {
	if r.Store == nil {
		return nil, fmt.Errorf("read %s: this nodeup cannot read the store", url)
	}
	text, err := r.Store.Read(ctx, url)
	if err = clockRemedy(err); fault.Is(err, fault.Gone) && fault.Remedy(err) == "" {
		err = fault.Wrap(fault.Gone, err, "run kops update cluster --yes to write it, and check that the machine can reach the cluster's store")
	}
	if err != nil && !strings.Contains(err.Error(), url) { // a store's errors already name what it read
		err = fmt.Errorf("read %s: %w", url, err)
	}
	return text, err
}

// readStore reads everything that a machine with an API server needs from the store, in parallel.
func (r *run) readStore(ctx context.Context) error {
	c := r.input.Config
	if c.ConfigStore == nil {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	base := strings.TrimSuffix(r.boot.ConfigBase, "/") + "/"
	get := func(url string, optional bool, f func([]byte) error) {
		g.Go(func() error {
			text, err := r.read(ctx, url)
			if optional && fault.Is(err, fault.Gone) {
				return nil
			}
			if err != nil {
				return err
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			if err := f(text); err != nil {
				return fmt.Errorf("read %s: %w", url, err)
			}
			return nil
		})
	}
	manifest := func(url string, keep func(text string)) {
		get(url, false, func(text []byte) error {
			r.shapes[strings.TrimPrefix(url, base)] = labels.Digest(text)
			keep(string(text))
			return nil
		})
	}
	for name := range c.KeypairIDs {
		get(c.ConfigStore.Keypairs+"/private/"+name+"/keyset.yaml", false, func(text []byte) error { return r.keyset(name, text) })
	}
	secrets := []string{pki.DockerConfig, pki.EncryptionConfig}
	if a := c.APIServerConfig; a != nil && a.KubeAPIServer != nil && a.KubeAPIServer.TokenAuthFile != "" {
		secrets = append(secrets, pki.TokenNames()...)
	}
	for _, name := range secrets {
		get(c.ConfigStore.Secrets+"/"+name, true, func(text []byte) error {
			s, err := pki.DecodeSecret(text)
			r.input.Secrets[name] = s
			return err
		})
	}
	if names := r.platformSecrets(); len(names) > 0 {
		get(base+layout.PlatformSecrets, false, func(text []byte) error { return r.keepSecrets(text, names) })
	}
	for _, url := range c.EtcdManifests {
		manifest(url, func(text string) { r.input.Etcd[strings.TrimSuffix(path.Base(url), ".yaml")] = text })
	}
	if c.ChannelsManifest != "" {
		manifest(c.ChannelsManifest, func(text string) { r.input.Channels = text })
	}
	for _, m := range c.StaticManifests {
		manifest(base+m.Path, func(text string) { r.input.Static[m.Key] = text })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return r.encryption()
}

// platformSecrets returns the names of the secrets with which this machine uses its platform: only the
// managers of etcd do.
func (r *run) platformSecrets() []string {
	if r.PlatformSecrets == nil || len(r.input.Config.EtcdManifests) == 0 {
		return nil
	}
	return r.PlatformSecrets(r.boot.CloudProvider)
}

// keepSecrets records the named secrets in a file of secrets, which must have them.
func (r *run) keepSecrets(text []byte, names []string) error {
	all, err := pki.DecodeSecrets(text)
	if err != nil {
		return err
	}
	for _, n := range names {
		s, ok := all[n]
		if !ok {
			return fault.New(fault.Gone, "it has no %s", n)
		}
		r.input.PlatformSecrets[n] = s
	}
	return nil
}

// encryption checks that the secret with which the API server encrypts stored objects is the
// configuration's: with another secret, or without one, this API server could not read what the
// others have written.
func (r *run) encryption() error {
	const name = pki.EncryptionConfig
	a := r.input.Config.APIServerConfig
	if a == nil || a.EncryptionConfigSecretHash == "" {
		return nil
	}
	s, found := r.input.Secrets[name]
	switch {
	case !found:
		return fault.Wrap(fault.Gone, fmt.Errorf("the secret %s does not exist", name), "write its content to secrets/"+name+" in the cluster's folder of the state store; spec.encryptionConfig needs it")
	case nodeconfig.Hash([]byte(s.Reveal())) != a.EncryptionConfigSecretHash:
		return fault.Wrap(fault.NotYet, fmt.Errorf("the secret %s has changed since this machine was started", name), "run kops update cluster --yes and then kops rolling-update cluster --yes")
	}
	return nil
}

// keyset decodes a keyset and checks that its primary key is the one that the configuration names. A
// renewal, and a machine that uses its last configuration, keep using that key, whichever key is
// primary by now.
func (r *run) keyset(name string, text []byte) error {
	objects, _, err := compat.Decode(bytes.TrimSpace(text), compat.Options{Lenient: true})
	if err != nil {
		return err
	}
	if len(objects) != 1 {
		return fmt.Errorf("the file contains %d objects instead of one keyset", len(objects))
	}
	o, ok := objects[0].(*api.Keyset)
	if !ok {
		return errors.New("the file does not hold a keyset")
	}
	o.Name = name
	k, err := pki.FromAPI(o)
	if err != nil {
		return err
	}
	want := r.input.Config.KeypairIDs[name]
	if (r.renewing || r.usesKeptConfig) && slices.ContainsFunc(k.Items, func(i pki.Item) bool { return i.ID == want && i.Trusted() }) {
		k.Primary = want
	}
	if want != k.Primary {
		return fault.Wrap(fault.NotYet, fmt.Errorf("the primary key of %s is %s, but the machine was started when it was %s", name, k.Primary, want),
			"run kops update cluster --yes and then kops rolling-update cluster --yes")
	}
	r.input.Keysets[name] = k
	return nil
}

func newInput() node.Input {
	return node.Input{Keysets: map[string]*pki.Keyset{}, Secrets: map[string]pki.Secret{}, PlatformSecrets: map[string]pki.Secret{}, Etcd: map[string]string{}, Static: map[string]string{}}
}
