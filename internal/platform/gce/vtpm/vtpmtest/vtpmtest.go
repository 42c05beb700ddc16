// Package vtpmtest provides tests with the virtual TPM of an instance, emulated by swtpm.
//
// If swtpm is not installed, a test is skipped with a conspicuous message, or fails if the
// environment sets CI=true.
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

// Start runs the TPM of one instance until the test ends, at its Linux path below root, and returns
// its attestation key in vtpm.PublicKey's format. root is short: see softtpm.Start.
func Start(t testing.TB) (root, key string) {
	t.Helper()
	if _, err := exec.LookPath(softtpm.Program); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CANNOT RUN: %v", err)
		}
		t.Skipf("SKIPPED, NOTHING WAS PROVEN BY A TPM: %v; apt-get install %s", err, softtpm.Program)
	}
	root, err := os.MkdirTemp("", "tpm") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) }) // errors do not matter
	state := filepath.Join(root, "state")
	if key, err = softtpm.Prepare(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, "dev"), 0o700); err != nil {
		t.Fatal(err)
	}
	tpm, err := softtpm.Start(context.Background(), state, filepath.Join(root, "dev/tpm0"), rehearsal.KillWithParent)
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
