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

// BreakLock frees the lease that a dead command could not give back.
func (u *Proxied) BreakLock() {
	u.Helper()
	u.Must("toolbox", "lock", "break", "--name", u.Cluster, "--yes")
}

// CutStep is the distance of the writes at which one run interrupts a command; by turns it is
// interrupted at each.
const CutStep = 17

// patience is how long after the cut the user stops the command, and the connection comes back.
const patience = 300 * time.Millisecond

// Cut runs a command line whose connection breaks at a write, before or after it has reached the
// cloud, and whose user then gives up.
func (u *Proxied) Cut(at int, after bool, args ...string) Result {
	u.Helper()
	u.Proxy.Reset()
	ctx, giveUp := context.WithCancel(u.Context())
	defer giveUp()
	u.Proxy.SetCut(proxy.Cut{At: at, After: after, Then: func() {
		time.AfterFunc(patience, func() { giveUp(); u.Proxy.Heal() })
	}})
	r := u.RunContext(ctx, args...)
	u.Proxy.Heal()
	return r
}

// Killed runs a program that is killed at a write, and reports whether the write was reached. The
// error is the program's.
func (u *Proxied) Killed(program string, at int, args ...string) (out []byte, killed bool, err error) {
	u.Helper()
	cmd := exec.Command(program, args...)
	for k, v := range u.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	u.Proxy.Reset()
	var was atomic.Bool
	u.Proxy.SetCut(proxy.Cut{At: at, After: at%2 == 0, Then: func() {
		was.Store(true)
		_ = cmd.Process.Signal(syscall.SIGKILL) // it may be gone already
	}})
	out, err = cmd.CombinedOutput()
	u.Proxy.Heal()
	return out, was.Load(), err
}

// Program builds kops, as a program that can be killed, and returns its file.
func Program(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kops")
	if out, err := exec.Command("go", "build", "-ldflags", "-X main.version="+Version, "-o", file, "kops.local/kops/cmd/kops").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return file
}
