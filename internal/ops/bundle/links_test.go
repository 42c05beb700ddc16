package bundle_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Bundles come from elsewhere, so every reader rejects links in them.
func TestLinksInABundleAreNotFollowed(t *testing.T) {
	b := newBench(t)
	made := b.create(want())
	secret := filepath.Join(t.TempDir(), "secret")
	b.file(secret, "hush")
	blob := filepath.Join(b.dir, "oci/blobs/sha256", strings.TrimPrefix(made.Images()[pause].Digest, "sha256:"))
	place := filepath.Join(b.dir, "files", strings.TrimPrefix(kubelet, "https://dl.k8s.io/"))
	for _, file := range []string{blob, place} {
		if err := errors.Join(os.Remove(file), os.Symlink(secret, file)); err != nil {
			t.Fatal(err)
		}
	}
	address := b.serve(made)
	for _, path := range []string{strings.TrimPrefix(kubelet, "https://dl.k8s.io"), "/v2/pause/blobs/" + made.Images()[pause].Digest} {
		if resp, body := b.get(http.MethodGet, address+path); resp.StatusCode == http.StatusOK || strings.Contains(body, "hush") {
			t.Errorf("%s: %s %q", path, resp.Status, body)
		}
	}
	expectError(t, made.Verify(t.Context(), nil), "is a symbolic link and not a regular file", kubelet, pause)
	if err := made.Extract(kubelet, io.Discard); err == nil {
		t.Error("a link was extracted")
	}
}

func TestAFileOfAnotherSizeIsNotServed(t *testing.T) {
	b := newBench(t)
	made := b.create(want())
	b.file(filepath.Join(b.dir, "files", strings.TrimPrefix(kubelet, "https://dl.k8s.io/")), "longer than it was, by far")
	if resp, body := b.get(http.MethodGet, b.serve(made)+strings.TrimPrefix(kubelet, "https://dl.k8s.io")); resp.StatusCode == http.StatusOK {
		t.Errorf("%s %q", resp.Status, body)
	}
}
