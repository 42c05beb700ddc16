package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A file is only as durable as every name on its path.
func TestNamesOfNewFoldersAreMadeDurable(t *testing.T) {
	top := t.TempDir()
	var synced []string
	f := NewFolder(filepath.Join(top, "state", "kops"))
	f.sync = func(folder *os.File) error {
		rel, err := filepath.Rel(top, folder.Name())
		synced = append(synced, rel)
		return err
	}
	for _, c := range []struct {
		key  string
		want []string
	}{
		{"a.example.com/config", []string{".", "state", "state/kops", "state/kops/a.example.com"}},
		{"a.example.com/config", []string{"state/kops/a.example.com"}},
		{"a.example.com/pki/private/ca", []string{"state/kops/a.example.com", "state/kops/a.example.com/pki", "state/kops/a.example.com/pki/private"}},
		{"b", []string{"state/kops"}},
	} {
		synced = nil
		if _, err := f.Put(t.Context(), c.key, []byte("x"), PutOptions{}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(synced, c.want) {
			t.Errorf("%s: durable are the names in %q, want %q", c.key, synced, c.want)
		}
	}
	full := errors.New("the disk is broken")
	f.sync = func(folder *os.File) error {
		if filepath.Base(folder.Name()) == "kops" {
			return full
		}
		return nil
	}
	if _, err := f.Put(t.Context(), "c/config", nil, PutOptions{}); !errors.Is(err, full) {
		t.Errorf("a name that is not durable: %v", err)
	}
}

// An empty folder whose lock is held may be removed and replaced by another.
func TestAWriteStaysInTheFolderThatIsLocked(t *testing.T) {
	f := NewFolder(t.TempDir())
	path := filepath.Join(f.root, "a")
	dir, err := f.lockFolder(t.Context(), path, true)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := replaceFile(dir, "config", []byte("ours"), 0o644); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is gone: %v", err)
	}
	if _, err := f.Put(t.Context(), "a/config", []byte("theirs"), PutOptions{IfAbsent: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := replaceFile(dir, "config", []byte("ours"), 0o644); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is another: %v", err)
	}
	if data, _, err := f.Get(t.Context(), "a/config"); string(data) != "theirs" || err != nil {
		t.Errorf("the object is %q, %v", data, err)
	}
}
