// Package vtpmtest gives tests the virtual TPM of an instance, played by swtpm.
//
// A test is skipped with a loud message where swtpm is not installed, or fails where the
// environment says CI=true.
package vtpmtest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"kops.local/kops/internal/platform/gce/vtpm/softtpm"
	"kops.local/kops/internal/platform/rehearsal"
)

// Start runs the TPM of one instance until the test ends, below root where Linux has it, and
// returns its attestation key, as vtpm.PublicKey does. root is short: see softtpm.Start.
func Start(t testing.TB) (root, key string) {
	t.Helper()
	if _, err := exec.LookPath(softtpm.Program); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CANNOT RUN: %v", err)
		}
		t.Skipf("SKIPPED, NOTHING WAS PROVEN BY A TPM: %v; apt-get install %s", err, softtpm.Program)
	}
	root, err := os.MkdirTemp("", "tpm") // as the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) }) // it is of no use, nor harm
	state := filepath.Join(root, "state")
	if key, err = softtpm.Prepare(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, "dev"), 0o700); err != nil {
		t.Fatal(err)
	}
	tpm, err := softtpm.Start(context.Background(), state, filepath.Join(root, "dev/tpm0"), rehearsal.Tie)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tpm.Stop(); err != nil {
			t.Error(err)
		}
	})
	return root, key
}
