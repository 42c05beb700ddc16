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

// NewItem is what an item is made of.
type NewItem struct {
	// Certificate is nil if one must be issued.
	Certificate *x509.Certificate
	// Key is zero if one must be generated or, with Certificate, is not known.
	Key PrivateKey
	// Primary has the item sign from now on.
	Primary bool
}

// Add returns the keyset with another item, and the item's identifier. k is nil for
// the first item of the keyset of a name. A certificate that is made is the item's own
// authority, for ten years, and its subject has its number, by which those who verify tell it
// from others of the keyset.
func (i Issuer) Add(k *Keyset, name string, n NewItem) (*Keyset, string, error) {
	if k == nil {
		if !n.Primary {
			return nil, "", fmt.Errorf("keyset %s: its first item has to be the primary one", name)
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
		if err := i.checkGiven(k, n); err != nil {
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

// checkGiven refuses a certificate that would be of no use, or of harm.
func (i Issuer) checkGiven(k *Keyset, n NewItem) error {
	c := n.Certificate
	switch {
	case n.Key.IsZero() && n.Primary:
		return fmt.Errorf("keyset %s: an item without its private key cannot sign; give the key too, or leave out option:Primary", k.Name)
	case !n.Key.IsZero() && !SamePublic(n.Key.Public(), c.PublicKey):
		return fmt.Errorf("keyset %s: the private key does not match the certificate", k.Name)
	case !c.IsCA && k.Name != ServiceAccount:
		return fmt.Errorf("keyset %s: the certificate of %s is not a certificate authority, which can sign others", k.Name, Subject(c))
	case i.Now().After(c.NotAfter):
		return fmt.Errorf("keyset %s: the certificate of %s ended at %s", k.Name, Subject(c), c.NotAfter.UTC().Format(time.DateOnly))
	}
	for _, o := range k.Items {
		if o.Certificate != nil && o.Certificate.Equal(c) {
			return fmt.Errorf("keyset %s: its item %s already has this certificate", k.Name, o.ID)
		}
	}
	return nil
}

// idFor is the identifier of a new item: the number of its certificate, where that puts
// it in its place among the others, and otherwise now. An item that cannot sign comes
// before the primary one.
func (k *Keyset) idFor(i Item, primary bool, now *big.Int) string {
	serial := i.Certificate.SerialNumber
	id := serial.String()
	highest := ""
	if n := len(k.Items); n > 0 {
		highest = k.Items[n-1].ID
	}
	if serial.Cmp(now) > 0 || k.has(id) || primary && highest != "" && compareIDs(id, highest) <= 0 {
		id = now.String()
	}
	if i.Key.IsZero() && compareIDs(id, k.Primary) >= 0 {
		for n := 0; ; n++ {
			if id = strconv.Itoa(n); !k.has(id) {
				break
			}
		}
	}
	return id
}

func (k *Keyset) has(id string) bool { return k.Item(id) != nil }

// Item returns the item of an identifier; nil when there is none.
func (k *Keyset) Item(id string) *Item {
	n := slices.IndexFunc(k.Items, func(i Item) bool { return i.ID == id })
	if n < 0 {
		return nil
	}
	i := k.Items[n]
	return &i
}

// Promote returns the keyset in which another item signs, and its identifier: the item of
// id or, when that is empty, the youngest trusted one that can. The keyset is k itself when
// that item signs already.
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
		return nil, "", fmt.Errorf("keyset %s has no item %q", k.Name, id)
	case !i.Trusted():
		return nil, "", fmt.Errorf("keyset %s: the item %s is distrusted; trust it first: kops trust keypair %s %[2]s", k.Name, id, k.Name)
	case i.Certificate == nil:
		return nil, "", fmt.Errorf("keyset %s: the item %s has no certificate", k.Name, id)
	case i.Key.IsZero():
		return nil, "", fmt.Errorf("keyset %s: the item %s has no private key", k.Name, id)
	}
	out, err := NewKeyset(k.Name, id, k.Items...)
	return out, id, err
}

// Distrust returns the keyset in which some items are no longer trusted from a time on,
// and which items were trusted until then: the items of ids or, without ids, the items whose
// certificates are older than the primary one.
func (k *Keyset) Distrust(ids []string, at time.Time) (*Keyset, []string, error) {
	if len(ids) == 0 {
		ids = k.Older()
	}
	return k.judge(ids, func(i *Item) (bool, error) {
		if i.ID == k.Primary {
			return false, fmt.Errorf("keyset %s: the item %s is the primary one, which signs, and cannot be distrusted; promote another first: kops promote keypair %[1]s", k.Name, i.ID)
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

// Trust returns the keyset in which some items are trusted again, and which of them
// were not until then.
func (k *Keyset) Trust(ids []string) (*Keyset, []string, error) {
	return k.judge(ids, func(i *Item) (bool, error) {
		was := i.Trusted()
		i.Distrusted = time.Time{}
		return !was, nil
	})
}

// judge changes copies of some items, and tells which changed.
func (k *Keyset) judge(ids []string, change func(*Item) (bool, error)) (*Keyset, []string, error) {
	items := slices.Clone(k.Items)
	var changed []string
	for _, id := range ids {
		n := slices.IndexFunc(items, func(i Item) bool { return i.ID == id })
		if n < 0 {
			return nil, nil, fmt.Errorf("keyset %s has no item %q; its items are shown by: kops get keypairs %[1]s --distrusted", k.Name, id)
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

// Subject is whom a certificate is for, in kOps' form: cn=…,o=…, in lower case.
func Subject(c *x509.Certificate) string { return nameText(c.Subject) }

// IssuerOf is who signed a certificate, in the form of Subject.
func IssuerOf(c *x509.Certificate) string { return nameText(c.Issuer) }

// SignsAs tells an authority from others, in a short text: by the identifier of its key
// (RFC 5280, 4.2.1.2), or where it has none by its subject.
func SignsAs(c *x509.Certificate) string { return short(c.SubjectKeyId, Subject(c)) }

// SignedBy is SignsAs of the authority that signed a certificate.
func SignedBy(c *x509.Certificate) string { return short(c.AuthorityKeyId, IssuerOf(c)) }

func short(id []byte, name string) string {
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
