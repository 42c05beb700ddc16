// Package localtest gives tests that make machines on this host a place to do so.
package localtest

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"kops.local/kops/internal/platform/local/ground"
	"kops.local/kops/internal/platform/local/site"
	"kops.local/kops/internal/test/turns"
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

// Main runs the tests of a package to which a folder of this host belongs, as in Workplace.
// The folder goes afterwards, unless it is kept.
func Main(m *testing.M, dir string, kept func() bool) {
	if !Wanted() || os.Geteuid() != 0 {
		os.Exit(m.Run()) // which skips all, loudly
	}
	lock, err := Claim(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if !kept() {
		err = leave(dir, lock)
	}
	if err = errors.Join(err, lock.Close()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// leave removes a folder, and the lock while it is held.
func leave(dir string, lock *os.File) error {
	return errors.Join(os.RemoveAll(dir), os.Remove(lock.Name()))
}

// wanted is the variable of the environment by which clusters of real programs are tested:
// set, in a form that is short enough for each change, and "whole", in full.
const wanted = "KOPS_E2E"

// Wanted reports whether tests are to run clusters of real programs on this host.
func Wanted() bool { return os.Getenv(wanted) != "" }

// Whole reports whether they are to run in full.
func Whole() bool { return os.Getenv(wanted) == "whole" }

// Cluster skips the test unless clusters of real programs are wanted, and fails it where
// they cannot be made.
func Cluster(t testing.TB) {
	t.Helper()
	if !Wanted() {
		t.Skip("SKIPPED, NOTHING WAS TESTED: it needs the programs of a cluster, and runs only where " + wanted + "=1 is set")
	}
	if err := ground.Check(ground.This()); err != nil {
		t.Fatalf("CANNOT RUN: %v", err)
	}
}

// Long skips a test that takes too long for each change, unless all run in full. short names its short form.
func Long(t testing.TB, short string) {
	t.Helper()
	if !Whole() {
		t.Skipf("SKIPPED: it takes long, and runs where %s=whole is set; its short form is %s", wanted, short)
	}
}

// Turn is Cluster, and skips the test unless this run is the nth of each group of runs, or all run in full.
func Turn(t testing.TB, n, of int) {
	t.Helper()
	Cluster(t)
	if !Whole() {
		turns.Take(t, n, of, wanted+"=1")
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
			if err := leave(dir, lock); err != nil {
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
