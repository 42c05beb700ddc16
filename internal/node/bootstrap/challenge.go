package bootstrap

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"slices"
	"time"

	"kops.local/kops/internal/contract/pki"
)

// On a platform that attests nothing, a machine only names itself: a token is the platform's scheme
// and the machine's ID. kops-controller then asks the platform for the machine's address and calls it
// there; the machine that answers must know the secret of the request. So a sender that names a
// machine must also listen at that machine's address.
//
// The call is a TLS connection, on which both ends have certificates. kops-controller sends the ID of
// the challenge and a nonce, each of callField bytes, and the machine responds with callAnswer. kOps
// uses gRPC for the same exchange; because a machine and its kops-controller run the same release, they
// need not speak kOps' form of it, which would add a megabyte to nodeup.
const (
	callField = 32 // bytes of an ID, a secret and a nonce
	// callTimeout limits a call, at either end. The machine waits for requestTimeout in total.
	callTimeout = 5 * time.Second
	// callValidity is the validity of the certificates of a call.
	callValidity = time.Hour
)

// callAnswer is the proof that the machine knows the secret.
func callAnswer(secret, nonce []byte) []byte {
	sum := sha256.Sum256(slices.Concat(secret, nonce))
	return sum[:]
}

// calledName is the name in a machine's certificate, callerName the one in kops-controller's.
func calledName(cluster string) string { return "challenge-server." + cluster }
func callerName(cluster string) string { return "kops-controller." + cluster }

// CallerCertificate returns a new certificate with which kops-controller can call machines for an hour.
func CallerCertificate(cluster string, ca *pki.Keyset, i pki.Issuer) (tls.Certificate, error) {
	return callCertificate(i, func(i pki.Issuer) (pki.Pair, error) {
		return i.Issue(pki.Request{Usage: pki.Client, CommonName: callerName(cluster), Validity: callValidity}, ca)
	})
}

// callCertificate returns the certificate that issue creates for a new key.
func callCertificate(i pki.Issuer, issue func(pki.Issuer) (pki.Pair, error)) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), i.Rand)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("generate a key: %w", err)
	}
	i.Generate = func() (crypto.Signer, error) { return key, nil }
	pair, err := issue(i)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{pair.Certificate.Raw}, Leaf: pair.Certificate, PrivateKey: key}, nil
}

// Claim is a Prover that only names this machine. A Callback verifies it, and the machine needs a
// Listener.
type Claim struct {
	// Scheme is the first word of the token.
	Scheme string
	// ID returns the platform's ID of this machine.
	ID func(context.Context) (string, error)
}

var _ Prover = Claim{}

// Prove returns the claim, which does not depend on the body.
func (c Claim) Prove(ctx context.Context, _ []byte) (string, error) {
	id, err := c.ID(ctx)
	if err != nil {
		return "", fmt.Errorf("identify this machine: %w", err)
	}
	return c.Scheme + " " + id, nil
}

// newChallenge returns a challenge without its certificate.
func newChallenge(rand io.Reader) (*Challenge, error) {
	const digits = "0123456789abcdef"
	random := make([]byte, 2*callField)
	if _, err := io.ReadFull(rand, random); err != nil {
		return nil, fmt.Errorf("read random bytes: %w", err)
	}
	id := random[:callField]
	for i, b := range id {
		id[i] = digits[b%16]
	}
	return &Challenge{ChallengeID: string(id), ChallengeSecret: random[callField:]}, nil
}
