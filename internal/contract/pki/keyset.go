// Package pki handles the key material of a cluster as plain values: keysets and their trust
// bundles, the issuing of authorities and of leaf certificates, and random tokens. Time is a
// parameter, and so is the randomness of serial numbers and tokens; keys and signatures use the
// library's own.
//
// It must not know where keysets are stored, nor who uses a certificate, and it must never let a
// private key or a secret get into printable text.
package pki

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"
)

// ErrNoKey is the error of a keyset without the private key of its primary item, for example
// because the key is kept elsewhere.
var ErrNoKey = errors.New("has no private key")

// Keyset is a named set of key pairs. One of them, the primary, signs; every item that is not
// distrusted is still trusted. A Keyset is not changed after its creation.
type Keyset struct {
	Name string
	// Primary is the identifier of the item that signs.
	Primary string
	// Items are in ascending order of their identifiers.
	Items []Item
}

// Item is one key pair of a keyset.
type Item struct {
	// ID is the certificate's serial number in decimal for items that kops created; keysets of
	// other origin may have any text.
	ID string
	// Certificate is nil in an item that only verifies by its key.
	Certificate *x509.Certificate
	// Key is zero if only the certificate is known.
	Key PrivateKey
	// Distrusted is when the item ceased to be trusted; zero means it still is.
	Distrusted time.Time
}

// Trusted reports whether the item is still trusted.
func (i Item) Trusted() bool { return i.Distrusted.IsZero() }

// NewKeyset orders the items and checks that the primary is one of them, is
// trusted, and has both a certificate and a private key.
func NewKeyset(name, primary string, items ...Item) (*Keyset, error) {
	k := &Keyset{Name: name, Primary: primary, Items: slices.Clone(items)}
	slices.SortStableFunc(k.Items, func(a, b Item) int { return compareIDs(a.ID, b.ID) })
	for n := 1; n < len(k.Items); n++ {
		if k.Items[n].ID == k.Items[n-1].ID {
			return nil, fmt.Errorf("keyset %s: the key %s occurs twice", name, k.Items[n].ID)
		}
	}
	p, err := k.primary()
	if err != nil {
		return nil, err
	}
	switch {
	case !p.Trusted():
		return nil, fmt.Errorf("keyset %s: the signing key %s is distrusted", name, primary)
	case p.Certificate == nil:
		return nil, fmt.Errorf("keyset %s: the signing key %s has no certificate", name, primary)
	case p.Key.IsZero():
		return nil, fmt.Errorf("keyset %s: the signing key %s %w", name, primary, ErrNoKey)
	}
	return k, nil
}

func (k *Keyset) primary() (Item, error) {
	i := k.Item(k.Primary)
	if i == nil {
		return Item{}, fmt.Errorf("keyset %s: the signing key %q does not exist", k.Name, k.Primary)
	}
	return *i, nil
}

// Signer returns the item that signs.
func (k *Keyset) Signer() Item {
	i, err := k.primary()
	if err != nil {
		panic(err) // NewKeyset has checked it
	}
	return i
}

// Bundle returns the certificates of the trusted items as PEM, oldest first.
func (k *Keyset) Bundle() string {
	var b bytes.Buffer
	for _, i := range k.Items {
		if i.Trusted() && i.Certificate != nil {
			b.Write(EncodeCertificate(i.Certificate))
		}
	}
	return b.String()
}

// PublicKeys returns the public keys of the trusted items, oldest first, as the
// API server reads them for service accounts: blocks of type RSA PUBLIC KEY
// whose body is PKIX, not PKCS#1.
func (k *Keyset) PublicKeys() (string, error) {
	var b strings.Builder
	for _, i := range k.Items {
		if !i.Trusted() || i.Certificate == nil {
			continue
		}
		der, err := x509.MarshalPKIXPublicKey(i.Certificate.PublicKey)
		if err != nil {
			return "", fmt.Errorf("public key %s of keyset %s: %w", i.ID, k.Name, err)
		}
		b.Write(pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: der}))
	}
	return b.String(), nil
}

// EncodeCertificate returns a certificate as PEM.
func EncodeCertificate(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

// compareIDs orders item identifiers by age: numbers ascend, and an identifier that is not a
// number is older than any number.
func compareIDs(a, b string) int {
	x, xok := new(big.Int).SetString(a, 10)
	y, yok := new(big.Int).SetString(b, 10)
	switch {
	case xok && yok:
		return x.Cmp(y)
	case xok:
		return 1
	case yok:
		return -1
	}
	return strings.Compare(a, b)
}
