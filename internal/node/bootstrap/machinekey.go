package bootstrap

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"kops.local/kops/internal/engine/fault"
)

const (
	// SchemeMachineKey starts a token that a machine signed with its own key.
	SchemeMachineKey = "x-pki-tpm "
	// Audience is what a machine's signature is for.
	Audience = "kops.k8s.io/node-bootstrap"
	// ClockSkew is how far a machine's clock may be from the controller's, either way.
	ClockSkew = 300 * time.Second
)

// machineToken is a claim and its signature: ECDSA, ASN.1, over the SHA-256 of
// Data. The token is the base64 of this in JSON.
type machineToken struct {
	Data      []byte `json:"data"`
	Signature []byte `json:"signature"`
}

// machineClaim is what a machine signs, as JSON.
type machineClaim struct {
	Instance    string `json:"instance"` // the node's name
	Audience    string `json:"audience"`
	Timestamp   int64  `json:"timestamp"`       // seconds since 1970
	RequestHash []byte `json:"requestHash"`     // SHA-256 of the body
	Nonce       []byte `json:"nonce,omitempty"` // makes two claims for one body differ
}

// MachineKey proves a machine's identity by a key that the machine alone holds and whose public
// half was registered with the controller when the machine was made: for machines of the local
// cloud, and for machines that somebody enrolled by hand.
type MachineKey struct {
	Node string
	// Key is an ECDSA key.
	Key  crypto.Signer
	Now  func() time.Time
	Rand io.Reader
}

var _ Prover = MachineKey{}

// Prove signs a claim for the body.
func (m MachineKey) Prove(_ context.Context, body []byte) (string, error) {
	nonce := make([]byte, 16)
	if _, err := io.ReadFull(m.Rand, nonce); err != nil {
		return "", fmt.Errorf("prove the identity of %s: read random bytes: %w", m.Node, err)
	}
	hash := sha256.Sum256(body)
	data, err := json.Marshal(machineClaim{Instance: m.Node, Audience: Audience, Timestamp: m.Now().Unix(), RequestHash: hash[:], Nonce: nonce})
	if err != nil {
		return "", fmt.Errorf("prove the identity of %s: %w", m.Node, err)
	}
	digest := sha256.Sum256(data)
	signature, err := m.Key.Sign(m.Rand, digest[:], crypto.SHA256)
	if err != nil {
		return "", fmt.Errorf("prove the identity of %s: %w", m.Node, err)
	}
	token, err := json.Marshal(machineToken{Data: data, Signature: signature})
	if err != nil {
		return "", fmt.Errorf("prove the identity of %s: %w", m.Node, err)
	}
	return SchemeMachineKey + base64.StdEncoding.EncodeToString(token), nil
}

// Machine is what is known of a machine before it joins.
type Machine struct {
	Node          string `json:"node"`
	InstanceGroup string `json:"instanceGroup"`
	// PublicKey is the public half of its ECDSA key, PEM with a PKIX body. A machine without one
	// is known, but cannot join; control planes need not join.
	PublicKey string `json:"publicKey,omitempty"`
	// Names are the addresses and DNS names of the machine.
	Names []string `json:"names,omitempty"`
}

// Machines knows the machines that may join.
type Machines interface {
	// Machine returns the machine of a node's name, or an error of class fault.Gone.
	Machine(ctx context.Context, node string) (Machine, error)
}

// lookedUpPerSecond and lookedUpAtOnce bound the look-ups of machines, which come before
// anything is proven: each may be a request to the cluster's store.
const lookedUpPerSecond, lookedUpAtOnce = 20, 500

// MachineKeyVerifier checks the proofs that MachineKey makes. A proof that was
// accepted once is not accepted again by the same verifier.
type MachineKeyVerifier struct {
	machines Machines
	now      func() time.Time
	seen     Seen
	unproven Bucket
}

var _ Verifier = (*MachineKeyVerifier)(nil)

// NewMachineKeyVerifier returns a verifier for known machines.
func NewMachineKeyVerifier(machines Machines, now func() time.Time) *MachineKeyVerifier {
	return &MachineKeyVerifier{machines: machines, now: now}
}

// Verify checks who signed, for what and when, and that it was not shown before.
func (v *MachineKeyVerifier) Verify(ctx context.Context, p Proof) (Identity, error) {
	token, claim, err := parseMachineToken(p.Token)
	if err != nil {
		return Identity{}, err
	}
	if errs := validation.IsDNS1123Subdomain(claim.Instance); len(errs) > 0 {
		return Identity{}, denied("%q is not a node name", claim.Instance)
	}
	if !v.unproven.Take(v.now(), lookedUpPerSecond, lookedUpAtOnce) {
		return Identity{}, ErrBusy
	}
	m, err := v.machines.Machine(ctx, claim.Instance)
	switch {
	case fault.Is(err, fault.Gone):
		return Identity{}, denied("no machine %s is known", claim.Instance)
	case err != nil:
		return Identity{}, fault.New(fault.NotYet, "look up the machine %s: %w", claim.Instance, err) // a store's refusal is not one of the proof
	case m.Node != claim.Instance:
		return Identity{}, fmt.Errorf("look up the machine %s: the entry belongs to %q", claim.Instance, m.Node)
	}
	if err := m.checkSignature(token); err != nil {
		return Identity{}, err
	}
	if err := v.checkClaim(claim, p.Body); err != nil {
		return Identity{}, err
	}
	if !v.seen.First(sha256.Sum256(token.Data), time.Unix(claim.Timestamp, 0).Add(ClockSkew), v.now()) {
		return Identity{}, denied("the proof was used before")
	}
	return Identity{NodeName: m.Node, InstanceGroup: m.InstanceGroup, Names: m.Names}, nil
}

func parseMachineToken(text string) (machineToken, machineClaim, error) {
	var token machineToken
	var claim machineClaim
	encoded, ok := strings.CutPrefix(text, SchemeMachineKey)
	if !ok {
		return token, claim, denied("the token is not of the kind %q", strings.TrimSpace(SchemeMachineKey))
	}
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err == nil {
		err = json.Unmarshal(raw, &token)
	}
	if err == nil {
		err = json.Unmarshal(token.Data, &claim)
	}
	if err != nil {
		return token, claim, denied("the token cannot be read: %w", err)
	}
	return token, claim, nil
}

// checkSignature says whether the machine's own key signed the token.
func (m Machine) checkSignature(token machineToken) error {
	if m.PublicKey == "" {
		return denied("no key of the machine %s is known", m.Node)
	}
	public, err := DecodePublicKey(m.PublicKey)
	if err != nil {
		return fmt.Errorf("the key of the machine %s: %w", m.Node, err)
	}
	key, ok := public.(*ecdsa.PublicKey)
	if !ok {
		return fmt.Errorf("the key of the machine %s is a %T, not one of ECDSA", m.Node, public)
	}
	digest := sha256.Sum256(token.Data)
	if !ecdsa.VerifyASN1(key, digest[:], token.Signature) {
		return denied("the signature is not by the key of the machine %s", m.Node)
	}
	return nil
}

// checkClaim says whether a signed claim is for us, for this body, and of now.
func (v *MachineKeyVerifier) checkClaim(claim machineClaim, body []byte) error {
	hash := sha256.Sum256(body)
	age := v.now().Sub(time.Unix(claim.Timestamp, 0))
	switch {
	case claim.Audience != Audience:
		return denied("the signature is for %q", claim.Audience)
	case subtle.ConstantTimeCompare(hash[:], claim.RequestHash) != 1:
		return denied("the signature is for another request")
	case age > ClockSkew:
		return denied("the machine's clock is %s behind the controller's, or the proof is that old; at most %s are allowed: set the clock", age.Round(time.Second), ClockSkew)
	case -age > ClockSkew:
		return denied("the machine's clock is %s ahead of the controller's; at most %s are allowed: set the clock", (-age).Round(time.Second), ClockSkew)
	}
	return nil
}
