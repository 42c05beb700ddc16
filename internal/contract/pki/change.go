package pki

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Rotatable reports whether commands may change the items of a keyset: the keysets of
// authorities and of service accounts.
func Rotatable(keyset string) bool {
	return keyset == ServiceAccount || strings.Contains(keyset, "-ca")
}

// NewItem specifies a new item.
type NewItem struct {
	// Certificate is nil if one must be issued.
	Certificate *x509.Certificate
	// Key is zero if a new key must be generated or, with Certificate, if the key is not known.
	Key PrivateKey
	// Primary makes the item the one that signs.
	Primary bool
}

// Add returns the keyset with another item, and the item's identifier. k is nil for the first item
// of the keyset with the given name. A newly issued certificate is self-signed, valid for ten
// years, and has its serial number in its subject, which distinguishes it from others of the keyset
// during verification.
func (i Issuer) Add(k *Keyset, name string, n NewItem) (*Keyset, string, error) {
	if k == nil {
		if !n.Primary {
			return nil, "", fmt.Errorf("keyset %s: its first key must be the signing key", name)
		}
		k = &Keyset{Name: name}
	}
	now, err := i.TimedSerial()
	if err != nil {
		return nil, "", err
	}
	item := Item{Certificate: n.Certificate, Key: n.Key}
	switch {
	case n.Certificate == nil:
		p, err := i.SelfSigned(Request{Usage: Authority, CommonName: name, Serial: now, Numbered: true, Key: n.Key})
		if err != nil {
			return nil, "", err
		}
		item.Certificate, item.Key = p.Certificate, p.Key
	default:
		if err := i.checkProvided(k, n); err != nil {
			return nil, "", err
		}
	}
	item.ID = k.idFor(item, n.Primary, now)
	primary := k.Primary
	if n.Primary {
		primary = item.ID
	}
	out, err := NewKeyset(name, primary, append(slices.Clone(k.Items), item)...)
	return out, item.ID, err
}

// checkProvided rejects a certificate that would be useless or harmful.
func (i Issuer) checkProvided(k *Keyset, n NewItem) error {
	c := n.Certificate
	switch {
	case n.Key.IsZero() && n.Primary:
		return fmt.Errorf("keyset %s: a certificate without its private key cannot sign; also provide the private key, or leave out option:Primary", k.Name)
	case !n.Key.IsZero() && !SamePublic(n.Key.Public(), c.PublicKey):
		return fmt.Errorf("keyset %s: the private key does not match the certificate", k.Name)
	case !c.IsCA && k.Name != ServiceAccount:
		return fmt.Errorf("keyset %s: the certificate of %s is not a certificate authority, which can sign others", k.Name, Subject(c))
	case i.Now().After(c.NotAfter):
		return fmt.Errorf("keyset %s: the certificate of %s expired at %s", k.Name, Subject(c), c.NotAfter.UTC().Format(time.DateOnly))
	}
	for _, o := range k.Items {
		if o.Certificate != nil && o.Certificate.Equal(c) {
			return fmt.Errorf("keyset %s: its key %s already has this certificate", k.Name, o.ID)
		}
	}
	return nil
}

// idFor returns the identifier of a new item: its certificate's serial number, if that gives the
// item its right place among the others, and otherwise one based on now. An item that cannot sign
// comes before the primary one.
func (k *Keyset) idFor(i Item, primary bool, now *big.Int) string {
	serial := i.Certificate.SerialNumber
	id := serial.String()
	highest := ""
	if n := len(k.Items); n > 0 {
		highest = k.Items[n-1].ID
	}
	if serial.Cmp(now) > 0 || k.contains(id) || primary && highest != "" && compareIDs(id, highest) <= 0 {
		id = now.String()
	}
	if i.Key.IsZero() && compareIDs(id, k.Primary) >= 0 {
		for n := 0; ; n++ {
			if id = strconv.Itoa(n); !k.contains(id) {
				break
			}
		}
	}
	return id
}

func (k *Keyset) contains(id string) bool { return k.Item(id) != nil }

// Item returns the item with an identifier; nil if there is none.
func (k *Keyset) Item(id string) *Item {
	n := slices.IndexFunc(k.Items, func(i Item) bool { return i.ID == id })
	if n < 0 {
		return nil
	}
	i := k.Items[n]
	return &i
}

// Promote returns the keyset in which another item signs, and its identifier: the item with the
// given id or, if that is empty, the youngest trusted one that can sign. The keyset is k itself if
// that item already signs.
func (k *Keyset) Promote(id string) (*Keyset, string, error) {
	if id == "" {
		id = youngest(k.Items)
	}
	if id == k.Primary {
		return k, id, nil
	}
	i := k.Item(id)
	switch {
	case i == nil:
		return nil, "", fmt.Errorf("keyset %s has no key %q", k.Name, id)
	case !i.Trusted():
		return nil, "", fmt.Errorf("keyset %s: the key %s is distrusted; trust it first: kops trust keypair %s %[2]s", k.Name, id, k.Name)
	case i.Certificate == nil:
		return nil, "", fmt.Errorf("keyset %s: the key %s has no certificate", k.Name, id)
	case i.Key.IsZero():
		return nil, "", fmt.Errorf("keyset %s: the key %s has no private key", k.Name, id)
	}
	out, err := NewKeyset(k.Name, id, k.Items...)
	return out, id, err
}

// Distrust returns the keyset in which some items are no longer trusted from a given time on, and
// the identifiers of those that were trusted until then: the items with the given ids or, without
// ids, the items whose certificates are older than the primary one.
func (k *Keyset) Distrust(ids []string, at time.Time) (*Keyset, []string, error) {
	if len(ids) == 0 {
		ids = k.Older()
	}
	return k.changeItems(ids, func(i *Item) (bool, error) {
		if i.ID == k.Primary {
			return false, fmt.Errorf("keyset %s: the key %s is the signing key, so it cannot be distrusted; promote another first: kops promote keypair %[1]s", k.Name, i.ID)
		}
		was := i.Trusted()
		if was {
			i.Distrusted = at.UTC().Truncate(time.Second)
		}
		return was, nil
	})
}

// Older lists the trusted items whose certificates are older than the primary one.
func (k *Keyset) Older() []string {
	var out []string
	primary := k.Signer().Certificate.SerialNumber
	for _, i := range k.Items {
		if i.Trusted() && i.Certificate != nil && i.Certificate.SerialNumber.Cmp(primary) < 0 && i.ID != k.Primary {
			out = append(out, i.ID)
		}
	}
	return out
}

// Trust returns the keyset in which some items are trusted again, and the identifiers of those that
// were not trusted until then.
func (k *Keyset) Trust(ids []string) (*Keyset, []string, error) {
	return k.changeItems(ids, func(i *Item) (bool, error) {
		was := i.Trusted()
		i.Distrusted = time.Time{}
		return !was, nil
	})
}

// changeItems changes copies of some items, and returns which of them changed.
func (k *Keyset) changeItems(ids []string, change func(*Item) (bool, error)) (*Keyset, []string, error) {
	items := slices.Clone(k.Items)
	var changed []string
	for _, id := range ids {
		n := slices.IndexFunc(items, func(i Item) bool { return i.ID == id })
		if n < 0 {
			return nil, nil, fmt.Errorf("keyset %s has no key %q; to list its keys: kops get keypairs %[1]s --distrusted", k.Name, id)
		}
		did, err := change(&items[n])
		if err != nil {
			return nil, nil, err
		}
		if did {
			changed = append(changed, id)
		}
	}
	out, err := NewKeyset(k.Name, k.Primary, items...)
	return out, changed, err
}

// Subject returns the subject of a certificate, in kOps' form: cn=…,o=…, in lower case.
func Subject(c *x509.Certificate) string { return nameText(c.Subject) }

// IssuerOf returns the issuer of a certificate, in the form of Subject.
func IssuerOf(c *x509.Certificate) string { return nameText(c.Issuer) }

// SignsAs identifies an authority in a short text: by its key identifier (RFC 5280, 4.2.1.2), or by
// its subject if it has none.
func SignsAs(c *x509.Certificate) string { return shortID(c.SubjectKeyId, Subject(c)) }

// SignedBy returns SignsAs of the authority that signed a certificate.
func SignedBy(c *x509.Certificate) string { return shortID(c.AuthorityKeyId, IssuerOf(c)) }

func shortID(id []byte, name string) string {
	if len(id) == 0 {
		return name
	}
	return hex.EncodeToString(id[:min(len(id), 8)])
}

func nameText(n pkix.Name) string {
	var out []string
	add := func(key string, values ...string) {
		for _, v := range values {
			if v != "" {
				out = append(out, key+"="+v)
			}
		}
	}
	add("cn", n.CommonName)
	add("o", n.Organization...)
	add("ou", n.OrganizationalUnit...)
	add("c", n.Country...)
	add("l", n.Locality...)
	add("serial", n.SerialNumber)
	return strings.Join(out, ",")
}
