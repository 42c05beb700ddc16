package store_test

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
)

// A folder that several users share may contain files that only one of them can read.
func TestAFileThatMayNotBeReadIsListed(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]os.FileMode{"a": 0o644, "private": 0o200} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), mode); err != nil {
			t.Fatal(err)
		}
	}
	f := store.NewFolder(dir)
	withoutPrivileges(t, func() {
		var keys []string
		for info, err := range f.List(t.Context(), "") {
			if err != nil {
				t.Error(err)
				return
			}
			keys = append(keys, info.Key)
			if known := info.Digest != ""; info.Version == "" || info.Size != 1 || known != (info.Key == "a") {
				t.Errorf("listed as %+v", info)
			}
		}
		if len(keys) != 2 {
			t.Errorf("listed are %v", keys)
		}
		if _, _, err := f.Get(t.Context(), "private"); !fault.Is(err, fault.Denied) {
			t.Errorf("read: %v", err)
		}
	})
}

// withoutPrivileges calls f on a thread without special rights on files, even if root runs the test.
func withoutPrivileges(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread exits with this function
		if os.Geteuid() == 0 {
			if err := syscall.Setfsuid(65534); err != nil {
				t.Error(err)
				return
			}
		}
		f()
	}()
	<-done
}
