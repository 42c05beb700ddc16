package model

import (
	"crypto/md5" //nolint:gosec // the fingerprint that AWS and its users know
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"

	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/aws/kinds"
)

// sshKeyNode returns the name of the node of the cluster's own key pair,
// which must not contain colons.
func (m *model) sshKeyNode(fingerprint string) string {
	return "kubernetes." + m.name + "-" + strings.ReplaceAll(fingerprint, ":", "")
}

// sshKey returns the public key and its fingerprint; "" if machines do not get a key of the
// cluster's own.
func (m *model) sshKey() (line, fingerprint string, err error) {
	if m.spec.SSHKeyName != nil || len(m.SSHKeys) == 0 {
		return "", "", nil
	}
	if len(m.SSHKeys) > 1 {
		return "", "", fmt.Errorf("there are %d SSH public keys, and machines on AWS take one: delete the others with kops delete sshpublickey", len(m.SSHKeys))
	}
	line = strings.TrimSpace(m.SSHKeys[0])
	fingerprint, err = fingerprintOf(line)
	return line, fingerprint, err
}

// fingerprintOf returns the MD5 of a key in an authorized_keys line,
// separated by colons (RFC 4716, section 4).
func fingerprintOf(line string) (string, error) {
	fields := strings.Fields(line)
	if len(fields) < 2 {
		return "", fmt.Errorf("an SSH public key is a line such as %q", "ssh-ed25519 AAAA… me@host")
	}
	blob, err := base64.StdEncoding.DecodeString(fields[1])
	if err != nil {
		return "", fmt.Errorf("read the SSH public key: %w", err)
	}
	sum := md5.Sum(blob) //nolint:gosec // an identifier, not a proof
	pairs := make([]string, len(sum))
	for i, b := range sum {
		pairs[i] = hex.EncodeToString([]byte{b})
	}
	return strings.Join(pairs, ":"), nil
}

// keyPair returns the SSH key of the cluster's users.
func (m *model) keyPair() ([]resource.Node, error) {
	line, fingerprint, err := m.sshKey()
	if err != nil || line == "" {
		return nil, err
	}
	return []resource.Node{kinds.KeyPairs.New(m.sshKeyNode(fingerprint), kinds.KeyPair{
		Name:      "kubernetes." + m.name + "-" + fingerprint,
		PublicKey: resource.Text(resource.Lit(line + "\n")),
		Tags:      m.tags(m.name),
	})}, nil
}

// keyName returns the key pair of machines: the cluster's own, an existing one, or none.
func (m *model) keyName() (resource.Value, error) {
	if m.spec.SSHKeyName != nil {
		return resource.Lit(*m.spec.SSHKeyName), nil
	}
	line, fingerprint, err := m.sshKey()
	if err != nil || line == "" {
		return resource.Value{}, err
	}
	return kinds.KeyPairs.Out(m.sshKeyNode(fingerprint), "id"), nil
}
