package confined

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// folder creates a folder with a file, and links to what is beside it and in it.
func folder(t *testing.T) (dir, secret string) {
	t.Helper()
	base := t.TempDir()
	dir, secret = filepath.Join(base, "dir"), filepath.Join(base, "secret")
	for file, text := range map[string]string{secret: "hush", filepath.Join(dir, "plain"): "fine", filepath.Join(dir, "sub", "x"): "fine"} {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"out": secret, "up": base, "within": "plain", "folder": "sub"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir, secret
}

var refused = []string{"../secret", "/etc/passwd", "sub/../../secret", "..", "", "out", "up/secret", "within", "folder/x", "plain/x", "sub", "a\x00b"}

func TestOnlyRegularFilesOfTheFolderAreRead(t *testing.T) {
	dir, _ := folder(t)
	if text, err := Read(dir, "sub/x", 4); err != nil || string(text) != "fine" {
		t.Errorf("a file: %q, %v", text, err)
	}
	if _, err := Read(dir, "sub/x", 3); err == nil {
		t.Error("more was read than the limit")
	}
	if _, err := Open(dir, "no/such"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	for _, name := range refused {
		if text, err := Read(dir, name, 100); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: read %q, %v", name, text, err)
		}
		if _, err := Stat(dir, name); err == nil {
			t.Errorf("%q was described", name)
		}
	}
}

func TestNothingIsWrittenOrRemovedOutside(t *testing.T) {
	dir, secret := folder(t)
	for _, name := range refused {
		if Write(dir, name, []byte("mine"), 0o755, 0o644) == nil {
			t.Errorf("%q was written", name)
		}
		if Check(dir, name) == nil {
			t.Errorf("%q passed the check", name)
		}
		if Rename(dir, "plain", name) == nil && !strings.Contains("out within", name) {
			t.Errorf("a file was moved to %q", name)
		}
		os.WriteFile(filepath.Join(dir, "plain"), []byte("fine"), 0o600) //nolint:errcheck // the test reads it below
	}
	if RemoveAll(dir, "up/secret") == nil || RemoveAll(dir, "../secret") == nil {
		t.Error("a file outside was removed")
	}
	if err := errors.Join(RemoveAll(dir, "up"), RemoveAll(dir, "none/x"), Remove(dir, "out")); err != nil {
		t.Errorf("links are removed as what they are: %v", err)
	}
	if text, err := os.ReadFile(secret); err != nil || string(text) != "hush" {
		t.Errorf("the file outside: %q, %v", text, err)
	}
}

func TestAFileIsWrittenWhole(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	if err := Check(dir, "a/b/c"); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "two"} {
		if err := Write(dir, "a/b/c", []byte(text), 0o755, 0o640); err != nil {
			t.Fatal(err)
		}
		got, err := Read(dir, "a/b/c", 100)
		info, serr := Stat(dir, "a/b/c")
		if err != nil || serr != nil || string(got) != text || info.Mode().Perm() != 0o640 {
			t.Errorf("%q, %v, %v", got, info, errors.Join(err, serr))
		}
	}
	if left, err := os.ReadDir(filepath.Join(dir, "a", "b")); err != nil || len(left) != 1 {
		t.Errorf("beside the file: %v, %v", left, err)
	}
}
