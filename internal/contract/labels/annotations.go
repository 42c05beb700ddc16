package labels

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"kops.local/kops/api/status"
)

// Annotations of nodes by which a machine reports what it runs, and is asked to run something
// else in place. Their values are JSON; see Read and Write.
const (
	// NodeConfig is of type Running. The machine writes it. Nothing may trust it.
	NodeConfig = "kops.k8s.io/node-config"
	// ApplyConfig is of type Apply. An operator of the cluster writes it.
	ApplyConfig = "kops.k8s.io/apply-config"
	// ApplyResult is of type Applied. The machine writes it.
	ApplyResult = "kops.k8s.io/apply-result"
	// Certificates is a list of status.Certificate: those that the machine holds. The machine
	// writes it. Nothing may trust it.
	Certificates = "kops.k8s.io/certificates"
)

// NeedsUpdate is an annotation of nodes whose machines must be replaced, with any value.
// The program that applies add-ons writes it, and operators of the cluster may.
const NeedsUpdate = "kops.k8s.io/needs-update"

// LiveKeys is an annotation of ConfigMaps: which of their keys, separated by commas, are read
// again and again by those who use them, so that no node has to be replaced when one changes.
const LiveKeys = "kops.k8s.io/live-keys"

// Running is what a machine was made of, the last time that it was all that it was to be.
type Running struct {
	// Hash is nodeconfig.Hash of its node configuration.
	Hash string `json:"hash"`
	// Files are digests of the other files that shape the machine, by their keys below the
	// cluster's folder in the store: Digest of manifests, and DigestSecret of secrets.
	Files map[string]string `json:"files,omitempty"`
}

// Apply asks a machine to become what the configuration of its group says now.
type Apply struct {
	// Hash is nodeconfig.Hash of the configuration that is meant: the machine takes no other.
	Hash string `json:"hash"`
	// Nonce tells one request from another of the same hash.
	Nonce string `json:"nonce"`
}

// Applied is what became of an Apply.
type Applied struct {
	// Nonce is the nonce of the Apply.
	Nonce string `json:"nonce"`
	// Done says that the machine is what it was asked to be. Until then it tries again.
	Done bool `json:"done"`
	// Error is why the last try failed, and Phase the phase (of the boot report) in which it
	// failed; both are empty during the first try.
	Error string `json:"error,omitempty"`
	Phase string `json:"phase,omitempty"`
}

// value is what an annotation holds.
type value interface {
	Running | Apply | Applied | []status.Certificate
}

// Read reads the value of an annotation; there is false where the node has none.
func Read[T value](annotations map[string]string, name string) (v T, there bool, err error) {
	text, there := annotations[name]
	if !there {
		return v, false, nil
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return v, true, fmt.Errorf("read the node's annotation %s: %w", name, err)
	}
	return v, true, nil
}

// Write writes the value of an annotation. Equal values have the same text.
func Write[T value](v T) string {
	text, _ := json.Marshal(v) // texts, times and a boolean can always be written
	return string(text)
}

// digestLength is how many bytes of a sum a digest has.
const digestLength = 4

// Digest is the first eight hexadecimal digits of the SHA-256 of a text.
func Digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:digestLength])
}

// guesses is how often a guess of a secret is hashed, so that a digest that everybody can
// read is of little use to those who guess; it takes some 30 ms.
const guesses = 1 << 17

// DigestSecret is the same of a secret, whose key in the store is the salt, and slow:
// PBKDF2 (RFC 8018) with SHA-256.
func DigestSecret(key string, secret []byte) (string, error) {
	sum, err := pbkdf2.Key(sha256.New, string(secret), []byte(key), guesses, digestLength)
	if err != nil {
		return "", fmt.Errorf("digest the secret %s: %w", key, err)
	}
	return hex.EncodeToString(sum), nil
}
