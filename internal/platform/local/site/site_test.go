package site

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestIDsDifferBetweenClustersAndRoots(t *testing.T) {
	seen := map[string]Site{}
	for _, s := range []Site{{"/a", "x"}, {"/a", "y"}, {"/b", "x"}} {
		if other, ok := seen[s.ID()]; ok {
			t.Errorf("%v and %v have the id %s", s, other, s.ID())
		}
		seen[s.ID()] = s
		// A machine's interface is named vb-k, the ID and four characters; the kernel allows 15.
		if len("vb-k"+s.ID()+"ffff") > 15 || len(s.Bridge()) > 15 {
			t.Errorf("the id %s is too long for the kernel", s.ID())
		}
	}
}

func TestCheckName(t *testing.T) {
	for name, ok := range map[string]bool{"a.k8s.local": true, "nodes-1": true, "": false, ".hidden": false, "..": false, "a/b": false, "a\x00": false, strings.Repeat("x", 201): false} {
		if err := CheckName(name); (err == nil) != ok {
			t.Errorf("CheckName(%q): %v", name, err)
		}
	}
}

func TestLockExcludesAndTidies(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: locks are Linux's")
	}
	s := Site{filepath.Join(t.TempDir(), "root"), "c"}
	unlock, err := s.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second lock: %v", err)
	}
	if err := WriteJSON(s.Path(Groups, "g.json"), map[string]int{"size": 1}); err != nil {
		t.Fatal(err)
	}
	unlock()
	if _, err := os.Stat(s.Dir()); err != nil {
		t.Errorf("a folder with something in it: %v", err)
	}
	if unlock, err = s.Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(s.Path(Groups, "g.json")); err != nil {
		t.Fatal(err)
	}
	// Leftovers of an interrupted process do not count.
	for _, f := range []string{s.Path(draft + "1"), s.Path(Groups, draft+"2"), s.Path(Groups, ".g.log"), s.Path(Volumes, ".doomed-v", "member", "snap")} {
		if err := Write(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	unlock()
	if _, err := os.Stat(s.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty folder is left: %v", err)
	}
}

// A lock on a file that was removed meanwhile protects nothing, so a waiter must not take it.
func TestLockOfARemovedFileIsNotHeld(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: locks are Linux's")
	}
	file := filepath.Join(t.TempDir(), "lock")
	f, held, err := TryLock(file)
	if err != nil || !held {
		t.Fatal(held, err)
	}
	defer f.Close()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	g, held, err := TryLock(file)
	if err != nil || !held {
		t.Fatalf("the new file cannot be locked: %v", err)
	}
	g.Close()
}

func TestReadJSONNamesTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.json")
	var v struct{ A int }
	if ok, err := ReadJSON(file, &v); ok || err != nil {
		t.Errorf("a missing file: %v %v", ok, err)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadJSON(file, &v); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a broken file: %v", err)
	}
}

// Processes that check whether a lock is held do not obstruct each other, and leave no file.
func TestLocked(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: locks are Linux's")
	}
	file := filepath.Join(t.TempDir(), "lock")
	is := func(want bool) {
		t.Helper()
		if held, err := Locked(file); held != want || err != nil {
			t.Errorf("held is %t (%v), not %t", held, err, want)
		}
	}
	is(false)
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the question made the file: %v", err)
	}
	f, held, err := TryLock(file)
	if err != nil || !held {
		t.Fatal(held, err)
	}
	is(true)
	f.Close()
	asker, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer asker.Close()
	if free, err := flock(asker, true); !free || err != nil {
		t.Fatal(free, err)
	}
	is(false)
}
