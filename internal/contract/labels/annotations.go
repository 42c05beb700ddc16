package labels

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"kops.local/kops/api/status"
)

// Annotations of nodes with which a machine reports what it runs, and is asked to run something
// else in place. Their values are JSON; see Read and Write.
const (
	// NodeConfig has the type Running. The machine writes it. It must not be trusted.
	NodeConfig = "kops.k8s.io/node-config"
	// ApplyConfig has the type Apply. An operator of the cluster writes it.
	ApplyConfig = "kops.k8s.io/apply-config"
	// ApplyResult has the type Applied. The machine writes it.
	ApplyResult = "kops.k8s.io/apply-result"
	// Certificates has a list of status.Certificate: the certificates of the machine. The machine
	// writes it. It must not be trusted.
	Certificates = "kops.k8s.io/certificates"
)

// NeedsUpdate is an annotation of nodes whose machines must be replaced, with any value.
// The program that applies add-ons writes it, and operators of the cluster may.
const NeedsUpdate = "kops.k8s.io/needs-update"

// LiveKeys is an annotation of ConfigMaps: the keys, separated by commas, that their users re-read
// periodically, so that no node must be replaced when one changes.
const LiveKeys = "kops.k8s.io/live-keys"

// Running is what a machine was configured with when it last was in its desired state.
type Running struct {
	// Hash is nodeconfig.Hash of its node configuration.
	Hash string `json:"hash"`
	// Files are digests of the other files that shape the machine, by their keys below the
	// cluster's folder in the store: Digest for manifests, and DigestSecret for secrets.
	Files map[string]string `json:"files,omitempty"`
}

// Apply asks a machine to apply the current configuration of its group.
type Apply struct {
	// Hash is nodeconfig.Hash of the intended configuration: the machine accepts no other.
	Hash string `json:"hash"`
	// Nonce distinguishes requests with the same hash.
	Nonce string `json:"nonce"`
}

// Applied is the result of an Apply.
type Applied struct {
	// Nonce is the nonce of the Apply.
	Nonce string `json:"nonce"`
	// Done means that the machine has applied the configuration. Until then it retries.
	Done bool `json:"done"`
	// Error is why the last attempt failed, and Phase the phase (of the boot report) in which it
	// failed; both are empty during the first attempt.
	Error string `json:"error,omitempty"`
	Phase string `json:"phase,omitempty"`
}

// value is a type of an annotation's value.
type value interface {
	Running | Apply | Applied | []status.Certificate
}

// Read reads the value of an annotation; there is false if the node has none.
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
	text, _ := json.Marshal(v) // texts, times and a boolean can always be marshalled
	return string(text)
}

// digestLength is the length of a digest, in bytes.
const digestLength = 4

// Digest returns the first eight hexadecimal digits of the SHA-256 of a text.
func Digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:digestLength])
}

// guesses is the number of PBKDF2 iterations, so that a digest that everyone can read is of little
// use for guessing a secret; it takes some 30 ms.
const guesses = 1 << 17

// DigestSecret returns a digest of a secret, with its key in the store as the salt, that is slow to
// compute: PBKDF2 (RFC 8018) with SHA-256.
func DigestSecret(key string, secret []byte) (string, error) {
	sum, err := pbkdf2.Key(sha256.New, string(secret), []byte(key), guesses, digestLength)
	if err != nil {
		return "", fmt.Errorf("digest the secret %s: %w", key, err)
	}
	return hex.EncodeToString(sum), nil
}
