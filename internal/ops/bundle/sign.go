package bundle

import (
	"errors"
	"fmt"
	"io/fs"

	"kops.local/kops/internal/contract/signed"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store/confined"
)

// Sign signs the index of the bundle with a private key in PEM, and returns the public key.
// Changing the bundle removes the signature.
func (b *Bundle) Sign(private []byte) (public string, err error) {
	text, err := confined.Read(b.dir, indexName, indexSize)
	if err != nil {
		return "", fmt.Errorf("sign the bundle: %w", err)
	}
	signature, public, err := signed.Sign(private, text)
	if err != nil {
		return "", fault.Wrap(fault.Permanent, fmt.Errorf("sign the bundle: %w", err), "make a key with openssl genpkey -algorithm ed25519 -out key.pem")
	}
	if err := confined.Write(b.dir, signatureName, signature, 0o755, 0o644); err != nil { // signatures are world-readable
		return "", fmt.Errorf("sign the bundle: %w", err)
	}
	return public, nil
}

// VerifySignature checks that one of the public keys has signed the index of the bundle.
func (b *Bundle) VerifySignature(keys ...string) error {
	text, err := confined.Read(b.dir, indexName, indexSize)
	if err != nil {
		return fmt.Errorf("verify the signature: %w", err)
	}
	signature, err := confined.Read(b.dir, signatureName, indexSize)
	if errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(fault.Permanent, fmt.Errorf("the bundle %s is not signed, or has changed since it was signed", b.dir), "kops bundle sign")
	}
	if err != nil {
		return fmt.Errorf("verify the signature: %w", err)
	}
	if err := signed.Verify(keys, text, signature); err != nil {
		return fault.Wrap(fault.Permanent, fmt.Errorf("the index of the bundle %s: %w", b.dir, err), "get the bundle from someone you trust, or sign it yourself with kops bundle sign")
	}
	return nil
}
