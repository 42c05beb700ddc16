package sandbox

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kops.local/kops/internal/node/agent/run"
	"kops.local/kops/internal/platform/nodes"
)

// Machine is a booting machine. It writes to a console, and waits only as long as the test does. Its
// boot script changes /opt of the sandbox; nodeup changes the folder Root, which stands in for all of
// the machine's file system.
type Machine struct {
	*testing.T
	Root string

	dir     string
	console *os.File
	asleep  chan time.Duration // it waits before a retry
	awake   chan bool          // it continues
	ended   chan error
}

// prefixed writes lines to a console like the journal.
type prefixed struct{ console *os.File }

func (p prefixed) Write(text []byte) (int, error) {
	for l := range strings.Lines(string(text)) {
		if _, err := p.console.WriteString("[   12.345678] nodeup[812]: " + strings.TrimSuffix(l, "\n") + "\r\n"); err != nil {
			return 0, err
		}
	}
	return len(text), nil
}

// NewMachine returns a machine that has not booted.
func NewMachine(t *testing.T) *Machine {
	t.Helper()
	dir := t.TempDir()
	console, err := os.Create(filepath.Join(dir, "console"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = console.Close() })
	return &Machine{T: t, Root: filepath.Join(dir, "root"), dir: dir, console: console}
}

// start prepares to run a program that the test waits for.
func (m *Machine) start() (asleep chan<- time.Duration, awake <-chan bool, ended chan<- error) {
	a, b, c := make(chan time.Duration), make(chan bool), make(chan error, 1)
	m.asleep, m.awake, m.ended = a, b, c
	return a, b, c
}

// RunBootScript runs user data like a system on its first boot, the given number of seconds ago.
func (m *Machine) RunBootScript(userData, ago string) {
	m.Helper()
	if err := os.RemoveAll("/opt/kops"); err != nil {
		m.Fatal(err)
	}
	bin, sleeping, waking := filepath.Join(m.dir, "bin"), filepath.Join(m.dir, "asleep"), filepath.Join(m.dir, "awake")
	err := errors.Join(os.Mkdir(bin, 0o755), syscall.Mkfifo(sleeping, 0o600), syscall.Mkfifo(waking, 0o600),
		os.WriteFile(filepath.Join(bin, "sleep"), []byte("#!/bin/bash\necho \"$1\" > "+sleeping+"\nread -r < "+waking+"\n"), 0o700),
		os.WriteFile(filepath.Join(bin, "sysctl"), []byte("#!/bin/bash\n"), 0o700)) // it would change the host's kernel
	if err != nil {
		m.Fatal(err)
	}
	in, err := os.OpenFile(sleeping, os.O_RDWR, 0) // open at both ends, so that it opens immediately and never reaches EOF
	if err != nil {
		m.Fatal(err)
	}
	out, err := os.OpenFile(waking, os.O_RDWR, 0)
	if err != nil {
		m.Fatal(err)
	}
	script := filepath.Join(m.dir, "user-data")
	if err := os.WriteFile(script, []byte(userData), 0o700); err != nil {
		m.Fatal(err)
	}
	cmd := exec.CommandContext(m.Context(), script)
	cmd.Env = []string{"PATH=" + bin + ":/usr/sbin:/usr/bin:/sbin:/bin", "CURL_CA_BUNDLE=" + os.Getenv("SSL_CERT_FILE"), "SECONDS=" + ago}
	cmd.Stdout, cmd.Stderr = m.console, m.console
	if err := cmd.Start(); err != nil {
		m.Fatal(err)
	}
	asleep, awake, ended := m.start()
	var running sync.WaitGroup
	running.Go(func() { ended <- cmd.Wait() })
	running.Go(func() {
		for lines := bufio.NewScanner(in); lines.Scan(); {
			d, err := time.ParseDuration(lines.Text() + "s")
			if err != nil {
				m.Error(err)
			}
			select {
			case asleep <- d:
			case <-m.Context().Done():
				return
			}
		}
	})
	running.Go(func() {
		for {
			select {
			case <-awake:
				_, _ = out.WriteString("\n") // the script would wait, and so would the test
			case <-m.Context().Done():
				return
			}
		}
	})
	m.Cleanup(func() { // after the context is canceled
		_ = in.Close()
		_ = out.Close()
		running.Wait()
	})
}

// RunNodeup runs nodeup, as its unit does after the boot script, in a folder that stands in for the machine.
func (m *Machine) RunNodeup(conf string, env map[string]string, now func() time.Time) {
	m.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Join(m.Root, "etc"), 0o755), os.WriteFile(filepath.Join(m.Root, "etc/os-release"), []byte("ID=debian\nVERSION_ID=\"13\"\n"), 0o600)); err != nil {
		m.Fatal(err)
	}
	asleep, awake, ended := m.start()
	o := run.Options{Conf: conf, Cache: "/var/cache/nodeup", Root: m.Root, Report: "/var/log/kops-boot.json", Retries: -1, Version: "test",
		Platforms: nodes.All(), Out: prefixed{m.console}, Err: prefixed{m.console}, Env: func(name string) string { return env[name] },
		Clock: run.Clock{At: now, Wait: func(ctx context.Context, d time.Duration) error {
			select {
			case asleep <- d:
			case <-ctx.Done():
				return ctx.Err()
			}
			select {
			case <-awake:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		ended <- run.Nodeup(m.Context(), o)
	}()
	m.Cleanup(func() { <-done })
}

// WaitUntilRest waits until the machine waits before a retry, or exits, and reports whether it exited.
func (m *Machine) WaitUntilRest() (ended bool) {
	m.Helper()
	select {
	case d := <-m.asleep:
		if d <= 0 || d > 100*time.Second {
			m.Errorf("it tries again after %s", d)
		}
		return false
	case err := <-m.ended:
		if err != nil {
			m.Errorf("%v\n%s", err, m.Console())
		}
		return true
	case <-time.After(2 * time.Minute): // only reached on failure
		m.Fatalf("it neither ends nor waits\n%s", m.Console())
		return true
	}
}

// Resume ends the wait that WaitUntilRest reported.
func (m *Machine) Resume() { m.awake <- true }

// Console returns what the machine has written to its console.
func (m *Machine) Console() string {
	m.Helper()
	text, err := os.ReadFile(m.console.Name())
	if err != nil {
		m.Fatal(err)
	}
	return string(text)
}
