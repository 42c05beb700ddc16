package keeper

import (
	"os"
	"os/exec"
	"strconv"
	"testing"

	"kops.local/kops/internal/platform/local/site"
)

// TestAliveBelievesNoStaleNumber: a PID counts as the keeper's only while the lock is held and
// the process was started as this cluster's keeper.
func TestAliveBelievesNoStaleNumber(t *testing.T) {
	s := site.Site{Root: t.TempDir(), Cluster: "a.k8s.local"}
	start := func(args ...string) int {
		t.Helper()
		c := exec.Command("sh", append([]string{"-c", "read x", "keeper"}, args...)...)
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { in.Close(); c.Wait() }) //nolint:errcheck // it exits when its input ends
		return c.Process.Pid
	}
	of := func(s site.Site) int { return start(arguments(s)...) }
	own := of(s)
	if _, alive := Alive(s); alive {
		t.Error("there was never a keeper")
	}
	if err := os.MkdirAll(s.Dir(), 0o700); err != nil {
		t.Fatal(err)
	}
	lock, held, err := site.TryLock(lockFile(s))
	if err != nil || !held {
		t.Fatal(held, err)
	}
	for _, c := range []struct {
		name string
		pid  int
		want bool
	}{
		{"its own", own, true},
		{"one that was started by hand", start("--root", s.Root, "--cluster", s.Cluster), true},
		{"a foreign process", os.Getpid(), false},
		{"the keeper of a cluster whose name begins alike", of(site.Site{Root: s.Root, Cluster: s.Cluster + "2"}), false},
		{"the keeper of another root", of(site.Site{Root: "/other", Cluster: s.Cluster}), false},
		{"no process", 1 << 30, false},
	} {
		if err := site.Write(pidFile(s), []byte(strconv.Itoa(c.pid)), 0o600); err != nil {
			t.Fatal(err)
		}
		if pid, alive := Alive(s); alive != c.want || alive && pid != c.pid {
			t.Errorf("%s: %d, %t", c.name, pid, alive)
		}
	}
	if err := site.Write(pidFile(s), []byte(strconv.Itoa(own)), 0o600); err != nil {
		t.Fatal(err)
	}
	lock.Close()
	if _, alive := Alive(s); alive {
		t.Error("nobody holds the lock")
	}
}
