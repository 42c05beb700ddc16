package pki

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Secret is a text that must not be shown. Printing or marshalling it only reveals a digest; only
// Reveal returns its text. The zero Secret is empty.
type Secret struct{ text *string } // a pointer, so that not even reflection by fmt finds the text

// NewSecret returns a secret with a text.
func NewSecret(text string) Secret { return Secret{&text} }

// Reveal returns the text.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// String shows a digest of the text.
func (s Secret) String() string {
	sum := sha256.Sum256([]byte(s.Reveal()))
	return "secret sha256:" + hex.EncodeToString(sum[:8])
}

// Format writes the same text as String, for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) } // fmt.State reports no errors

// MarshalText returns the text of String.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// tokenLength is the number of characters of a token.
const tokenLength = 32

// newToken creates a random token: 32 characters of the base64 alphabet without + and /, from 128
// random bytes.
func newToken(random io.Reader) (Secret, error) {
	raw := make([]byte, 128)
	if _, err := io.ReadFull(random, raw); err != nil {
		return Secret{}, fmt.Errorf("read random bytes for a token: %w", err)
	}
	text := strings.NewReplacer("+", "", "=", "", "/", "").Replace(base64.StdEncoding.EncodeToString(raw))
	return NewSecret(text[:tokenLength]), nil
}

// secretFile is the stored form of a secret.
type secretFile struct{ Data []byte }

// EncodeSecret returns the stored form of a secret: a JSON object whose one
// field, Data, is the base64 of the text.
func EncodeSecret(s Secret) ([]byte, error) {
	out, err := json.Marshal(secretFile{[]byte(s.Reveal())})
	if err != nil {
		return nil, fmt.Errorf("encode secret: %w", err)
	}
	return out, nil
}

// DecodeSecret reads the stored form of a secret.
func DecodeSecret(data []byte) (Secret, error) {
	var f secretFile
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return Secret{}, fmt.Errorf("decode secret: %w", err)
	}
	return NewSecret(string(f.Data)), nil
}

// secretsFile is the stored form of several secrets: an object that kubectl knows, so that whatever
// hides Secrets hides it.
type secretsFile struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]string `json:"metadata"`
	Texts      map[string]string `json:"stringData"`
}

// EncodeSecrets returns the stored form of several secrets, by name.
func EncodeSecrets(all map[string]Secret) ([]byte, error) {
	f := secretsFile{APIVersion: "v1", Kind: "Secret", Metadata: map[string]string{"name": "platform", "namespace": "kube-system"}, Texts: map[string]string{}}
	for name, s := range all {
		f.Texts[name] = s.Reveal()
	}
	out, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("encode secrets: %w", err)
	}
	return append(out, '\n'), nil
}

// DecodeSecrets reads the stored form of several secrets.
func DecodeSecrets(data []byte) (map[string]Secret, error) {
	var f secretsFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("decode secrets: %w", err)
	}
	out := map[string]Secret{}
	for name, text := range f.Texts {
		out[name] = NewSecret(text)
	}
	return out, nil
}

// TokenNames lists the secrets that every cluster has and that are random tokens.
func TokenNames() []string {
	return []string{"admin", "kube", "kube-proxy", "kubelet", "system:controller_manager", "system:dns",
		"system:logging", "system:monitoring", "system:scheduler"}
}

// EncryptionConfig is the name of the secret with which the API server encrypts what it stores: an
// EncryptionConfiguration.
const EncryptionConfig = "encryptionconfig"

// RetiredKeys is the name of the secret with the keys that EncryptionConfig no longer has, because
// back-ups of etcd need them. No machine reads it.
const RetiredKeys = "encryptionconfig-retired"

// DockerConfig is the name of the secret with which machines pull images: a Docker config.json.
const DockerConfig = "dockerconfig"

// CiliumPassword is the name of the secret with the keys that encrypt traffic between nodes.
const CiliumPassword = "ciliumpassword"

// InManifests lists the secrets that users create for the manifests of add-ons.
func InManifests() []string { return []string{CiliumPassword} }

// NewEncryptionConfig creates such a secret, with a random 256-bit key for secrets. It is for
// clusters that have not stored anything yet: the API server cannot read objects that were not
// encrypted.
func NewEncryptionConfig(random io.Reader) (Secret, error) {
	key := make([]byte, 32)
	if _, err := io.ReadFull(random, key); err != nil {
		return Secret{}, fmt.Errorf("read random bytes for the key that encrypts secrets: %w", err)
	}
	return NewSecret(`apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers:
  - secretbox:
      keys:
      - name: key1
        secret: ` + base64.StdEncoding.EncodeToString(key) + "\n"), nil
}

// MissingTokens creates a token for each of TokenNames that is not in existing.
func MissingTokens(existing map[string]bool, random io.Reader) (map[string]Secret, error) {
	out := map[string]Secret{}
	for _, n := range TokenNames() {
		if existing[n] {
			continue
		}
		t, err := newToken(random)
		if err != nil {
			return nil, fmt.Errorf("secret %s: %w", n, err)
		}
		out[n] = t
	}
	return out, nil
}
