package main

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// runner is the built program.
type runner struct{ path string }

func TestGoRunner(t *testing.T) {
	r := runner{filepath.Join(t.TempDir(), "go-runner")}
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", r.path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, test := range map[string]func(*testing.T){
		"static and small": r.testSize, "output": r.testOutput, "appends": r.testAppends, "signals": r.testSignals, "truncated log": r.testTruncated,
		"closed standard output": r.testClosedOutput, "process left behind": r.testLeftBehind, "orphans": r.testOrphans, "cannot run": r.testCannotRun, "waits": r.testWaits,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

func (r runner) command(t *testing.T, args ...string) (c *exec.Cmd, stdout, stderr *bytes.Buffer) {
	t.Helper()
	c = exec.CommandContext(t.Context(), r.path, args...)
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	c.Stdout, c.Stderr, c.WaitDelay = stdout, stderr, 20*time.Second
	return c, stdout, stderr
}

// status returns the exit status of a program.
func status(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	t.Fatal(err)
	return 0
}

func text(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ESRCH) { // a thread may exit
		t.Fatal(err)
	}
	return string(b)
}

// await waits until a condition is true.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after 10 s still not so: %s", what)
		}
	}
}

func (r runner) testSize(t *testing.T) {
	info, err := os.Stat(r.path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() >= 3_000_000 {
		t.Errorf("%d bytes; it is copied into many images", info.Size())
	}
	f, err := elf.Open(r.path)
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

func (r runner) testOutput(t *testing.T) {
	const script = "echo out; echo err >&2; exit 3"
	for _, c := range []struct {
		flags               []string
		log, stdout, stderr string
		script              string
		status              int
		withoutFile         bool
	}{
		{flags: []string{"--also-stdout"}, script: script, log: "out\nerr\n", stdout: "out\nerr\n", status: 3},
		{flags: nil, script: script, log: "out\nerr\n", status: 3},
		{flags: []string{"--also-stdout", "--redirect-stderr=false"}, script: script, log: "out\n", stdout: "out\n", stderr: "err\n", status: 3},
		{flags: []string{"--redirect-stderr"}, script: script, log: "out\nerr\n", status: 3},
		{withoutFile: true, script: script, stdout: "out\nerr\n", status: 3},
		{flags: []string{"--also-stdout"}, script: "kill -KILL $$", status: 128 + 9},
		{flags: []string{"--also-stdout"}, script: "true"},
	} {
		t.Run(fmt.Sprint(c.flags, c.script), func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "log")
			if !c.withoutFile {
				c.flags = append([]string{"--log-file=" + log}, c.flags...)
			}
			cmd, stdout, stderr := r.command(t, append(c.flags, "sh", "-c", c.script)...)
			if got := status(t, cmd.Run()); got != c.status {
				t.Errorf("status %d, want %d", got, c.status)
			}
			for _, got := range [][3]string{{"log", text(t, log), c.log}, {"standard output", stdout.String(), c.stdout}, {"standard error", stderr.String(), c.stderr}} {
				if got[1] != got[2] {
					t.Errorf("%s: %q, want %q", got[0], got[1], got[2])
				}
			}
		})
	}
}

// testAppends: a second run continues the file of the first, and flags after the program are the
// program's.
func (r runner) testAppends(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	for range 2 {
		cmd, _, stderr := r.command(t, "--log-file="+log, "echo", "--log-file=x", "-v")
		if err := cmd.Run(); err != nil {
			t.Fatal(err, stderr)
		}
	}
	if got, want := text(t, log), "--log-file=x -v\n--log-file=x -v\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func (r runner) testSignals(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1} {
		log := filepath.Join(t.TempDir(), "log")
		cmd, _, _ := r.command(t, "--log-file="+log, "sh", "-c", fmt.Sprintf("trap 'echo got it; exit 7' %d; echo ready; while :; do sleep 0.05; done", s))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		await(t, "the program runs", func() bool { return text(t, log) == "ready\n" })
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		if got := status(t, cmd.Wait()); got != 7 || text(t, log) != "ready\ngot it\n" {
			t.Errorf("%s: status %d, log %q", s, got, text(t, log))
		}
	}
}

// testTruncated: log rotation copies the file and truncates it.
func (r runner) testTruncated(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	cmd, _, _ := r.command(t, "--log-file="+log, "sh", "-c", "trap 'echo after; exit 0' USR1; echo before; while :; do sleep 0.05; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "the program runs", func() bool { return text(t, log) == "before\n" })
	if err := os.Truncate(log, 0); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := text(t, log); got != "after\n" {
		t.Errorf("%q, want only what was written after", got)
	}
}

// testClosedOutput: the reader of standard output is gone.
func (r runner) testClosedOutput(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	read.Close()
	defer write.Close()
	cmd, _, _ := r.command(t, "--log-file="+log, "--also-stdout", "sh", "-c", "echo one; sleep 0.1; echo two")
	cmd.Stdout = write
	if got := status(t, cmd.Run()); got != 0 || text(t, log) != "one\ntwo\n" {
		t.Errorf("status %d, log %q", got, text(t, log))
	}
}

// testLeftBehind: a process that outlives the program keeps its output open.
func (r runner) testLeftBehind(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	cmd, _, _ := r.command(t, "--log-file="+log, "sh", "-c", "sleep 15 & echo done; exit 4")
	start := time.Now()
	if got := status(t, cmd.Run()); got != 4 || text(t, log) != "done\n" {
		t.Errorf("status %d, log %q", got, text(t, log))
	}
	if took := time.Since(start); took > drainTime+5*time.Second {
		t.Errorf("it waited %s for the process", took)
	}
}

// testOrphans: as the init process of a container it reaps processes that it did not start.
func (r runner) testOrphans(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	cmd, _, stderr := r.command(t, "--log-file="+log, "sh", "-c", "(sleep 0.5 &); (sleep 0.5 &); trap 'exit 0' TERM; while :; do sleep 0.05 & wait; done")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
	}
	if err := cmd.Start(); errors.Is(err, syscall.EPERM) && os.Getenv("CI") != "true" {
		t.Skip("SKIPPED, collecting orphans is not tested: this user cannot make a process namespace")
	} else if err != nil {
		t.Fatal(err)
	}
	children := func() int {
		n := 0
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", cmd.Process.Pid))
		if err != nil || len(tasks) == 0 {
			t.Fatal(err, stderr)
		}
		for _, f := range tasks { // each thread has its own
			n += len(strings.Fields(text(t, f)))
		}
		return n
	}
	await(t, "the orphans are its children", func() bool { return children() == 3 })
	await(t, "only the program is its child", func() bool { return children() == 1 })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func (r runner) testCannotRun(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	missing := filepath.Join(t.TempDir(), "missing", "log")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--log-file=" + log, "/no/such/program"}, "/no/such/program"},
		{[]string{"--log-file=" + missing, "true"}, missing},
		{[]string{"--log-file=" + log}, "no program given"},
	} {
		cmd, _, stderr := r.command(t, c.args...)
		if got := status(t, cmd.Run()); got != failed || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%v: status %d, standard error %q; want %d and %q", c.args, got, stderr, failed, c.want)
		}
	}
}

func (r runner) testWaits(t *testing.T) {
	var isReady atomic.Bool
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if !isReady.Load() || r.URL.Path != "/readyz" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "started")
	awaited := strings.TrimPrefix(server.URL, "http://") + "/readyz"
	c, _, stderr := r.command(t, "touch", file)
	c.Env = append(os.Environ(), waitVariable+"="+awaited)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "the server is asked again", func() bool { return asked.Load() > 1 })
	if _, err := os.Stat(file); err == nil {
		t.Error("the program was started before its server was ready")
	}
	isReady.Store(true)
	if got := status(t, c.Wait()); got != 0 {
		t.Errorf("status %d: %s", got, stderr)
	}
	if want := "go-runner: waiting for " + awaited + "\n"; stderr.String() != want {
		t.Errorf("standard error %q, want %q", stderr, want)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	isReady.Store(false)
	asked.Store(0)
	c, _, _ = r.command(t, "true")
	c.Env = append(os.Environ(), waitVariable+"="+awaited)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "the server is asked", func() bool { return asked.Load() > 0 })
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := status(t, c.Wait()); got != 128+int(syscall.SIGTERM) {
		t.Errorf("a waiting go-runner that was told to end has the status %d", got)
	}
}
