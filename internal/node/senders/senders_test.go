package senders_test

import (
	"testing"

	"kops.local/kops/internal/node/senders"
)

func TestNetwork(t *testing.T) {
	for remote, want := range map[string]string{
		"10.0.0.1:1000":              "10.0.0.1/32",
		"[::ffff:10.0.0.1]:7":        "10.0.0.1/32",
		"[2001:db8:0:1:a:b:c:d]:443": "2001:db8:0:1:a::/80",
		"[fe80::1%eth0]:443":         "fe80::/80",
		"@":                          "invalid Prefix",
	} {
		if got := senders.Network(remote).String(); got != want {
			t.Errorf("%s: %s, want %s", remote, got, want)
		}
	}
}
