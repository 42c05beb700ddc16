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
	// SchemeMachineKey is the prefix of a token that a machine signed with its own key.
	SchemeMachineKey = "x-pki-tpm "
	// Audience is the audience of a machine's signature.
	Audience = "kops.k8s.io/node-bootstrap"
	// ClockSkew is the allowed difference between a machine's clock and the controller's, either way.
	ClockSkew = 300 * time.Second
)

// machineToken is a claim and its signature: ECDSA, ASN.1, over the SHA-256 of
// Data. The token is the base64 of this struct in JSON.
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

// MachineKey proves a machine's identity with a key that only the machine holds and whose
// public half was registered with the controller when the machine was created: for machines of
// the local cloud, and for machines that were enrolled by hand.
type MachineKey struct {
	Node string
	// Key is an ECDSA key.
	Key  crypto.Signer
	Now  func() time.Time
	Rand io.Reader
}

var _ Prover = MachineKey{}

// Prove returns a signed claim for the body.
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

// Machine describes a machine before it joins.
type Machine struct {
	Node          string `json:"node"`
	InstanceGroup string `json:"instanceGroup"`
	// PublicKey is the public half of its ECDSA key, PEM with a PKIX body. A machine without one
	// is known, but cannot join; control planes need not join.
	PublicKey string `json:"publicKey,omitempty"`
	// Names are the addresses and DNS names of the machine.
	Names []string `json:"names,omitempty"`
}

// Machines looks up the machines that may join.
type Machines interface {
	// Machine returns the machine with a node's name, or an error of class fault.Gone.
	Machine(ctx context.Context, node string) (Machine, error)
}

// lookedUpPerSecond and lookedUpAtOnce limit look-ups of machines, which happen before
// anything is proven: each may be a request to the cluster's store.
const lookedUpPerSecond, lookedUpAtOnce = 20, 500

// MachineKeyVerifier verifies the proofs that MachineKey makes. It accepts each
// proof only once.
type MachineKeyVerifier struct {
	machines Machines
	now      func() time.Time
	proofs   ProofCache
	unproven Bucket
}

var _ Verifier = (*MachineKeyVerifier)(nil)

// NewMachineKeyVerifier returns a verifier for known machines.
func NewMachineKeyVerifier(machines Machines, now func() time.Time) *MachineKeyVerifier {
	return &MachineKeyVerifier{machines: machines, now: now}
}

// Verify checks who signed, for whom and when, and that the proof was not used before.
func (v *MachineKeyVerifier) Verify(ctx context.Context, p Proof) (Identity, error) {
	token, claim, err := parseMachineToken(p.Token)
	if err != nil {
		return Identity{}, err
	}
	if errs := validation.IsDNS1123Subdomain(claim.Instance); len(errs) > 0 {
		return Identity{}, deniedError("%q is not a node name", claim.Instance)
	}
	if !v.unproven.Take(v.now(), p.Sender, lookedUpPerSecond, lookedUpAtOnce) {
		return Identity{}, ErrBusy
	}
	m, err := v.machines.Machine(ctx, claim.Instance)
	switch {
	case fault.Is(err, fault.Gone):
		return Identity{}, deniedError("no machine %s is known", claim.Instance)
	case err != nil:
		return Identity{}, fault.New(fault.NotYet, "look up the machine %s: %w", claim.Instance, err) // a refusal by the store does not mean that the proof is bad
	case m.Node != claim.Instance:
		return Identity{}, fmt.Errorf("look up the machine %s: the entry belongs to %q", claim.Instance, m.Node)
	}
	if err := m.checkSignature(token); err != nil {
		return Identity{}, err
	}
	if err := v.checkClaim(claim, p.Body); err != nil {
		return Identity{}, err
	}
	if !v.proofs.IsFirst(sha256.Sum256(token.Data), time.Unix(claim.Timestamp, 0).Add(ClockSkew), v.now()) {
		return Identity{}, deniedError("the proof was already used")
	}
	return Identity{NodeName: m.Node, InstanceGroup: m.InstanceGroup, Names: m.Names}, nil
}

func parseMachineToken(text string) (machineToken, machineClaim, error) {
	var token machineToken
	var claim machineClaim
	encoded, ok := strings.CutPrefix(text, SchemeMachineKey)
	if !ok {
		return token, claim, deniedError("the token is not of type %q", strings.TrimSpace(SchemeMachineKey))
	}
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err == nil {
		err = json.Unmarshal(raw, &token)
	}
	if err == nil {
		err = json.Unmarshal(token.Data, &claim)
	}
	if err != nil {
		return token, claim, deniedError("cannot decode the token: %w", err)
	}
	return token, claim, nil
}

// checkSignature checks that the machine's own key signed the token.
func (m Machine) checkSignature(token machineToken) error {
	if m.PublicKey == "" {
		return deniedError("no key of the machine %s is known", m.Node)
	}
	public, err := DecodePublicKey(m.PublicKey)
	if err != nil {
		return fmt.Errorf("the key of the machine %s: %w", m.Node, err)
	}
	key, ok := public.(*ecdsa.PublicKey)
	if !ok {
		return fmt.Errorf("the key of the machine %s is not an ECDSA key", m.Node)
	}
	digest := sha256.Sum256(token.Data)
	if !ecdsa.VerifyASN1(key, digest[:], token.Signature) {
		return deniedError("the signature was not made by the key of the machine %s", m.Node)
	}
	return nil
}

// checkClaim checks that a signed claim is for this audience, for this body, and recent.
func (v *MachineKeyVerifier) checkClaim(claim machineClaim, body []byte) error {
	hash := sha256.Sum256(body)
	age := v.now().Sub(time.Unix(claim.Timestamp, 0))
	switch {
	case claim.Audience != Audience:
		return deniedError("the signature is for %q", claim.Audience)
	case subtle.ConstantTimeCompare(hash[:], claim.RequestHash) != 1:
		return deniedError("the signature is for another request")
	case age > ClockSkew:
		return deniedError("the machine's clock is %s behind the controller's, or the proof is that old; at most %s are allowed: set the clock", age.Round(time.Second), ClockSkew)
	case -age > ClockSkew:
		return deniedError("the machine's clock is %s ahead of the controller's; at most %s are allowed: set the clock", (-age).Round(time.Second), ClockSkew)
	}
	return nil
}
