//go:build unix

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/klog/v2"
)

const cluster = "a.example.com"

// TestMain makes the test binary act as kops when requested.
func TestMain(m *testing.M) {
	if os.Getenv("RUN_KOPS") != "" {
		version = os.Getenv("RUN_KOPS")
		if os.Getenv("LOG_OF_A_LIBRARY") != "" {
			time.AfterFunc(100*time.Millisecond, func() {
				for range time.Tick(10 * time.Millisecond) {
					klog.ErrorS(io.ErrUnexpectedEOF, "Unexpected error when reading response body")
				}
			})
		}
		main()
	}
	// Under nohup, the programs that tests start would ignore SIGHUP, too.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	os.Exit(m.Run())
}

// user is a user with a state store, and a cloud that never answers.
type user struct {
	*testing.T
	home    string
	env     []string
	reached chan struct{} // closed at the first request to the cloud
}

func newUser(t *testing.T) *user {
	u := &user{T: t, home: t.TempDir(), reached: make(chan struct{})}
	var once sync.Once
	ended := make(chan struct{})
	cloud := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		once.Do(func() { close(u.reached) })
		select {
		case <-ended:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(cloud.Close)
	t.Cleanup(func() { close(ended) })
	u.env = []string{"RUN_KOPS=" + version, "HOME=" + u.home, "KOPS_STATE_STORE=file://" + u.state(),
		"AWS_ENDPOINT_URL=" + cloud.URL, "AWS_REGION=us-test-1", "SKIP_REGION_CHECK=1", "AWS_ACCESS_KEY_ID=me", "AWS_SECRET_ACCESS_KEY=x"}
	described, err := u.kops(describeArgs(cluster, "--dry-run", "-o", "yaml")...).Output()
	if err != nil {
		t.Fatal(err)
	}
	create := u.kops("create", "-f", "-")
	create.Stdin = bytes.NewReader(described)
	if out, err := create.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return u
}

// describeArgs returns the command line that describes a cluster.
func describeArgs(name string, more ...string) []string {
	return append([]string{"create", "cluster", name, "--cloud", "aws", "--zones", "us-test-1a", "--set", "spec.configBase=s3://files/" + name, "--facts", "../../testdata/facts/goldens.yaml"}, more...)
}

func (u *user) state() string { return filepath.Join(u.home, "state") }

func (u *user) kops(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(u.Context(), os.Args[0], args...)
	cmd.Env = u.env
	return cmd
}

// startBlocked starts a command that has the lease of the cluster and waits for the cloud; it also
// returns its output.
func (u *user) startBlocked(args ...string) (*exec.Cmd, *bufio.Reader) {
	u.Helper()
	cmd := u.kops(args...)
	told, err := cmd.StderrPipe()
	if err != nil {
		u.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		u.Fatal(err)
	}
	select {
	case <-u.reached:
	case <-time.After(time.Minute):
		_ = cmd.Process.Kill() // it may have exited
		text, _ := io.ReadAll(told)
		u.Fatalf("kops %s does not reach the cloud:\n%s", strings.Join(args, " "), text)
	}
	return cmd, bufio.NewReader(told)
}

func (u *user) signal(cmd *exec.Cmd, s os.Signal) {
	u.Helper()
	if err := cmd.Process.Signal(s); err != nil {
		u.Fatal(err)
	}
}

// expectExit reads the rest of a command's output, and checks how it exits.
func (u *user) expectExit(cmd *exec.Cmd, told io.Reader, code int, want string) {
	u.Helper()
	rest, err := io.ReadAll(told)
	if err != nil {
		u.Error(err)
	}
	_ = cmd.Wait() // the exit code shows it
	if got := cmd.ProcessState.ExitCode(); got != code || string(rest) != want {
		u.Errorf("exit code %d, and told was\n%s\nwant %d and\n%s", got, rest, code, want)
	}
}

// Users could not act on client-go's log.
func TestLibrariesLogWhereTheUserWants(t *testing.T) {
	for verbosity, want := range map[string]bool{"0": false, "1": false, "2": true} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "create", "-f", "-", "-v", verbosity)
		cmd.Env = []string{"RUN_KOPS=" + version, "LOG_OF_A_LIBRARY=1", "HOME=" + t.TempDir()}
		in, out := io.Pipe()
		cmd.Stdin = in
		time.AfterFunc(time.Second, func() { out.Close() }) //nolint:errcheck // the time for which the command waits
		told, _ := cmd.CombinedOutput()                     // it creates nothing
		if got := strings.Contains(string(told), "Unexpected error"); got != want {
			t.Errorf("-v %s: told was\n%s", verbosity, told)
		}
	}
}

// TestARehearsalIsAProgramOfItsOwn checks that kops becomes that program: the terminal, signals and
// the exit code are the program's.
func TestARehearsalIsAProgramOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\necho \"$$ $*\"\nexit 7\n"
	if err := os.WriteFile(filepath.Join(dir, "kops-rehearse"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "toolbox", "rehearse", "--dir", dir, "--", "echo", "a b")
	cmd.Env = []string{"RUN_KOPS=" + version, "HOME=" + dir, "PATH=" + dir + ":" + os.Getenv("PATH")}
	out, err := cmd.Output()
	if want := fmt.Sprintf("%d --for %s --cloud aws -v 0 --dir %s -- echo a b\n", cmd.Process.Pid, version, dir); string(out) != want || cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("got %q, %v; want %q", out, err, want)
	}
}

const stopping = "stopping: no further change is started, and finished changes are recorded; press ^C again to quit immediately\n"

func (u *user) expectStopped(told *bufio.Reader) {
	u.Helper()
	if line, err := told.ReadString('\n'); line != stopping || err != nil {
		u.Errorf("told was %q, %v", line, err)
	}
}

func TestTheFirstInterruptStopsInOrder(t *testing.T) {
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		u := newUser(t)
		cmd, told := u.startBlocked("update", "cluster", cluster, "--yes")
		u.signal(cmd, s)
		u.expectStopped(told)
		u.expectExit(cmd, told, 130, "Error: interrupted\n")
		out, err := u.kops("toolbox", "lock", "show", cluster).CombinedOutput()
		if want := "No one holds the lease of " + cluster + "\n"; string(out) != want || err != nil {
			t.Errorf("%v: %s, %v", s, out, err)
		}
	}
}

func TestTheSecondInterruptEndsAtOnce(t *testing.T) {
	for _, c := range []struct {
		args []string
		next string
	}{
		{[]string{"update", "cluster", cluster, "--yes"}, "kops update cluster " + cluster + " --yes"},
		{[]string{"delete", "cluster", cluster, "--yes"}, "kops delete cluster " + cluster + " --yes"},
		{describeArgs("b."+cluster, "--yes"), "kops update cluster b." + cluster + " --yes"},
	} {
		u := newUser(t)
		cmd, told := u.startBlocked(c.args...)
		name := strings.Fields(c.next)[3]
		defer lockFolder(t, filepath.Join(u.state(), ".kops", name))() // so that the lease cannot be released
		u.signal(cmd, os.Interrupt)
		u.expectStopped(told)
		u.signal(cmd, syscall.SIGTERM) // SIGTERM, unlike a second interrupt, does not make it quit immediately
		u.signal(cmd, os.Interrupt)
		u.expectExit(cmd, told, 130, "Error: quit immediately; changes in progress may or may not have completed, and the lease of "+name+
			" may remain, which expires within two minutes; to continue, run: "+c.next+"\n")
	}
}

// lockFolder takes the lock under which files of a folder are written.
func lockFolder(t *testing.T, folder string) (unlock func()) {
	t.Helper()
	f, err := os.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return func() { f.Close() } //nolint:errcheck // which releases the lock
}
