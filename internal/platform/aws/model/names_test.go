package model

import (
	"strings"
	"testing"
)

func TestFingerprintOfAKey(t *testing.T) {
	got, err := fingerprintOf(testSSHKey)
	if want := "c4:a6:ed:9a:a8:89:b9:e2:c3:9c:d6:63:eb:9c:71:57"; got != want || err != nil {
		t.Errorf("fingerprint = %q, %v, want %q", got, err, want)
	}
	for line, want := range map[string]string{
		"":            "an SSH public key is a line such as",
		"ssh-rsa":     "an SSH public key is a line such as",
		"ssh-rsa !!!": "read the SSH public key: illegal base64",
	} {
		if _, err := fingerprintOf(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("fingerprint of %q: %v, want %q", line, err, want)
		}
	}
}
