package kops

import (
	"context"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store/clusterstore"
)

// AllKeysets selects every keyset of a cluster that can be changed.
const AllKeysets = "all"

// Keypair is an item of a keyset, without its private key.
type Keypair struct {
	Keyset         string     `json:"name"`
	ID             string     `json:"id"`
	Distrusted     *time.Time `json:"distrustTimestamp,omitempty"`
	Primary        bool       `json:"isPrimary,omitempty"`
	Subject        string     `json:"subject,omitempty"`
	Issuer         string     `json:"issuer,omitempty"`
	AlternateNames []string   `json:"alternateNames,omitempty"`
	IsCA           bool       `json:"isCA,omitempty"`
	NotBefore      *time.Time `json:"notBefore,omitempty"`
	NotAfter       *time.Time `json:"notAfter,omitempty"`
	KeyLength      int        `json:"keyLength,omitempty"`
	HasPrivateKey  bool       `json:"hasPrivateKey,omitempty"`
}

// KeypairChange is the effect of a command on an item of a keyset.
type KeypairChange struct {
	Keyset, ID string
	// Unchanged means that the item was already in this state.
	Unchanged bool
}

// CreateKeypairOptions define a new item.
type CreateKeypairOptions struct {
	// Certificate and Key are PEM. An empty one is generated, except the key of a given certificate.
	Certificate, Key []byte
	// Primary makes the item sign from now on.
	Primary bool
}

// Keypairs operates on the items of the keysets of clusters: of authorities, and of the keys that
// sign service account tokens. Every change is made under the cluster's lease.
type Keypairs struct {
	c  *Client
	on On
}

// Keypairs returns the operations on keysets; on receives their events, and may be nil.
func (c *Client) Keypairs(on On) Keypairs { return Keypairs{c, on} }

// List lists the items of the named keysets, or of all, by name and age. If no keyset has any
// of the names, the error is of class fault.Gone.
func (k Keypairs) List(ctx context.Context, cluster string, names ...string) ([]Keypair, error) {
	f, err := k.c.folders(ctx, cluster)
	if err != nil {
		return nil, err
	}
	all, err := f.Keysets(ctx)
	if err != nil {
		return nil, err
	}
	var out []Keypair
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		for _, i := range all[name].Items {
			out = append(out, keypair(all[name], i))
		}
	}
	if len(out) == 0 && len(names) > 0 && len(all) > 0 {
		return nil, fault.Wrap(fault.Gone, fmt.Errorf("cluster %s has no keyset %s", cluster, strings.Join(names, ", ")),
			"its keysets are "+strings.Join(slices.Sorted(maps.Keys(all)), ", "))
	}
	return out, nil
}

func keypair(k *pki.Keyset, i pki.Item) Keypair {
	out := Keypair{Keyset: k.Name, ID: i.ID, Primary: i.ID == k.Primary, HasPrivateKey: !i.Key.IsZero()}
	if !i.Trusted() {
		out.Distrusted = &i.Distrusted
	}
	c := i.Certificate
	if c == nil {
		return out
	}
	out.Subject, out.Issuer, out.IsCA = pki.Subject(c), pki.IssuerOf(c), c.IsCA
	from, to := c.NotBefore.UTC(), c.NotAfter.UTC()
	out.NotBefore, out.NotAfter, out.KeyLength = &from, &to, keyLength(c)
	out.AlternateNames = slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		out.AlternateNames = append(out.AlternateNames, ip.String())
	}
	return out
}

func keyLength(c *x509.Certificate) int {
	switch k := c.PublicKey.(type) {
	case *rsa.PublicKey:
		return k.N.BitLen()
	case *ecdsa.PublicKey:
		return k.Curve.Params().BitSize
	}
	return 0
}

// Create adds an item to a keyset or, with AllKeysets, adds to each keyset a new one that does not sign yet.
func (k Keypairs) Create(ctx context.Context, cluster, keyset string, o CreateKeypairOptions) ([]KeypairChange, error) {
	given := pki.NewItem{Primary: o.Primary}
	var err error
	if keyset == AllKeysets && (o.Primary || len(o.Certificate)+len(o.Key) > 0) {
		return nil, fault.New(fault.Permanent, "with all keysets, kops creates the keypairs and does not promote them: option:Cert, option:Key and option:Primary are for one keyset")
	}
	if len(o.Certificate) > 0 {
		if given.Certificate, err = pki.ParseCertificate(o.Certificate); err != nil {
			return nil, fault.Wrap(fault.Permanent, err, "give a PEM file with a CERTIFICATE block")
		}
	}
	if len(o.Key) > 0 {
		if given.Key, err = pki.ParsePrivateKey(o.Key); err != nil {
			return nil, fault.Wrap(fault.Permanent, err, "give a PEM file with an RSA or ECDSA private key")
		}
	}
	return k.change(ctx, cluster, keyset, "created", o.Primary, func(was *pki.Keyset, name string) (*pki.Keyset, []KeypairChange, error) {
		now, id, err := k.c.world.Issuer(ctx).Add(was, name, given)
		return now, []KeypairChange{{Keyset: name, ID: id}}, err
	})
}

// Promote makes another item of a keyset, or of every keyset, the signing one: the item with the id
// or, if that is empty, the newest one that can sign.
func (k Keypairs) Promote(ctx context.Context, cluster, keyset, id string) ([]KeypairChange, error) {
	return k.change(ctx, cluster, keyset, "promoted", true, func(was *pki.Keyset, name string) (*pki.Keyset, []KeypairChange, error) {
		if was == nil {
			return nil, nil, noKeyset(cluster, name)
		}
		now, id, err := was.Promote(id)
		return now, []KeypairChange{{Keyset: name, ID: id, Unchanged: now == was}}, err
	})
}

// Distrust marks keys of a keyset, or of every keyset, as distrusted: the keys with the given
// ids or, without ids, all keys older than the signing key.
func (k Keypairs) Distrust(ctx context.Context, cluster, keyset string, ids ...string) ([]KeypairChange, error) {
	return k.change(ctx, cluster, keyset, "distrusted", true, func(was *pki.Keyset, name string) (*pki.Keyset, []KeypairChange, error) {
		if was == nil {
			return nil, nil, noKeyset(cluster, name)
		}
		now, changed, err := was.Distrust(ids, k.c.cfg.World.Now())
		return keypairChanges(was, now, name, changed, ids, err)
	})
}

// Trust makes items of a keyset trusted again.
func (k Keypairs) Trust(ctx context.Context, cluster, keyset string, ids ...string) ([]KeypairChange, error) {
	switch {
	case keyset == AllKeysets:
		return nil, fault.New(fault.Permanent, "specify the keyset and the IDs of the keys to trust again")
	case len(ids) == 0:
		return nil, fault.New(fault.Permanent, "specify the IDs of the keys to trust again; kops get keypairs %s --distrusted shows them", keyset)
	}
	return k.change(ctx, cluster, keyset, "trusted", false, func(was *pki.Keyset, name string) (*pki.Keyset, []KeypairChange, error) {
		if was == nil {
			return nil, nil, noKeyset(cluster, name)
		}
		now, changed, err := was.Trust(ids)
		return keypairChanges(was, now, name, changed, ids, err)
	})
}

func noKeyset(cluster, name string) error {
	return fault.Wrap(fault.Gone, fmt.Errorf("cluster %s has no keyset %s", cluster, name), "to list keysets, run kops get keypairs")
}

// keypairChanges returns for each item whether it changed, and the same keyset if none did.
func keypairChanges(was, now *pki.Keyset, name string, changed, ids []string, err error) (*pki.Keyset, []KeypairChange, error) {
	if err != nil {
		return nil, nil, err
	}
	if len(ids) == 0 {
		ids = changed
	}
	var out []KeypairChange
	for _, id := range ids {
		out = append(out, KeypairChange{Keyset: name, ID: id, Unchanged: !slices.Contains(changed, id)})
	}
	if len(changed) == 0 {
		now = was
	}
	return now, out, nil
}

// change changes a keyset, or every keyset, under the cluster's lease. A keyset is only written
// if it has not changed since it was read. If waits is set, it is refused during a rotation.
func (k Keypairs) change(ctx context.Context, cluster, keyset, verb string, waits bool, f func(was *pki.Keyset, name string) (*pki.Keyset, []KeypairChange, error)) ([]KeypairChange, error) {
	if keyset != AllKeysets && !pki.Rotatable(keyset) {
		return nil, fault.New(fault.Permanent, "the keyset %s is not supported; use the keyset of a certificate authority, with -ca in its name, or %s", keyset, pki.ServiceAccount)
	}
	var out []KeypairChange
	err := k.c.changeKeys(ctx, &reporter{cluster: cluster, on: k.on}, func(ctx context.Context, folders *clusterstore.Folders) (string, error) {
		names := []string{keyset}
		if keyset == AllKeysets {
			all, err := folders.Keysets(ctx)
			if err != nil {
				return "", err
			}
			names = slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(n string) bool { return !pki.Rotatable(n) })
			if len(names) == 0 {
				return "", fault.New(fault.Gone, "cluster %s has no keysets yet; run `kops update cluster %s --yes` first", cluster, cluster)
			}
		}
		if waits {
			if err := k.c.checkNotRotated(ctx, cluster, names); err != nil {
				return "", err
			}
		}
		message := ""
		for _, name := range names {
			changed, err := changeKeyset(ctx, folders, name, f)
			if err != nil {
				return "", err
			}
			for _, c := range changed {
				out = append(out, c)
				if !c.Unchanged {
					message = fmt.Sprintf("%s, %s %s", message, c.Keyset, c.ID)
				}
			}
		}
		if message == "" {
			return "", nil
		}
		return verb + " keypair" + message[1:], nil
	})
	return out, err
}

// changeKeyset changes one keyset.
func changeKeyset(ctx context.Context, folders *clusterstore.Folders, name string, f func(was *pki.Keyset, name string) (*pki.Keyset, []KeypairChange, error)) ([]KeypairChange, error) {
	was, version, err := folders.Keyset(ctx, name)
	if err != nil {
		return nil, err
	}
	now, changed, err := f(was, name)
	if err != nil {
		return nil, err
	}
	if now == was {
		return changed, nil
	}
	return changed, folders.ReplaceKeyset(ctx, now, version)
}
