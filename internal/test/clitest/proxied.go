package clitest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"kops.local/kops/internal/cli"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/test/proxy"
	"kops.local/kops/internal/test/testkeys"
)

// Proxied is a user of a cluster whose requests to the cloud go through a proxy.
type Proxied struct {
	*User
	Proxy *proxy.Proxy
}

// patience is the time after the cut when the user stops the command, and the connection is restored.
const patience = 100 * time.Millisecond

// RunCut runs a command line whose connection breaks at a write, before or after it has reached the
// cloud, and which the user then stops. It reports whether the write was reached.
func (u *Proxied) RunCut(at int, after bool, args ...string) (r Result, cut bool) {
	u.Helper()
	u.Proxy.Reset()
	ctx, giveUp := context.WithCancel(u.Context())
	defer giveUp()
	var was atomic.Bool
	u.Proxy.SetCut(proxy.Cut{At: at, After: after, Then: func() {
		was.Store(true)
		time.AfterFunc(patience, func() { giveUp(); u.Proxy.Restore() })
	}})
	r = u.RunContext(ctx, args...)
	u.Proxy.Restore()
	return r, was.Load()
}

// asKops is set where a test binary runs as kops.
const asKops = "RUN_KOPS"

// Main runs the tests of a package, whose TestMain it is: the test binary is also kops, which
// RunKilled kills.
func Main(m *testing.M) {
	if os.Getenv(asKops) == "" {
		os.Exit(m.Run())
	}
	sys := shell.OS(Version)
	sys.NewKey = testkeys.Source()
	os.Exit(cli.Run(context.Background(), sys, os.Args[1:]))
}

// RunKilled runs kops as a process that is killed at a write, and reports whether the write was reached.
// The error is the process' exit error.
func (u *Proxied) RunKilled(at int, args ...string) (out []byte, killed bool, err error) {
	u.Helper()
	program, err := os.Executable()
	if err != nil {
		u.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	cmd.Env = []string{asKops + "=" + Version}
	for k, v := range u.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	u.Proxy.Reset()
	var was atomic.Bool
	u.Proxy.SetCut(proxy.Cut{At: at, After: at%2 == 0, Then: func() {
		was.Store(true)
		_ = cmd.Process.Signal(syscall.SIGKILL) // it may have exited
	}})
	out, err = cmd.CombinedOutput()
	u.Proxy.Restore()
	return out, was.Load(), err
}

// Program builds kops, as a program that can be killed, and returns its path.
func Program(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kops")
	if out, err := exec.Command("go", "build", "-ldflags", "-s -w -X main.version="+Version, "-o", file, "kops.local/kops/cmd/kops").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return file
}
