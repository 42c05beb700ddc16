// Package localtest gives tests that make machines on this host a place to do so.
package localtest

import (
	"errors"
	"os"
	"testing"

	"kops.local/kops/internal/platform/local/ground"
	"kops.local/kops/internal/platform/local/site"
)

// Need skips the test where machines cannot be made, or fails it where they must be.
func Need(t testing.TB) {
	t.Helper()
	err := ground.Check(ground.This())
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatalf("CANNOT RUN: %v", err)
	default:
		t.Skipf("SKIPPED, NOTHING WAS TESTED: %v", err)
	}
}

// Workplace returns a folder of this host that belongs to the test alone. It is
// always the same one: a run that was cut off leaves machines and interfaces, whose
// names and addresses the next run needs, and what it takes to delete them is in
// this folder. So the caller clears first; the folder of a failed test stays.
//
// It is on a disk, as overlays need one.
func Workplace(t testing.TB, name string) string {
	t.Helper()
	dir := "/var/lib/kops-test-" + name
	lock, err := Claim(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !t.Failed() {
			if err := errors.Join(os.RemoveAll(dir), os.Remove(lock.Name())); err != nil {
				t.Error(err)
			}
		}
		lock.Close() // ends the lock
	})
	return dir
}

// Claim makes a folder, for this run of tests alone until the lock, a file beside the
// folder, is closed.
func Claim(dir string) (lock *os.File, err error) {
	lock, held, err := site.TryLock(dir + ".lock")
	if err == nil && !held {
		err = errors.New("another run of these tests works in " + dir)
	}
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	return lock, err
}
