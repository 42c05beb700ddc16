package bootstrap

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
)

// publicKeyBlock is the PEM type of a public key. Its body is PKIX for every algorithm,
// whatever the name says: the protocol defines the name.
const publicKeyBlock = "RSA PUBLIC KEY"

// minRSABits is the minimum size of an RSA key to certify.
const minRSABits = 2048

// DecodeRequest parses a request. Unknown fields are accepted, for machines that are newer
// than the controller.
func DecodeRequest(body []byte) (Request, error) {
	var r Request
	d := json.NewDecoder(bytes.NewReader(body))
	if err := d.Decode(&r); err != nil {
		return Request{}, fmt.Errorf("read the request: %w", err)
	}
	if d.More() {
		return Request{}, errors.New("read the request: something follows the JSON object")
	}
	return r, r.checkVersion()
}

// EncodePublicKey encodes a public key for requests: a PEM block RSA PUBLIC KEY with a PKIX body.
func EncodePublicKey(key crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", fmt.Errorf("encode public key: %w", err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: publicKeyBlock, Bytes: der})), nil
}

// DecodePublicKey parses one public key from PEM with a PKIX body: RSA of 2048
// bits or more, ECDSA, or Ed25519.
func DecodePublicKey(text string) (crypto.PublicKey, error) {
	b, _ := pem.Decode([]byte(text))
	if b == nil {
		return nil, errors.New("decode public key: no PEM block")
	}
	if b.Type != publicKeyBlock && b.Type != "PUBLIC KEY" {
		return nil, fmt.Errorf("decode public key: the PEM block is of type %q", b.Type)
	}
	key, err := x509.ParsePKIXPublicKey(b.Bytes)
	if err != nil {
		return nil, fmt.Errorf("decode public key: %w", err)
	}
	switch k := key.(type) {
	case *rsa.PublicKey:
		if k.N.BitLen() < minRSABits {
			return nil, fmt.Errorf("decode public key: an RSA key of %d bits is too short; at least %d are needed", k.N.BitLen(), minRSABits)
		}
	case *ecdsa.PublicKey, ed25519.PublicKey:
	default:
		return nil, errors.New("decode public key: only RSA, ECDSA and Ed25519 keys are supported")
	}
	return key, nil
}
