// Package agent makes a machine a member of its cluster: it identifies the
// machine, gets its configuration, computes the machine's desired state, and
// applies it, in named phases that are reported.
//
// It must not know any cloud's SDK, nor how a machine proves its identity.
// Everything it needs from its environment is passed in as a value.
package agent

import (
	"context"
	"crypto"
	"errors"

	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/node/agent/node"
)

// Source reads the cluster's store.
type Source interface {
	// Read returns the content at a URL, or an error of class fault.Gone.
	Read(ctx context.Context, url string) ([]byte, error)
}

// Joiner talks to kops-controller for a machine that does not read the store. Both
// methods retry errors that may be temporary.
type Joiner interface {
	// Configuration returns the node configuration and its secrets by name, or ErrJoined
	// if the machine's Node is ready already. A machine that is updated in place passes
	// the hash of the configuration that it takes; it gets one even if its Node is
	// ready.
	Configuration(ctx context.Context, hash string) (config []byte, secrets map[string][]byte, err error)
	// Certify has public keys certified under the names that the controller gives such
	// certificates, and returns PEM. keypairIDs identify the authorities' keys that
	// the machine expects.
	Certify(ctx context.Context, keys map[string]crypto.PublicKey, keypairIDs map[string]string) (map[string][]byte, error)
}

// ErrJoined means that a machine is a member already and needs nothing.
var ErrJoined = errors.New("the machine is a ready member of the cluster already")

// Detect identifies the machine, as far as its configuration depends on it.
type Detect func(context.Context, *nodeconfig.Boot, *nodeconfig.Config) (node.Host, error)
