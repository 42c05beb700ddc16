package clitest

import (
	"context"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"kops.local/kops/internal/test/proxy"
)

// Proxied is a user of a cluster whose requests to the cloud go through a proxy.
type Proxied struct {
	*User
	Proxy   *proxy.Proxy
	Cluster string
}

// BreakLock releases the lease of a killed command.
func (u *Proxied) BreakLock() {
	u.Helper()
	u.Must("toolbox", "lock", "break", "--name", u.Cluster, "--yes")
}

// CutStep is the distance between the writes at which one run interrupts a command; over several
// runs it is interrupted at each.
const CutStep = 17

// maxWait is the time after the cut when the user stops the command, and the connection is restored.
const maxWait = 300 * time.Millisecond

// RunCut runs a command line whose connection breaks at a write, before or after it has reached the
// cloud, and which the user then stops.
func (u *Proxied) RunCut(at int, after bool, args ...string) Result {
	u.Helper()
	u.Proxy.Reset()
	ctx, giveUp := context.WithCancel(u.Context())
	defer giveUp()
	u.Proxy.SetCut(proxy.Cut{At: at, After: after, Then: func() {
		time.AfterFunc(maxWait, func() { giveUp(); u.Proxy.Restore() })
	}})
	r := u.RunContext(ctx, args...)
	u.Proxy.Restore()
	return r
}

// RunKilled runs a program that is killed at a write, and reports whether the write was reached. The
// error is the program's exit error.
func (u *Proxied) RunKilled(program string, at int, args ...string) (out []byte, killed bool, err error) {
	u.Helper()
	cmd := exec.Command(program, args...)
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
