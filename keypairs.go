package kops

import (
	"context"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"time"

	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store/clusterstore"
)

// AllKeysets stands for each keyset of a cluster that can be changed.
const AllKeysets = "all"

// Keypair is an item of a keyset. Its private key is not shown.
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

// KeypairChange is what a command did to an item of a keyset.
type KeypairChange struct {
	Keyset, ID string
	// Unchanged says that the item was so before.
	Unchanged bool
}

// CreateKeypairOptions say what a new item is made of.
type CreateKeypairOptions struct {
	// Certificate and Key are PEM; what is empty is made, but not the key of a certificate that is given.
	Certificate, Key []byte
	// Primary has the item sign from now on.
	Primary bool
}

// Keypairs are the items of the keysets of clusters: of authorities, and of the keys that
// sign tokens of service accounts. Every change is made under the cluster's lease.
type Keypairs struct {
	c  *Client
	on On
}

// Keypairs returns the operations on keysets; on receives their events, and may be nil.
func (c *Client) Keypairs(on On) Keypairs { return Keypairs{c, on} }

// List lists the items of the keysets of some names, or of all, by name and age.
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

// Create adds an item to a keyset or, with AllKeysets, a new one that does not sign yet to each.
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
	return k.change(ctx, cluster, keyset, "created", func(was *pki.Keyset, name string) (*pki.Keyset, []KeypairChange, error) {
		now, id, err := k.c.world.Issuer().Add(was, name, given)
		return now, []KeypairChange{{Keyset: name, ID: id}}, err
	})
}

// Promote has another item of a keyset sign, or of each: the one of id or, when that is
// empty, the youngest that can.
func (k Keypairs) Promote(ctx context.Context, cluster, keyset, id string) ([]KeypairChange, error) {
	return k.change(ctx, cluster, keyset, "promoted", func(was *pki.Keyset, name string) (*pki.Keyset, []KeypairChange, error) {
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
	return k.change(ctx, cluster, keyset, "distrusted", func(was *pki.Keyset, name string) (*pki.Keyset, []KeypairChange, error) {
		if was == nil {
			return nil, nil, noKeyset(cluster, name)
		}
		now, changed, err := was.Distrust(ids, k.c.cfg.World.Now())
		return judged(was, now, name, changed, ids, err)
	})
}

// Trust has items of a keyset believed again.
func (k Keypairs) Trust(ctx context.Context, cluster, keyset string, ids ...string) ([]KeypairChange, error) {
	switch {
	case keyset == AllKeysets:
		return nil, fault.New(fault.Permanent, "specify the keyset and the IDs of the keys to trust again")
	case len(ids) == 0:
		return nil, fault.New(fault.Permanent, "specify the IDs of the keys to trust again; kops get keypairs %s --distrusted shows them", keyset)
	}
	return k.change(ctx, cluster, keyset, "trusted", func(was *pki.Keyset, name string) (*pki.Keyset, []KeypairChange, error) {
		if was == nil {
			return nil, nil, noKeyset(cluster, name)
		}
		now, changed, err := was.Trust(ids)
		return judged(was, now, name, changed, ids, err)
	})
}

func noKeyset(cluster, name string) error {
	return fault.Wrap(fault.Gone, fmt.Errorf("cluster %s has no keyset %s", cluster, name), "to list keysets, run kops get keypairs")
}

// judged tells of each item whether it changed; the keyset is the same where none did.
func judged(was, now *pki.Keyset, name string, changed, ids []string, err error) (*pki.Keyset, []KeypairChange, error) {
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

// change changes a keyset, or each, under the cluster's lease. What was read is written
// only if it is still the same.
func (k Keypairs) change(ctx context.Context, cluster, keyset, verb string, f func(was *pki.Keyset, name string) (*pki.Keyset, []KeypairChange, error)) ([]KeypairChange, error) {
	if keyset != AllKeysets && !pki.Rotatable(keyset) {
		return nil, fault.New(fault.Permanent, "the keyset %s is not supported; use the keyset of a certificate authority, with -ca in its name, or %s", keyset, pki.ServiceAccount)
	}
	var out []KeypairChange
	err := k.c.changeKeys(ctx, &call{cluster: cluster, on: k.on}, func(ctx context.Context, folders *clusterstore.Folders) (string, error) {
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
