// Package signed defines how the index of a repository of files is signed, and how a program that
// fetches from there verifies it with the keys that a cluster trusts.
//
// A signature is over the bytes of the index, encoded in base64: with Ed25519 (RFC 8032), or with
// ECDSA on P-256 over their SHA-256 (FIPS 186-5, as ASN.1). Keys are in PEM: PKIX public keys, and
// PKCS #8 private keys. So openssl can create and verify all of it.
//
// It must not know where an index is fetched from, nor what is done with the files in it.
package signed

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// Names of the index and of its signature, below a repository's URL.
const (
	IndexName     = "bundle.json"
	SignatureName = IndexName + ".sig"
)

// Index is a repository's list of contents.
type Index struct {
	Files  map[string]File  `json:"files"`  // by public URL
	Images map[string]Image `json:"images"` // by name with tag
}

// File is a file of an index.
type File struct {
	SHA256 string `json:"sha256"` // hexadecimal
}

// Image is an image of an index. Subset is the digest of its copies, if that differs.
type Image struct {
	Digest string `json:"digest"` // "sha256:…"
	Subset string `json:"subset"`
}

// Has reports whether the index lists a file with a hexadecimal SHA-256.
func (i *Index) Has(sha256 string) bool {
	for _, f := range i.Files {
		if strings.EqualFold(f.SHA256, sha256) {
			return true
		}
	}
	return false
}

// Open reads an index that one of the keys has signed.
func Open(keys []string, index, signature []byte) (*Index, error) {
	if err := Verify(keys, index, signature); err != nil {
		return nil, err
	}
	i := &Index{}
	if err := json.Unmarshal(index, i); err != nil {
		return nil, fmt.Errorf("read the index: %w", err)
	}
	return i, nil
}

// ErrUnsigned is the error for a text that none of the keys has signed.
var ErrUnsigned = errors.New("it is not signed by a trusted key")

// Verify checks that one of the public keys has signed a text.
func Verify(keys []string, text, signature []byte) error {
	sum := sha256.Sum256(text)
	raw, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(string(signature)), ""))
	if err != nil {
		return fmt.Errorf("read the signature: %w", err)
	}
	for _, k := range keys {
		key, err := ParseKey(k)
		if err != nil {
			return err
		}
		switch key := key.(type) {
		case ed25519.PublicKey:
			if ed25519.Verify(key, text, raw) {
				return nil
			}
		case *ecdsa.PublicKey:
			if ecdsa.VerifyASN1(key, sum[:], raw) {
				return nil
			}
		}
	}
	return ErrUnsigned
}

// ParseKey reads a public key in PEM: Ed25519, or ECDSA on P-256.
func ParseKey(text string) (crypto.PublicKey, error) {
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != "PUBLIC KEY" || strings.TrimSpace(string(rest)) != "" {
		return nil, errors.New("it is not one public key in PEM")
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the public key: %w", err)
	}
	return key, checkKind(key)
}

// checkKind rejects other kinds of keys.
func checkKind(key crypto.PublicKey) error {
	switch k := key.(type) {
	case ed25519.PublicKey:
		return nil
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P256() {
			return nil
		}
	}
	return errors.New("it is neither an Ed25519 key nor an ECDSA key on P-256")
}

// Sign signs a text with a private key in PEM, and returns the signature and the public key.
func Sign(private, text []byte) (signature []byte, public string, err error) {
	signer, err := parseSigner(private)
	if err != nil {
		return nil, "", err
	}
	if public, err = EncodeKey(signer.Public()); err != nil {
		return nil, "", err
	}
	message, o := text, crypto.SignerOpts(crypto.Hash(0))
	if _, ok := signer.(*ecdsa.PrivateKey); ok {
		sum := sha256.Sum256(text)
		message, o = sum[:], crypto.SHA256
	}
	raw, err := signer.Sign(rand.Reader, message, o)
	if err != nil {
		return nil, "", fmt.Errorf("sign: %w", err)
	}
	return []byte(base64.StdEncoding.EncodeToString(raw) + "\n"), public, nil
}

// EncodeKey writes a public key in PEM.
func EncodeKey(key crypto.PublicKey) (string, error) {
	if err := checkKind(key); err != nil {
		return "", err
	}
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", fmt.Errorf("write the public key: %w", err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})), nil
}

// parseSigner reads a private key in PEM.
func parseSigner(text []byte) (crypto.Signer, error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		switch block.Type {
		case "PRIVATE KEY":
			key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
			if err != nil {
				return nil, fmt.Errorf("read the private key: %w", err)
			}
			if s, ok := key.(crypto.Signer); ok {
				return s, nil
			}
		case "EC PRIVATE KEY":
			return x509.ParseECPrivateKey(block.Bytes)
		case "ENCRYPTED PRIVATE KEY":
			return nil, errors.New("the private key is encrypted; decrypt it with openssl pkey")
		}
	}
	return nil, errors.New("it is not a private key in PEM")
}
