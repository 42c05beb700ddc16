package platform

import (
	"strings"
	"testing"
)

func TestFingerprintOfAKey(t *testing.T) {
	got, err := SSHFingerprint("ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQCtWu40XQo8dczLsCq0OWV+hxm9uV3WxeH9Kgh4sMzQxNtoU1pvW0XdjpkBesRKGoolfWeCLXWxpyQb1IaiMkKoz7MdhQ/6UKjMjP66aFWWp3pwD0uj0HuJ7tq4gKHKRYGTaZIRWpzUiANBrjugVgA+Sd7E/mYwc/DMXkIyRZbvhQ==")
	if want := "c4:a6:ed:9a:a8:89:b9:e2:c3:9c:d6:63:eb:9c:71:57"; got != want || err != nil {
		t.Errorf("fingerprint = %q, %v, want %q", got, err, want)
	}
	for line, want := range map[string]string{
		"":            "an SSH public key is a line such as",
		"ssh-rsa":     "an SSH public key is a line such as",
		"ssh-rsa !!!": "read the SSH public key: illegal base64",
	} {
		if _, err := SSHFingerprint(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("fingerprint of %q: %v, want %q", line, err, want)
		}
	}
}
