// Package bootstrap is the join protocol: how a machine that owns nothing but a
// proof of who it is asks kops-controller for its configuration and for
// certificates of keys that never leave it. It holds what both sides share: the
// messages, the client with its retries, and the proofs and their verification.
//
// It must not know how certificates are issued, what a configuration means, nor
// any cloud's SDK; time is handed in, and it reads no environment.
package bootstrap

import (
	"context"
	"errors"
	"fmt"

	"kops.local/kops/internal/engine/fault"
)

const (
	// APIVersion is the one version of the protocol.
	APIVersion = "bootstrap.kops.k8s.io/v1alpha1"
	// Path takes requests, by POST; HealthPath answers 200 to anybody.
	Path       = "/bootstrap"
	HealthPath = "/healthz"
	// MaxRequest is the longest request, in bytes: a few public keys. It is read
	// before anybody has proven anything.
	MaxRequest = 64 << 10
	// MaxResponse is the longest response, in bytes.
	MaxResponse = 4 << 20
)

// Request is what a machine asks for. The header Authorization carries a proof
// that is bound to the very bytes of the request.
type Request struct {
	APIVersion string `json:"apiVersion"`
	// Certs are the public keys to certify, by the certificate's name: PEM, see EncodePublicKey.
	Certs map[string]string `json:"certs,omitempty"`
	// KeypairIDs are the identifiers of the keys that the machine expects to sign, by keyset.
	KeypairIDs map[string]string `json:"keypairIDs,omitempty"`
	// IncludeNodeConfig asks for the machine's configuration.
	IncludeNodeConfig bool `json:"includeNodeConfig,omitempty"`
	// ConfigHash, of a machine that is changed in place, is nodeconfig.Hash of the only
	// configuration that it takes. It is answered while the machine's Node is ready, too, and
	// to none but the holder of the certificate of the node's kubelet.
	ConfigHash string `json:"configHash,omitempty"`
	// ChannelBinding is what ChannelBinding returns for the connection that the request is
	// sent on. As the proof covers the request, the proof is of no use on another connection.
	// Machines that know nothing of it leave it out, and controllers that do not let it pass.
	ChannelBinding string `json:"channelBinding,omitempty"`
	// Challenge lets the controller call the machine back, on platforms whose proof does not suffice.
	Challenge *Challenge `json:"challenge,omitempty"`
}

// Challenge says where and how a machine answers when it is called back.
type Challenge struct {
	Endpoint        string `json:"endpoint,omitempty"`
	CA              []byte `json:"ca,omitempty"`
	ChallengeID     string `json:"challengeID,omitempty"`
	ChallengeSecret []byte `json:"challengeSecret,omitempty"`
}

// Response is the answer to the machine. The protocol defines the capital of Certs.
type Response struct {
	// Certs are certificates in PEM, by name.
	Certs      map[string]string `json:"Certs,omitempty"`
	NodeConfig *NodeConfig       `json:"nodeConfig,omitempty"`
}

// NodeConfig is what a machine is to become.
type NodeConfig struct {
	// NodeupConfig is the text of the group's nodeupconfig.yaml, byte for byte.
	NodeupConfig string `json:"nodeupConfig,omitempty"`
	// NodeSecrets are secrets by name; the one in use is dockerconfig.
	NodeSecrets map[string][]byte `json:"nodeSecrets,omitempty"`
}

// Prover shows who this machine is.
type Prover interface {
	// Prove returns the value of the header Authorization for a request with this body. It is
	// called for every attempt: a proof is valid once.
	Prove(ctx context.Context, body []byte) (string, error)
}

// Proof is a request as its receiver sees it.
type Proof struct {
	// Token is the value of the header Authorization.
	Token string
	Body  []byte
}

// Identity is who a machine turned out to be.
type Identity struct {
	// NodeName is the name of its Node.
	NodeName string
	// InstanceGroup is the group it belongs to.
	InstanceGroup string
	// Names are the addresses and DNS names that its certificates may hold.
	Names []string
}

// Verifier tells which machine sent a request.
type Verifier interface {
	// Verify checks a proof. Errors of class fault.Denied mean that the proof is
	// not good; their text may be shown to the sender. Any other error means that
	// it could not be told, and is kept from the sender.
	Verify(ctx context.Context, p Proof) (Identity, error)
}

// ErrBusy means that others ask too much for this request to be looked into now. It says
// nothing of the proof, and the machine asks again.
var ErrBusy = errors.New("too many unproven requests; try again later")

// ErrReady means that the machine's Node exists and is ready, so that nobody may
// join in its name: a machine that hears it has nothing left to do.
var ErrReady = errors.New("the node has joined already and is ready")

// denied is a refusal of a proof.
func denied(format string, args ...any) error {
	return fault.New(fault.Denied, "the identity is not proven: "+format, args...)
}

// checkVersion refuses requests of another protocol.
func (r Request) checkVersion() error {
	if r.APIVersion != APIVersion {
		return fmt.Errorf("apiVersion is %q, not %q", r.APIVersion, APIVersion)
	}
	return nil
}
