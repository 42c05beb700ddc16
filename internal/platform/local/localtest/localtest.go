// Package localtest gives tests that create machines on this host a place to do so.
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

// Require skips the test if machines cannot be created here, or fails it if they are required.
func Require(t testing.TB) {
	t.Helper()
	err := ground.Check(ground.LocalHost())
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatalf("CANNOT RUN: %v", err)
	default:
		t.Skipf("SKIPPED, NOTHING WAS TESTED: %v", err)
	}
}

// Main runs the tests of a package that uses a folder of this host, as in Workplace. The
// folder is removed afterwards, unless kept returns true.
func Main(m *testing.M, dir string, kept func() bool) {
	if !IsEnabled() || os.Geteuid() != 0 {
		os.Exit(m.Run()) // skips all, loudly
	}
	lock, err := Claim(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if !kept() {
		err = removeClaimed(dir, lock)
	}
	if err = errors.Join(err, lock.Close()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// removeClaimed removes a folder, and then its lock.
func removeClaimed(dir string, lock *os.File) error {
	return errors.Join(os.RemoveAll(dir), os.Remove(lock.Name()))
}

// variable is the environment variable that enables tests of clusters of real programs: any
// value in the short form that runs for each change, "whole" in full.
const variable = "KOPS_E2E"

// IsEnabled reports whether tests of clusters of real programs should run on this host.
func IsEnabled() bool { return os.Getenv(variable) != "" }

// IsFull reports whether they should run in full.
func IsFull() bool { return os.Getenv(variable) == "whole" }

// Cluster skips the test unless clusters of real programs are wanted, and fails it if
// they cannot be created.
func Cluster(t testing.TB) {
	t.Helper()
	if !IsEnabled() {
		t.Skip("SKIPPED, NOTHING WAS TESTED: it needs the programs of a cluster, and runs only if " + variable + "=1 is set")
	}
	if err := ground.Check(ground.LocalHost()); err != nil {
		t.Fatalf("CANNOT RUN: %v", err)
	}
}

// SkipUnlessFull skips a test that takes too long to run for each change, unless all run in full. short names its
// short form.
func SkipUnlessFull(t testing.TB, short string) {
	t.Helper()
	if !IsFull() {
		t.Skipf("SKIPPED: it takes long, and runs only if %s=whole is set; its short form is %s", variable, short)
	}
}

// ClusterTurn is like Cluster, but also skips the test unless this run is the nth of each group of runs, or all
// run in full.
func ClusterTurn(t testing.TB, n, of int) {
	t.Helper()
	Cluster(t)
	if !IsFull() {
		turns.SkipUnlessTurn(t, n, of, variable+"=1")
	}
}

// ClusterShare is like Cluster, but also skips the test unless this run picks its share, or all run in full.
func ClusterShare(t testing.TB, s turns.Share) {
	t.Helper()
	Cluster(t)
	if !IsFull() {
		turns.SkipUnlessPicked(t, s, variable+"=1")
	}
}

// Workplace returns a folder of this host for the test's exclusive use. It is always
// the same one: an interrupted run leaves machines and interfaces, whose names and
// addresses the next run needs, and this folder contains what it takes to delete
// them. So the caller cleans up first; the folder of a failed test is kept.
//
// It is on a disk because overlayfs needs one.
func Workplace(t testing.TB, name string) string {
	t.Helper()
	dir := "/var/lib/kops-test-" + name
	lock, err := Claim(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !t.Failed() {
			if err := removeClaimed(dir, lock); err != nil {
				t.Error(err)
			}
		}
		lock.Close() // releases the lock
	})
	return dir
}

// Claim creates a folder for this test run's exclusive use, until the lock, a file
// beside the folder, is closed.
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
