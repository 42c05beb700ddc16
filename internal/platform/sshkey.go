package platform

import (
	"crypto/md5" //nolint:gosec // the fingerprint that clouds and their users know
	"encoding/base64"
	"fmt"
	"strings"
)

// SSHFingerprint returns the MD5 of a key in an authorized_keys line, separated by colons (RFC 4716,
// section 4).
func SSHFingerprint(line string) (string, error) {
	fields := strings.Fields(line)
	if len(fields) < 2 {
		return "", fmt.Errorf("the SSH public key %q has no data: an SSH public key is a line such as %q", line, "ssh-ed25519 AAAA… me@host")
	}
	blob, err := base64.StdEncoding.DecodeString(fields[1])
	if err != nil {
		return "", fmt.Errorf("read the SSH public key: %w", err)
	}
	sum := md5.Sum(blob) //nolint:gosec // an identifier, not a proof
	return strings.ReplaceAll(fmt.Sprintf("% x", sum[:]), " ", ":"), nil
}
