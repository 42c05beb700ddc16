// Package clitest runs kops in tests as its user does: command lines, in this process, with its own
// home and environment.
package clitest

import (
	"bytes"
	"context"
	"crypto"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/cli"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/model/assets"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/spec/versions"
	"kops.local/kops/internal/test/programstest"
	"kops.local/kops/internal/test/testkeys"
)

// Version is the version of kops in these tests.
const Version = "1.37.0-test"

// User has a home and an environment.
type User struct {
	testing.TB
	Home string
	Env  map[string]string
	on   *platform.Platform
	// newKey saves the time of key generation.
	newKey func() (crypto.Signer, error)
}

// NewUser returns a user of a platform, whose home contains everything that kops downloads.
func NewUser(t testing.TB, on platform.Platform) *User {
	if os.Getenv(asKops) != "" {
		t.Fatal("this process runs as kops; TestMain must call Main")
	}
	u := &User{TB: t, on: &on, Env: map[string]string{}, newKey: testkeys.Source()}
	u.ResetHome()
	return u
}

// ResetHome gives the user another home, as on another machine: its cache contains digests, as if they had
// been requested from the publishers of a cluster's files before, which no test does, and kops' own programs.
func (u *User) ResetHome() {
	u.Helper()
	u.Home = u.TempDir()
	u.Env["HOME"] = u.Home
	u.Release("of a test")
	stable, _ := versions.Embedded(versions.Stable)
	for _, arch := range download.Arches() {
		files, err := assets.Machine{Kubernetes: stable.NewClusterVersion(Version), CredentialProvider: u.on.Model.CredentialProvider}.Files(arch, assets.Mirrors{}, nil)
		if err != nil {
			u.Fatal(err)
		}
		for _, f := range files {
			url := sha256.Sum256([]byte(f.Public))
			file := filepath.Join(u.Home, ".cache", "kops", "hashes", hex.EncodeToString(url[:]))
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(strings.Repeat("0", 64)), 0o600)); err != nil {
				u.Fatal(err)
			}
		}
	}
}

// Release puts an archive of programs that print a text into the cache.
func (u *User) Release(text string) {
	u.Helper()
	programstest.Archive(u, filepath.Join(u.Home, ".cache", "kops", "programs"), Version, text)
}

// Result is the result of one run of the program.
type Result struct {
	Code     int
	Out, Err string
	Took     time.Duration
}

// Run runs one command line.
func (u *User) Run(args ...string) Result { return u.RunContext(u.Context(), args...) }

// RunContext is Run with a context that stops it.
func (u *User) RunContext(ctx context.Context, args ...string) Result {
	var out, errs bytes.Buffer
	sys := shell.System{In: strings.NewReader(""), Out: &out, Err: &errs, Env: func(k string) string { return u.Env[k] },
		Home: u.Home, Cache: filepath.Join(u.Home, ".cache", "kops"), User: "tester", Host: "here", PID: 1, Now: time.Now, NewKey: u.newKey, Version: Version}
	start := time.Now()
	code := cli.Run(ctx, sys, args)
	return Result{code, out.String(), errs.String(), time.Since(start)}
}

// Must runs a command line that must succeed.
func (u *User) Must(args ...string) Result {
	u.Helper()
	r := u.Run(args...)
	if r.Code != 0 {
		u.Fatalf("kops %s: exit %d\n%s%s", strings.Join(args, " "), r.Code, r.Out, r.Err)
	}
	return r
}

// publicKey is a key that was generated only for these tests.
const publicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGk3Yk1c9e0v5t2y1l7eYw0nq5r5c3n1tV8sXg5c9qQ2 test"

// Key writes an SSH public key into the user's home and returns its file.
func (u *User) Key() string {
	return u.File("id.pub", publicKey+"\n")
}

// File writes a file into the user's home and returns its path.
func (u *User) File(name, text string) string {
	u.Helper()
	file := filepath.Join(u.Home, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		u.Fatal(err)
	}
	return file
}

// Difference returns the elements of a that are not in b.
func Difference(a, b []string) []string {
	var out []string
	for _, s := range a {
		if !slices.Contains(b, s) {
			out = append(out, s)
		}
	}
	return out
}
