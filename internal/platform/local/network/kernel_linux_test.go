package network

import (
	"os"
	"testing"
)

func TestHasLinkKind(t *testing.T) {
	for kind, want := range map[string]bool{"bridge": true, "veth": true, "kops-no-such-kind": os.Geteuid() != 0} {
		if got, err := HasLinkKind(kind); got != want || err != nil {
			t.Errorf("%s: %t, %v", kind, got, err)
		}
	}
	if _, err := HasESP(); err != nil {
		t.Error(err)
	}
}
