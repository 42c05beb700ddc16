package bundle_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/ops/bundle"
	"kops.local/kops/internal/ops/mirror"
	"kops.local/kops/internal/store"
)

func TestAPulledBundleIsTheOneThatWasPushed(t *testing.T) {
	b := newBench(t)
	made := b.create(want())
	at := store.NewMemory("a")
	to, err := mirror.NewFiles(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := made.PushFiles(t.Context(), to, true, noReport); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	pulled, first, err := bundle.Pull(t.Context(), at, dir, nil, noReport)
	if err != nil {
		t.Fatal(err)
	}
	if first.Fetched == 0 || first.Kept != 0 || first.Bytes == 0 {
		t.Errorf("%+v", first)
	}
	if d := cmp.Diff(made.Files(), pulled.Files()) + cmp.Diff(made.Images(), pulled.Images()); d != "" {
		t.Error(d)
	}
	if err := pulled.Verify(t.Context(), noReport); err != nil {
		t.Error(err)
	}
	if _, again, err := bundle.Pull(t.Context(), at, dir, nil, noReport); err != nil || again.Fetched != 0 || again.Kept != first.Fetched {
		t.Errorf("%+v, %v; at first %+v", again, err, first)
	}
	if _, _, err := bundle.Pull(t.Context(), at, t.TempDir(), []string{"a key"}, noReport); err == nil || fault.Remedy(err) == "" {
		t.Errorf("a bundle that nobody signed: %v", err)
	}
	for info, err := range at.List(t.Context(), "oci/blobs/") { // content that has changed in the store is rejected
		if err != nil {
			t.Fatal(err)
		}
		if _, err := at.Put(t.Context(), info.Key, []byte("changed"), store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	other := t.TempDir()
	_, _, err = bundle.Pull(t.Context(), at, other, nil, noReport)
	expectError(t, err, "has the SHA-256", "but the index of the bundle says")
	if _, err := os.Stat(filepath.Join(other, "bundle.json")); !os.IsNotExist(err) {
		t.Errorf("the folder has a bundle: %v", err)
	}
}

func TestThereIsNothingToPull(t *testing.T) {
	_, _, err := bundle.Pull(t.Context(), store.NewMemory("a"), t.TempDir(), nil, noReport)
	expectError(t, err, "there is no bundle in memory://a")
}
