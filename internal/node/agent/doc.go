// Package agent makes a machine a member of its cluster: it finds out which
// machine this is, gets its configuration, says what the machine is to hold, and
// brings that about, in named phases that are reported.
//
// It must not know any cloud's programming library, nor how a machine proves who
// it is. Everything it needs of the world comes in as a value.
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
	// Read returns what stands at a URL, or an error of class fault.Gone.
	Read(ctx context.Context, url string) ([]byte, error)
}

// Joiner speaks to kops-controller for a machine that does not read the store.
// Both methods try again by themselves what may pass.
type Joiner interface {
	// Configuration returns the node configuration and the secrets that go with
	// it, by name; ErrJoined when the machine's Node is ready already. A machine that is
	// changed in place names the hash of the one that it takes, and has it then, too.
	Configuration(ctx context.Context, hash string) (config []byte, secrets map[string][]byte, err error)
	// Certify has public keys certified, by the names that the controller gives
	// such certificates, and returns them as PEM. keypairIDs are the identifiers of
	// the authorities' keys that the machine expects.
	Certify(ctx context.Context, keys map[string]crypto.PublicKey, keypairIDs map[string]string) (map[string][]byte, error)
}

// ErrJoined says that a machine is a member already and needs nothing.
var ErrJoined = errors.New("the machine is a ready member of the cluster already")

// Detect finds out what machine this is, as far as its configuration makes it matter.
type Detect func(context.Context, *nodeconfig.Boot, *nodeconfig.Config) (node.Host, error)
