package store_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/storetest"
)

func TestMemory(t *testing.T) {
	storetest.Run(t, storetest.Traits{Nested: true, Atomic: true, Digests: true}, func(*testing.T) storetest.Clients {
		m := store.NewMemory("test")
		return func() store.Store { return m }
	})
}

func TestMemfs(t *testing.T) {
	n, all := 0, store.Backends{store.Memories()}
	storetest.Run(t, storetest.Traits{Nested: true, Atomic: true, Digests: true}, func(t *testing.T) storetest.Clients {
		n++
		url := fmt.Sprintf("memfs://clusters/part %d", n)
		return func() store.Store {
			s, err := all.Open(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
	})
}

func TestFolder(t *testing.T) {
	storetest.Run(t, storetest.Traits{Atomic: true, Digests: true}, func(t *testing.T) storetest.Clients {
		root := filepath.Join(t.TempDir(), "made", "on demand")
		return func() store.Store { return store.NewFolder(root) }
	})
}

func TestFolderModes(t *testing.T) {
	root := filepath.Join(t.TempDir(), "state")
	s := store.NewFolder(root)
	for _, private := range []bool{true, false, true} {
		if _, err := s.Put(t.Context(), "pki/key", []byte("x"), store.PutOptions{Private: private}); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(root, "pki", "key"))
		if err != nil {
			t.Fatal(err)
		}
		if open := info.Mode().Perm()&0o077 != 0; open == private {
			t.Errorf("private %v: mode %v", private, info.Mode())
		}
	}
	info, err := os.Stat(filepath.Join(root, "pki"))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder: %v, %v", info.Mode(), err)
	}
}

// A process that is killed during a write leaves an unfinished file.
func TestFolderForgetsUnfinishedWrites(t *testing.T) {
	root := t.TempDir()
	s := store.NewFolder(root)
	if _, err := s.Put(t.Context(), "a/b/config", []byte("x"), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(root, "a", "b", ".kops-unfinished-0123")
	if err := os.WriteFile(left, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	for info, err := range s.List(t.Context(), "") {
		if err != nil || info.Key != "a/b/config" {
			t.Errorf("listed: %q, %v", info.Key, err)
		}
	}
	if err := s.Delete(t.Context(), "a/b/config", store.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(root)
	if err != nil || len(entries) != 0 {
		t.Errorf("left in the root: %v, %v", entries, err)
	}
}

func TestARefusedWriteLeavesNoFolder(t *testing.T) {
	root := filepath.Join(t.TempDir(), "state")
	s := store.NewFolder(root)
	if _, err := s.Put(t.Context(), "kept", []byte("x"), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), "a/b/c", []byte("x"), store.PutOptions{IfVersion: "other"}); !fault.Is(err, fault.Conflict) {
		t.Errorf("got %v, want a conflict", err)
	}
	if _, err := os.Stat(filepath.Join(root, "a")); !os.IsNotExist(err) {
		t.Errorf("the folder of what was refused is there: %v", err)
	}
}

// A process that removes the last file of a folder also removes the folder and its parents, while others
// start to write there.
func TestFoldersComeAndGo(t *testing.T) {
	root, times := t.TempDir(), 100
	if memory, err := os.MkdirTemp("/dev/shm", "kops-test-"); err == nil { // flushing is cheap there
		t.Cleanup(func() { os.RemoveAll(memory) })
		root, times = memory, 1500
	}
	var all sync.WaitGroup
	for _, key := range []string{"f/a", "f/b", "f/g/a", "f/g/b"} {
		s := store.NewFolder(root)
		all.Go(func() {
			for range times {
				v, err := s.Put(t.Context(), key, []byte("x"), store.PutOptions{IfAbsent: true})
				if err == nil {
					err = s.Delete(t.Context(), key, store.DeleteOptions{IfVersion: v})
				}
				if err != nil {
					t.Errorf("%s: %v (%s)", key, err, fault.Of(err))
					return
				}
			}
		})
	}
	all.Wait()
	if entries, err := os.ReadDir(root); err != nil || len(entries) > 0 {
		t.Errorf("left in the root: %v, %v", entries, err)
	}
}

// Another user of the folder may have put a link where the next unfinished file would be.
func TestFolderWritesThroughNoLink(t *testing.T) {
	root, outside := t.TempDir(), filepath.Join(t.TempDir(), "precious")
	if err := os.WriteFile(outside, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	unfinished := filepath.Join(root, ".kops-unfinished-"+store.Digest([]byte("a"))[:16])
	if err := os.Symlink(outside, unfinished); err != nil {
		t.Fatal(err)
	}
	s := store.NewFolder(root)
	if _, err := s.Put(t.Context(), "a", []byte("secret"), store.PutOptions{Private: true}); err != nil {
		t.Fatal(err)
	}
	if kept, err := os.ReadFile(outside); string(kept) != "kept" || err != nil {
		t.Errorf("the file outside is %q, %v", kept, err)
	}
	if info, err := os.Lstat(filepath.Join(root, "a")); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the object is %v, %v", info.Mode(), err)
	}
}

func TestFolderNeedsAccess(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may do everything")
	}
	root := t.TempDir()
	if err := os.Chmod(root, 0o500); err != nil {
		t.Fatal(err)
	}
	_, err := store.NewFolder(root).Put(t.Context(), "a", nil, store.PutOptions{})
	if !fault.Is(err, fault.Denied) || fault.Remedy(err) == "" {
		t.Errorf("a write without permission: %v, remedy %q", err, fault.Remedy(err))
	}
}

func TestFolderHoldsNoObjectBelowAnother(t *testing.T) {
	s := store.NewFolder(t.TempDir())
	if _, err := s.Put(t.Context(), "a", []byte("x"), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := s.Put(t.Context(), "a/b", []byte("x"), store.PutOptions{})
	if !fault.Is(err, fault.Permanent) || !strings.Contains(fault.Remedy(err), "another name") {
		t.Errorf("%v, remedy %q", err, fault.Remedy(err))
	}
}

func TestOpen(t *testing.T) {
	folder := t.TempDir()
	known := store.Backends{store.Folders(), store.Memories()}
	tests := []struct{ url, want, err, remedy string }{
		{url: "file://" + folder + "/", want: "file://" + folder},
		{url: folder, want: "file://" + folder},
		{url: "file:///", want: "file:///"},
		{url: "memory://m/folder/", want: "memory://m/folder"},
		{url: "memory://m", want: "memory://m"},
		{url: "memfs://tests/c.example.com", want: "memfs://tests/c.example.com"},
		{url: "file://", err: "open state store file://: the path is empty"},
		{url: "s3://bucket", err: `open state store s3://bucket: unknown / unhandled path type "s3"`, remedy: "use one of file://, memfs://, memory://"},
		{url: "flie:///x", err: `open state store flie:///x: unknown / unhandled path type "flie"`,
			remedy: "did you mean file://? use one of file://, memfs://, memory://"},
	}
	for _, tt := range tests {
		s, err := known.Open(t.Context(), tt.url)
		if tt.err != "" {
			if err == nil || err.Error() != tt.err || fault.Remedy(err) != tt.remedy {
				t.Errorf("%s: error %q, remedy %q; want %q, %q", tt.url, err, fault.Remedy(err), tt.err, tt.remedy)
			}
			continue
		}
		if err != nil || s.About().URL != tt.want {
			t.Errorf("%s: %v, %v; want %s", tt.url, s, err, tt.want)
		}
	}
	one, err := known.Open(t.Context(), "memory://m/x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := one.Put(t.Context(), "k", []byte("v"), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	other, err := known.Open(t.Context(), "memory://m")
	if err != nil {
		t.Fatal(err)
	}
	if data, _, err := other.Get(context.Background(), "x/k"); string(data) != "v" || err != nil {
		t.Errorf("the same memory opened twice: %q, %v", data, err)
	}
}
