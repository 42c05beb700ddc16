package model

import (
	"fmt"
	"strings"

	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform"
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
	fingerprint, err = platform.SSHFingerprint(line)
	return line, fingerprint, err
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
