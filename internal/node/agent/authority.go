package agent

import (
	"context"
	"crypto"
	cryptorand "crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"

	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
)

// keysets issues certificates on a machine that holds the signing keys.
type keysets struct {
	all    map[string]*pki.Keyset
	issuer pki.Issuer
}

// Signer returns the name of the keyset whose primary key signed c.
func (a keysets) Signer(c *x509.Certificate) string {
	for name, k := range a.all {
		if c.CheckSignatureFrom(k.Signer().Certificate) == nil {
			return name
		}
	}
	return ""
}

// Issue signs a certificate locally.
func (a keysets) Issue(_ context.Context, name, signer string, r pki.Request) (pki.Pair, error) {
	k := a.all[signer]
	if k == nil {
		return pki.Pair{}, fault.New(fault.Permanent, "issue the certificate %s: the keyset %s was not read", name, signer)
	}
	return a.issuer.Issue(r, k)
}

// remote requests certificates from kops-controller; private keys stay on the machine.
type remote struct {
	joiner Joiner
	ids    map[string]string
	// bundles are the CA certificates that the machine trusts.
	bundles map[string]string
	// generate makes a key; if nil, an RSA key of the default size.
	generate func() (crypto.Signer, error)
}

// Signer returns the authority that signed c and that the machine expects to be current.
func (a remote) Signer(c *x509.Certificate) string {
	for name, bundle := range a.bundles {
		var signers []*x509.Certificate
		for rest := []byte(bundle); ; {
			var b *pem.Block
			if b, rest = pem.Decode(rest); b == nil {
				break
			}
			x, err := x509.ParseCertificate(b.Bytes)
			if err != nil {
				continue
			}
			if id, ok := new(big.Int).SetString(a.ids[name], 10); ok && x.SerialNumber.Cmp(id) == 0 {
				signers = []*x509.Certificate{x}
				break
			}
			signers = append(signers, x) // an authority from elsewhere has another identifier
		}
		for _, x := range signers {
			if c.CheckSignatureFrom(x) == nil {
				return name
			}
		}
	}
	return ""
}

// Issue generates a key and has its public half certified.
func (a remote) Issue(ctx context.Context, name, signer string, _ pki.Request) (pki.Pair, error) {
	generate := a.generate
	if generate == nil {
		generate = func() (crypto.Signer, error) { return rsa.GenerateKey(cryptorand.Reader, pki.DefaultKeySize) }
	}
	key, err := generate()
	if err != nil {
		return pki.Pair{}, fmt.Errorf("generate the key of %s: %w", name, err)
	}
	got, err := a.joiner.Certify(ctx, map[string]crypto.PublicKey{name: key.Public()}, map[string]string{signer: a.ids[signer]})
	if err != nil {
		return pki.Pair{}, fmt.Errorf("ask kops-controller for the certificate %s: %w", name, withRemedy(err))
	}
	c, err := pki.ParseCertificate(got[name])
	if err != nil {
		return pki.Pair{}, fmt.Errorf("certificate %s of kops-controller: %w", name, err)
	}
	if !pki.SamePublic(c.PublicKey, key.Public()) {
		return pki.Pair{}, fault.Wrap(fault.Permanent, fmt.Errorf("certificate %s of kops-controller is for another key", name), "")
	}
	return pki.Pair{Certificate: c, Key: pki.NewPrivateKey(key)}, nil
}

// clockRemedy adds a remedy to errors about certificates that are expired or not yet valid.
func clockRemedy(err error) error {
	var invalid x509.CertificateInvalidError
	if err == nil || !errors.As(err, &invalid) || invalid.Reason != x509.Expired {
		return err
	}
	return fault.Wrap(fault.Of(err), err, "correct the machine's clock: chronyc makestep, or timedatectl set-time; if it is correct, renew the certificate")
}
