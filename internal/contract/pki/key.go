package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
)

// PrivateKey is a key that signs. Printing or marshalling it only reveals a digest of its public
// half; only PEM returns its text.
type PrivateKey struct{ signer crypto.Signer }

// NewPrivateKey wraps an RSA or ECDSA key.
func NewPrivateKey(s crypto.Signer) PrivateKey { return PrivateKey{s} }

// ParsePrivateKey reads the first private key of a PEM text: PKCS#1, SEC 1 or PKCS#8.
func ParsePrivateKey(text []byte) (PrivateKey, error) {
	for {
		var b *pem.Block
		if b, text = pem.Decode(text); b == nil {
			return PrivateKey{}, errors.New("parse private key: no PEM block of a private key")
		}
		var key any
		var err error
		switch b.Type {
		case "RSA PRIVATE KEY":
			key, err = x509.ParsePKCS1PrivateKey(b.Bytes)
		case "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(b.Bytes)
		case "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(b.Bytes)
		default:
			continue
		}
		if err != nil {
			return PrivateKey{}, fmt.Errorf("parse private key: %w", err)
		}
		switch k := key.(type) {
		case *rsa.PrivateKey:
			return PrivateKey{k}, nil
		case *ecdsa.PrivateKey:
			return PrivateKey{k}, nil
		}
		return PrivateKey{}, errors.New("parse private key: only RSA and ECDSA keys are supported")
	}
}

// IsZero reports whether there is no key.
func (k PrivateKey) IsZero() bool { return k.signer == nil }

// Public returns the public half; nil if there is no key.
func (k PrivateKey) Public() crypto.PublicKey {
	if k.IsZero() {
		return nil
	}
	return k.signer.Public()
}

// SamePublic reports whether two public keys are equal.
func SamePublic(a, b crypto.PublicKey) bool {
	k, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && k.Equal(b)
}

// PEM returns the key's text: RSA PRIVATE KEY (PKCS#1) or EC PRIVATE KEY.
func (k PrivateKey) PEM() ([]byte, error) {
	switch s := k.signer.(type) {
	case *rsa.PrivateKey:
		return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(s)}), nil
	case *ecdsa.PrivateKey:
		der, err := x509.MarshalECPrivateKey(s)
		if err != nil {
			return nil, fmt.Errorf("encode private key: %w", err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
	}
	return nil, errors.New("encode private key: only RSA and ECDSA keys are supported")
}

// String shows a digest of the public half.
func (k PrivateKey) String() string {
	if k.IsZero() {
		return "no private key"
	}
	der, err := x509.MarshalPKIXPublicKey(k.Public())
	if err != nil {
		return "private key of an unknown type"
	}
	sum := sha256.Sum256(der)
	return "private key of sha256:" + hex.EncodeToString(sum[:8])
}

// Format writes the same text as String, for every verb.
func (k PrivateKey) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, k.String()) } // fmt.State reports no errors

// MarshalText returns the text of String.
func (k PrivateKey) MarshalText() ([]byte, error) { return []byte(k.String()), nil }
