// Package bootstrap is the join protocol: how a machine that has only a proof of
// its identity requests its configuration from kops-controller, and certificates
// for keys that never leave it. It contains what both sides share: the messages,
// the client with its retries, and the proofs and their verification, for which the controller may
// call the machine back.
//
// It must not know how certificates are issued, what a configuration means, nor
// any cloud's SDK; time is passed in, and it reads no environment.
package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"kops.local/kops/internal/engine/fault"
)

const (
	// APIVersion is the only version of the protocol.
	APIVersion = "bootstrap.kops.k8s.io/v1alpha1"
	// Path accepts requests by POST; HealthPath answers 200 to anyone.
	Path       = "/bootstrap"
	HealthPath = "/healthz"
	// MaxRequest is the maximum size of a request, in bytes: a few public keys. It is
	// read before the sender has proven anything.
	MaxRequest = 64 << 10
	// MaxResponse is the maximum size of a response, in bytes.
	MaxResponse = 4 << 20
)

// Request is a machine's request. The Authorization header carries a proof that is
// bound to the exact bytes of the request.
type Request struct {
	APIVersion string `json:"apiVersion"`
	// Certs are the public keys to certify, by the certificate's name: PEM, see EncodePublicKey.
	Certs map[string]string `json:"certs,omitempty"`
	// KeypairIDs are the identifiers of the keys that the machine expects to sign, by keyset.
	KeypairIDs map[string]string `json:"keypairIDs,omitempty"`
	// IncludeNodeConfig requests the machine's configuration.
	IncludeNodeConfig bool `json:"includeNodeConfig,omitempty"`
	// ConfigHash is set by a machine that is changed in place: nodeconfig.Hash of the only
	// configuration that it takes. Such a request is answered even if the machine's Node is
	// ready, but only if the sender holds the certificate of the node's kubelet.
	ConfigHash string `json:"configHash,omitempty"`
	// ChannelBinding is the result of ChannelBinding for the connection that the request is
	// sent on. Because the proof covers the request, it is useless on another connection.
	// Machines that do not support it leave it out, and controllers that do not support it
	// accept it.
	ChannelBinding string `json:"channelBinding,omitempty"`
	// Challenge lets the controller call the machine back, on platforms whose proof does not suffice.
	Challenge *Challenge `json:"challenge,omitempty"`
}

// Challenge lets the controller call a machine back, and tells which answer to expect; see Callback.
type Challenge struct {
	// Endpoint is ignored: the platform tells where the machine is.
	Endpoint string `json:"endpoint,omitempty"`
	// CA is the certificate with which the machine answers, in PEM.
	CA []byte `json:"ca,omitempty"`
	// ChallengeID identifies the request, and ChallengeSecret is what only its sender knows.
	ChallengeID     string `json:"challengeID,omitempty"`
	ChallengeSecret []byte `json:"challengeSecret,omitempty"`
}

// Response is the answer to the machine. The protocol defines the capital letter of Certs.
type Response struct {
	// Certs are certificates in PEM, by name.
	Certs      map[string]string `json:"Certs,omitempty"`
	NodeConfig *NodeConfig       `json:"nodeConfig,omitempty"`
}

// NodeConfig is a machine's configuration.
type NodeConfig struct {
	// NodeupConfig is the text of the group's nodeupconfig.yaml, byte for byte.
	NodeupConfig string `json:"nodeupConfig,omitempty"`
	// NodeSecrets are secrets by name; the only one in use is dockerconfig.
	NodeSecrets map[string][]byte `json:"nodeSecrets,omitempty"`
}

// Prover proves the identity of this machine.
type Prover interface {
	// Prove returns the value of the Authorization header for a request with this body. It is
	// called for every attempt: a proof is valid only once.
	Prove(ctx context.Context, body []byte) (string, error)
}

// Proof is a request as its receiver sees it.
type Proof struct {
	// Token is the value of the Authorization header.
	Token string
	Body  []byte
	// Sender is the network that the request comes from, see package senders.
	Sender netip.Prefix
}

// Identity is a machine's verified identity.
type Identity struct {
	// NodeName is the name of the machine's Node.
	NodeName string
	// InstanceGroup is the instance group it belongs to.
	InstanceGroup string
	// Names are the addresses and DNS names that its certificates may contain.
	Names []string
}

// Verifier determines which machine sent a request.
type Verifier interface {
	// Verify checks a proof. Errors of class fault.Denied mean that the proof is
	// invalid; their text may be shown to the sender. Any other error means that the
	// proof could not be verified, and is kept from the sender.
	Verify(ctx context.Context, p Proof) (Identity, error)
}

// ErrBusy means that the requests of this or other senders exhaust the limit, so that this one is not
// verified now. It does not mean that the proof is invalid; the machine retries.
var ErrBusy = errors.New("too many unproven requests; try again later")

// ErrReady means that the machine's Node exists and is ready, so that nobody may
// join under its name: a machine that receives it has nothing left to do.
var ErrReady = errors.New("the node has joined already and is ready")

// deniedError returns the refusal of a proof.
func deniedError(format string, args ...any) error {
	return fault.New(fault.Denied, "the identity is not proven: "+format, args...)
}

// checkVersion rejects requests of another protocol version.
func (r Request) checkVersion() error {
	if r.APIVersion != APIVersion {
		return fmt.Errorf("apiVersion is %q, not %q", r.APIVersion, APIVersion)
	}
	return nil
}
