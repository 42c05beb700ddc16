package kops

import (
	"errors"
	"fmt"
	"testing"

	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store/clusterstore"
)

// A damaged keyset is a failure; one that kops has no permission to read is not.
func TestADamagedKeysetIsAFailure(t *testing.T) {
	damaged := fmt.Errorf("read the keysets: %w", fault.Wrap(fault.Permanent,
		&clusterstore.BrokenError{Name: "etcd-clients-ca", URL: "file:///s/keyset.yaml", Err: errors.New("no PEM")}, "put it back"))
	got := keyTrouble(damaged)
	if len(got) != 1 || got[0].String() != "Keyset etcd-clients-ca: its file file:///s/keyset.yaml cannot be read: no PEM; put it back" {
		t.Errorf("%v", got)
	}
	elsewhere := &clusterstore.BrokenError{Name: "kubernetes-ca", Err: fmt.Errorf("the item %w", pki.ErrNoKey)}
	for _, err := range []error{nil, fault.New(fault.Denied, "403"), elsewhere} {
		if got := keyTrouble(err); len(got) > 0 {
			t.Errorf("%v: %v", err, got)
		}
	}
}
