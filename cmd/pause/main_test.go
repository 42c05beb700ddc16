package main

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestPause(t *testing.T) {
	program := filepath.Join(t.TempDir(), "pause")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w -X main.version=9.8.7", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, test := range map[string]func(*testing.T, string){
		"version": printsVersion, "static and small": small, "signals": signals, "orphans": orphans,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, program)
		})
	}
}

func printsVersion(t *testing.T, program string) {
	out, err := exec.CommandContext(t.Context(), program, "-v").Output()
	if err != nil || string(out) != "pause 9.8.7\n" {
		t.Errorf("%q, %v", out, err)
	}
}

func small(t *testing.T, program string) {
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 2_000_000 {
		t.Errorf("%d bytes", info.Size())
	}
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("it is linked dynamically")
		}
	}
}

func signals(t *testing.T, program string) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		c := exec.CommandContext(t.Context(), program)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		select {
		case err := <-ended:
			t.Fatalf("it ended on its own: %v", err)
		case <-time.After(300 * time.Millisecond):
		}
		_ = c.Process.Signal(s)
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("%s: %v", s, err)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s did not end it", s)
		}
	}
}

// orphans: a shell whose children outlive it becomes pause, which then is the
// first process of a namespace with children that it did not start.
func orphans(t *testing.T, program string) {
	c := exec.CommandContext(t.Context(), "sh", "-c", `sleep 0.5 & (sleep 0.5 &); exec "$0"`, program)
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if os.Geteuid() != 0 {
		c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
	}
	if err := c.Start(); errors.Is(err, syscall.EPERM) && os.Getenv("CI") != "true" {
		t.Skip("SKIPPED, collecting orphans is not tested: this user cannot make a process namespace")
	} else if err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{2, 0} {
		deadline := time.Now().Add(10 * time.Second)
		for children(t, c.Process.Pid) != want {
			if time.Now().After(deadline) {
				t.Fatalf("%d children, want %d", children(t, c.Process.Pid), want)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	_ = c.Process.Signal(syscall.SIGTERM)
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}

// children counts the children of a process, including zombies.
func children(t *testing.T, pid int) (n int) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("the kernel does not tell the children of %d: %v", pid, err)
	}
	for _, f := range threads {
		text, err := os.ReadFile(f)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
		n += len(strings.Fields(string(text)))
	}
	return n
}
