package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/validate"
	"kops.local/kops/internal/spec/versions"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/clusterstore"
)

// Known is an opened cluster with what is needed to complete it.
type Known struct {
	*Opened
	Facts *facts.Facts
	// Channel may be nil: then there are no recommendations.
	Channel *versions.Channel
	// Running is the version of Kubernetes that the control plane runs; it is only determined if
	// workers are about to get another version. "" means unknown.
	Running string
	// Warnings are the warnings of all stages up to this one.
	Warnings diag.List

	kept kept
}

// LookUp finds out only what is needed to complete a cluster. Known facts are used instead of
// querying the platform.
func (o *Opened) LookUp(ctx context.Context, known *facts.Facts) (*Known, error) {
	f, err := o.FactsOf(ctx, known)
	if err != nil {
		return nil, err
	}
	var k kept
	if known == nil || o.World.Offline { // offline, a store that cannot be reached is left out
		if k, err = o.readKept(ctx); err != nil {
			return nil, err
		}
	}
	ch, warnings := o.readChannel(ctx)
	return &Known{Opened: o, Facts: f, Channel: ch, Warnings: warnings, kept: k}, nil
}

// FactsOf returns the known facts, or queries the platform, and passes them to the session.
func (o *Opened) FactsOf(ctx context.Context, known *facts.Facts) (_ *facts.Facts, err error) {
	if known == nil {
		known, err = o.Provider.Lookup.Facts(ctx, o.Session, o.Cluster.Spec, o.Cluster.Groups)
	}
	if err == nil && o.Provider.Lookup.SetFacts != nil {
		err = o.Provider.Lookup.SetFacts(o.Session, known)
	}
	return known, err
}

// readChannel reads the channel; without it, there are no recommendations.
func (o *Opened) readChannel(ctx context.Context) (*versions.Channel, diag.List) {
	name := o.Cluster.Spec.Spec.Channel
	ch, err := o.World.Channel(ctx, name)
	if err != nil {
		return nil, diag.List{{Rule: "channel", Path: "spec.channel", Value: name, Warning: true,
			Message: "could not be read: " + err.Error()}}
	}
	return ch, nil
}

// Gathered is an opened cluster with what is needed to complete and model it.
type Gathered struct {
	*Known
	// Keysets are the existing ones, and new ones for those that are missing in the stored spec.
	Keysets map[string]*pki.Keyset
	secrets secrets
	sshKeys []string
	// appliedVersion is the version of this program that last applied the cluster, or "".
	appliedVersion string
	// prefetched, if not nil, is the platform's client for one observation, which is already under
	// way.
	prefetched any
}

// GatherOptions specify what is gathered.
type GatherOptions struct {
	// Facts, if set, are used instead of querying the platform.
	Facts *facts.Facts
	// IgnoreSkew skips the query for the control plane's version.
	IgnoreSkew bool
	// Prefetch, if not nil, starts the observation of the platform before the desired objects are
	// known, and counts its requests; the caller must wait for them.
	Prefetch *sync.WaitGroup
}

// Gather reads everything concurrently.
func (o *Opened) Gather(ctx context.Context, opts GatherOptions) (*Gathered, error) {
	g := &Gathered{Known: &Known{Opened: o}}
	var (
		warnings diag.List
		founding bool
		move     bool
		group, c = errgroup.WithContext(ctx)
	)
	group.Go(func() (err error) {
		if g.Facts, err = o.FactsOf(c, opts.Facts); err == nil && opts.Prefetch != nil {
			g.prefetched = o.prefetch(ctx, opts.Prefetch) // it outlives the concurrent parts
		}
		return err
	})
	group.Go(func() error {
		g.Channel, warnings = o.readChannel(c)
		return nil
	})
	group.Go(func() error { return o.Places.CheckOwned(c, true) })
	group.Go(func() (err error) {
		g.Keysets, founding, err = o.readKeysets(c)
		return err
	})
	group.Go(func() (err error) {
		g.secrets, err = o.readSecrets(c)
		return err
	})
	group.Go(func() (err error) {
		g.sshKeys, err = o.readSSHKeys(c)
		return err
	})
	if opts.Facts == nil || o.World.Offline {
		group.Go(func() (err error) {
			g.kept, err = o.readKept(c)
			return err
		})
	}
	group.Go(func() (err error) {
		g.appliedVersion, err = o.readVersion(c)
		return err
	})
	if !opts.IgnoreSkew && opts.Facts == nil && !o.World.Offline {
		group.Go(func() (err error) {
			move, err = o.areWorkersUpgrading(c)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	err := o.checkFounding(ctx, founding || len(g.secrets.names) == 0)
	if err != nil {
		return nil, err
	}
	if g.secrets, err = o.readEncryption(ctx, g.secrets, founding); err != nil {
		return nil, err
	}
	if g.secrets.names[pki.DockerConfig] {
		if g.secrets.docker, err = o.Places.Secret(ctx, pki.DockerConfig); err != nil {
			return nil, err
		}
	}
	g.secrets.inManifests = map[string]pki.Secret{}
	for _, n := range pki.InManifests() {
		if g.secrets.names[n] {
			if g.secrets.inManifests[n], err = o.Places.Secret(ctx, n); err != nil {
				return nil, err
			}
		}
	}
	g.Warnings = slices.Concat(o.Cluster.Warnings, warnings)
	if move {
		var unknown diag.List
		if g.Running, unknown, err = o.findRunning(ctx, g.Keysets[pki.KubernetesCA]); err != nil {
			return nil, err
		}
		g.Warnings = append(g.Warnings, unknown...)
	}
	g.Warnings, err = join(g.Warnings, validate.SSHKeys(o.Cluster.Spec, &o.Provider.Traits, len(g.sshKeys)))
	return g, err
}

// join adds findings to warnings; if one of them is not a warning, they are an error.
func join(warnings, findings diag.List) (diag.List, error) {
	if err := findings.Err(); err != nil {
		return nil, err
	}
	return slices.Concat(warnings, findings), nil
}

// prefetch starts to observe the platform while the graph is being built, and returns the client
// that does so.
func (o *Opened) prefetch(ctx context.Context, asking *sync.WaitGroup) any {
	if o.Session.Prefetch == nil {
		return nil
	}
	prefetched := o.Session.Snapshot()
	asking.Go(func() { o.Session.Prefetch(ctx, prefetched, o.Cluster.Spec.Name) })
	return prefetched
}

// readKeysets reads the keysets; missing ones are created in memory. A cluster that has no
// authority yet is being founded: none of its machines has ever run.
func (o *Opened) readKeysets(ctx context.Context) (all map[string]*pki.Keyset, founding bool, err error) {
	existing, err := o.Places.Keysets(ctx)
	if err != nil {
		return nil, false, err
	}
	founding = existing[pki.KubernetesCA] == nil
	all, _, err = pki.Ensure(existing, pki.KeysetNames(o.Cluster.Spec), o.World.Issuer(ctx))
	return all, founding, err
}

// checkFounding refuses to create keys for a cluster that has them in a store that cannot be
// reached: machines trust no others.
func (o *Opened) checkFounding(ctx context.Context, founding bool) error {
	if !founding || o.Places.Unreached == "" {
		return nil
	}
	history, err := o.World.Store.History(ctx, o.Cluster.Spec.Name)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(history, func(r clusterstore.Revision) bool { return r.Fence > 0 && r.Result == "done" }) {
		return nil
	}
	return fault.Wrap(fault.Permanent, fmt.Errorf("cluster %s has its keys in %s, which is not read with option:Facts because the state store is local; new keys would replace them",
		o.Cluster.Spec.Name, o.Places.Unreached), "run the command without option:Facts")
}

// secrets are the names of the existing secrets, new values for the missing random ones, and the
// configuration by which etcd is encrypted, if any.
type secrets struct {
	names      map[string]bool
	tokens     map[string]pki.Secret
	encryption pki.Secret
	docker     pki.Secret // with which machines pull images
	// inManifests are those of pki.InManifests that exist.
	inManifests map[string]pki.Secret
}

// readSecrets lists the secrets, and creates the missing random ones.
func (o *Opened) readSecrets(ctx context.Context) (s secrets, err error) {
	names, err := o.Places.SecretNames(ctx)
	if err != nil {
		return s, err
	}
	s.names = map[string]bool{}
	for _, n := range names {
		s.names[n] = true
	}
	s.tokens, err = pki.MissingTokens(s.names, o.World.Random)
	return s, err
}

// readEncryption checks that the secrets that the cluster requires exist, and reads the encryption
// config, which becomes part of files. A hardened cluster gets its etcd encryption key together
// with its authority: with a key created later, API servers could not read the objects stored
// before.
func (o *Opened) readEncryption(ctx context.Context, s secrets, founding bool) (_ secrets, err error) {
	on := o.Cluster.Spec.Spec.EncryptionConfig
	encrypts := on != nil && *on
	if encrypts && founding && o.Cluster.Spec.IsHardened() && !s.names[pki.EncryptionConfig] {
		if s.encryption, err = pki.NewEncryptionConfig(o.World.Random); err != nil {
			return s, err
		}
		s.tokens[pki.EncryptionConfig], s.names[pki.EncryptionConfig] = s.encryption, true
		encrypts = false // it is already known
	}
	if err := validate.Secrets(o.Cluster.Spec, func(name string) bool { return s.names[name] }).Err(); err != nil {
		return s, err
	}
	if encrypts {
		s.encryption, err = o.Places.Secret(ctx, pki.EncryptionConfig)
	}
	return s, err
}

func (o *Opened) readSSHKeys(ctx context.Context) ([]string, error) {
	keys, err := o.Places.SSHKeys(ctx)
	var out []string
	for _, k := range keys {
		if _, bad := clusterstore.NewSSHKey(k.Text); bad != nil {
			name := o.Cluster.Spec.Name
			return nil, fault.Wrap(fault.Permanent, fmt.Errorf("the SSH public key %s of cluster %s cannot be used: %w", k.Fingerprint, name, bad),
				fmt.Sprintf("delete it: kops delete sshpublickey %s; then add it again: kops create sshpublickey %s -i FILE", name, name))
		}
		out = append(out, k.Text)
	}
	return out, err
}

// readVersion reads which version of this program last applied the cluster, unless the listing
// shows that it was this one.
func (o *Opened) readVersion(ctx context.Context) (string, error) {
	if o.Places.Base.Store == nil {
		return "", nil
	}
	listing, err := o.Places.Base.Listing(ctx)
	i := slices.IndexFunc(listing, func(i store.Info) bool { return i.Key == layout.Version })
	if err != nil || i < 0 {
		return "", err
	}
	if own := o.World.Version; listing[i].Digest == store.Digest([]byte(own)) {
		return own, nil
	}
	data, _, err := o.Places.Base.Store.Get(ctx, layout.Version)
	if err != nil {
		return "", fmt.Errorf("read the version that applied the cluster last: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}
