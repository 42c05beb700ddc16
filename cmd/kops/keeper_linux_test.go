package main

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"kops.local/kops/internal/platform/local/site"
)

// TestAKeeperOutlivesSIGHUP: the signal wakes the keeper process of a cluster of this host,
// although it stops other commands. Here the process stands by, because another has the lock.
func TestAKeeperOutlivesSIGHUP(t *testing.T) {
	u := &user{T: t, home: t.TempDir()}
	u.env = []string{"RUN_KOPS=" + version, "HOME=" + u.home}
	at := func(file string) string { return filepath.Join(u.home, "a.k8s.local", file) }
	if err := os.MkdirAll(at(""), 0o700); err != nil {
		t.Fatal(err)
	}
	lock, held, err := site.TryLock(at("keeper.lock"))
	if err != nil || !held {
		t.Fatal(held, err)
	}
	defer lock.Close() // only this test uses it
	cmd := u.kops("local", "keep", "--root", u.home, "--cluster", "a.k8s.local")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		held, err := site.Locked(at("keeper.standby.lock"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if held {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	u.signal(cmd, syscall.SIGHUP)
	select {
	case err := <-ended:
		t.Fatalf("the process ended: %v", err)
	case <-time.After(500 * time.Millisecond):
	}
	u.signal(cmd, syscall.SIGTERM)
	<-ended
}
