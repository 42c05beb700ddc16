//go:build unix

package main

import (
	"bytes"
	"errors"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/term"

	"kops.local/kops/internal/platform/aws/awstest"
	awsspec "kops.local/kops/internal/platform/aws/spec"
	"kops.local/kops/internal/test/clitest"
)

const (
	ctrlC   = "\x03"
	another = "b.example.com" // a cluster that is described, but not created
	image   = "099720109477/ubuntu/images/hvm-ssd/ubuntu-trusty-14.04-amd64-server-20170727"
)

// soon is how long a user waits for a reaction to ^C, and patience for anything else.
const (
	soon     = time.Second
	patience = 20 * time.Second
)

// terminal is kops running on a terminal.
type terminal struct {
	*testing.T
	cmd          *exec.Cmd
	keys, tty    *os.File
	initialState *term.State
	done         chan struct{}

	mu     sync.Mutex
	output bytes.Buffer
}

// newTerminal starts kops on a terminal of a given size.
func newTerminal(t *testing.T, env map[string]string, size pty.Winsize, args ...string) *terminal {
	t.Helper()
	keys, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	x := &terminal{T: t, keys: keys, tty: tty, cmd: exec.CommandContext(t.Context(), os.Args[0], args...), done: make(chan struct{})}
	x.cmd.Env = []string{"RUN_KOPS=" + clitest.Version, "TERM=xterm", "PATH=" + os.Getenv("PATH")}
	for k, v := range env {
		x.cmd.Env = append(x.cmd.Env, k+"="+v)
	}
	x.cmd.Stdin, x.cmd.Stdout, x.cmd.Stderr = tty, tty, tty
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := pty.Setsize(keys, &size); err != nil {
		t.Fatal(err)
	}
	if x.initialState, err = term.GetState(int(tty.Fd())); err != nil {
		t.Fatal(err)
	}
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go x.read()
	go func() {
		_ = x.cmd.Wait() // the exit code shows it
		close(x.done)
	}()
	t.Cleanup(func() {
		_ = x.cmd.Process.Kill()
		_, _ = x.keys.Close(), x.tty.Close()
	})
	return x
}

func (x *terminal) read() {
	buf := make([]byte, 4096)
	for {
		n, err := x.keys.Read(buf)
		x.mu.Lock()
		x.output.Write(buf[:n])
		x.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// screen returns everything that was written, with line ends as programs write them.
func (x *terminal) screen() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return strings.ReplaceAll(x.output.String(), "\r\n", "\n")
}

// awaitText waits until a text is on the terminal.
func (x *terminal) awaitText(text string, limit time.Duration) {
	x.Helper()
	for end := time.Now().Add(limit); !strings.Contains(x.screen(), text); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			x.Fatalf("not seen within %v: %q; the terminal shows\n%s", limit, text, x.screen())
		}
	}
}

func (x *terminal) press(keys string) {
	x.Helper()
	if _, err := x.keys.WriteString(keys); err != nil {
		x.Fatal(err)
	}
}

func (x *terminal) signal(s os.Signal) {
	x.Helper()
	if err := x.cmd.Process.Signal(s); err != nil {
		x.Fatal(err)
	}
}

// expectExit waits until the program exits, and checks the state in which it leaves the terminal.
func (x *terminal) expectExit(code int, limit time.Duration) {
	x.Helper()
	select {
	case <-x.done:
	case <-time.After(limit):
		x.Fatalf("it has not ended after %v; the terminal shows\n%s", limit, x.screen())
	}
	if got := x.cmd.ProcessState.ExitCode(); got != code {
		x.Errorf("exit code %d, not %d; the terminal shows\n%s", got, code, x.screen())
	}
	after, err := term.GetState(int(x.tty.Fd()))
	if err == nil && !reflect.DeepEqual(x.initialState, after) {
		x.Error("the modes of the terminal are not what they were")
	}
	if out := x.screen(); strings.Count(out, "\x1b[?25l") != strings.Count(out, "\x1b[?25h") {
		x.Errorf("the cursor stays hidden: %q", out)
	}
}

// account is a user of two clusters in an emulator of AWS.
type account struct {
	*clitest.Proxied

	// silentListener accepts connections, and never answers.
	silentListener net.Listener
	connections    chan struct{}
}

func newAccount(t *testing.T) *account {
	server := awstest.Moto(t)
	server.Bucket(t, "files")
	server.Bucket(t, "state")
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	a := &account{silentListener: silent, connections: make(chan struct{}, 1), Proxied: &clitest.Proxied{User: clitest.NewUser(t, awsspec.Platform()), Proxy: awstest.Proxy(t, server.URL)}}
	go a.accept()
	for k, v := range map[string]string{
		"KOPS_STATE_STORE": "file://" + a.Home + "/state",
		"AWS_ENDPOINT_URL": a.Proxy.URL, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": server.AccessKey, "AWS_SECRET_ACCESS_KEY": server.SecretKey,
		"S3_ENDPOINT": a.Proxy.URL, "S3_REGION": "us-east-1", "S3_ACCESS_KEY_ID": server.AccessKey, "S3_SECRET_ACCESS_KEY": server.SecretKey,
	} {
		a.Env[k] = v
	}
	for _, name := range []string{cluster, another} {
		a.Must(a.createArgs(name)...)
	}
	a.Must("create", "secret", "dockerconfig", "--name", cluster, "-f", a.File("docker.json", "{}"))
	a.Must("update", "cluster", cluster, "--yes")
	there := a.withEnv(remote())
	there.Must(withArgs(a.createArgs(distant), "--kubernetes-version", "1.35", "--allow-unverified")...)
	a.Must("create", "cluster", own, "--cloud", "metal", "--zones", "main", "--networking", "cni")
	return a
}

// withEnv returns the same user with additional environment variables.
func (a *account) withEnv(env map[string]string) *clitest.User {
	other := *a.User
	other.Env = maps.Clone(a.Env)
	maps.Copy(other.Env, env)
	return &other
}

// awaitConnection returns a channel that receives once a client connects to the silent server.
func (a *account) awaitConnection() <-chan struct{} {
	for {
		select {
		case <-a.connections: // of an earlier scene
		default:
			return a.connections
		}
	}
}

// accept accepts every connection, and keeps it open.
func (a *account) accept() {
	for {
		c, err := a.silentListener.Accept()
		if err != nil {
			return
		}
		a.Cleanup(func() { _ = c.Close() })
		select {
		case a.connections <- struct{}{}:
		default: // one is already waiting
		}
	}
}

// createArgs returns the command line that describes a cluster.
func (a *account) createArgs(name string) []string {
	return []string{"create", "cluster", name, "--cloud", "aws", "--zones", "us-east-1a", "--dns", "none", "--networking", "cni", "--image", image,
		"--set", "spec.configBase=s3://files/" + name, "--ssh-public-key", a.Key()}
}

// expectLeaseFree checks that the lease of a cluster is available.
func (a *account) expectLeaseFree(t *testing.T, name string, env map[string]string) {
	t.Helper()
	if out := a.withEnv(env).Run("toolbox", "lock", "show", name).Out; !strings.Contains(out, "No one holds") {
		t.Errorf("the lease was not given back: %s", out)
	}
}

// startAt starts a command and waits until it reaches the point of a scene.
func (a *account) startAt(t *testing.T, s scene, size pty.Winsize) (x *terminal, release func()) {
	t.Helper()
	var reached <-chan struct{}
	release = func() {}
	switch s.blockedRequest {
	case "":
	case silent:
		reached = a.awaitConnection()
	default:
		var end func(bool)
		reached, end = a.Proxy.Hold(s.blockedRequest)
		release = func() { end(false) } // kops has ended: what it asked for must not happen later
		t.Cleanup(release)
	}
	x = newTerminal(t, a.withEnv(s.env).Env, size, s.args...)
	if reached != nil {
		select {
		case <-reached:
		case <-x.done:
			t.Fatalf("it ended before %s; the terminal shows\n%s", s.blockedRequest, x.screen())
		case <-time.After(patience):
			t.Fatalf("%s was never asked for; the terminal shows\n%s", s.blockedRequest, x.screen())
		}
	}
	x.awaitText(s.expected, patience)
	return x, release
}

func (s scene) cluster() string {
	if s.clusterName != "" {
		return s.clusterName
	}
	return cluster
}

const stopMessage = "stopping: no further change is started, and finished changes are recorded; press ^C again to quit immediately\n"

// A command that reads a pipe to which nobody writes cannot end by itself.
func TestAPipeThatStaysOpen(t *testing.T) {
	u := clitest.NewUser(t, awsspec.Platform())
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		x := newTerminal(t, u.Env, pty.Winsize{Cols: 80, Rows: 24}, "get", "clusters", "--config", pipe)
		writer, err := os.OpenFile(pipe, os.O_WRONLY, 0) // as soon as it is opened for reading
		if err != nil {
			t.Fatal(err)
		}
		x.signal(signal)
		x.awaitText("stopping; press ^C again to quit immediately\n", soon)
		x.expectExit(130, patience)
		x.awaitText(interrupted, soon)
		if err := writer.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAtATerminal has a user press ^C, terminate kops, or close the terminal, at any point of a command.
func TestAtATerminal(t *testing.T) {
	a := newAccount(t)
	sizes := []pty.Winsize{{Cols: 120, Rows: 40}, {Cols: 80, Rows: 24}, {Cols: 60, Rows: 24}}
	all := scenes(a)
	checkComplete(t, all)
	for i, s := range all {
		t.Run(s.what, func(t *testing.T) {
			for _, args := range s.setup {
				a.withEnv(s.env).Must(args...)
			}
			x, release := a.startAt(t, s, sizes[i%len(sizes)])
			x.press(ctrlC)
			if s.hasLease {
				x.awaitText(stopMessage, soon)
			}
			x.expectExit(130, 5*time.Second)
			release()
			x.awaitText(s.text, soon)
			a.expectLeaseFree(t, s.cluster(), s.env)
		})
	}
	script := a.File("an editor", `trap 'n=$((n+1)); echo "not yet $n"' INT; echo an editor; until read line; do :; done; echo "# edited" >>"$2"`)
	for _, editor := range []string{"sh '" + script + "' 'an argument'", "echo one; sh '" + script + "' 'an argument'"} {
		t.Run("an editor that goes on after ^C: "+editor, func(t *testing.T) {
			x, _ := a.startAt(t, scene{args: []string{"edit", "cluster", another}, env: map[string]string{"EDITOR": editor}, expected: "an editor\n"}, sizes[0])
			for _, shown := range []string{"not yet 1\n", "not yet 2\n"} {
				x.press(ctrlC)
				x.awaitText(shown, soon)
			}
			x.press("\n")
			x.expectExit(0, patience)
			x.awaitText("already has these values", soon)
		})
	}
	t.Run("SIGTERM: an editor that has changed the terminal", func(t *testing.T) {
		raw := map[string]string{"EDITOR": `stty raw -echo; echo an editor; exec sh -c "exec sleep 100"`}
		x, _ := a.startAt(t, scene{args: []string{"edit", "cluster", another}, env: raw, expected: "an editor"}, sizes[0])
		x.signal(syscall.SIGTERM)
		x.expectExit(130, 5*time.Second)
	})
	some := all[2:5]
	for i, s := range some {
		t.Run("twice: "+s.what, func(t *testing.T) {
			x, _ := a.startAt(t, s, sizes[i])
			defer lockFolder(t, filepath.Join(a.Home, "state", ".kops", s.cluster()))() // so that the lease cannot be released
			x.press(ctrlC)
			x.awaitText(stopMessage, soon)
			x.press(ctrlC)
			x.expectExit(130, soon)
			x.awaitText("Error: quit immediately; changes in progress may or may not have completed", soon)
		})
		a.Must("toolbox", "lock", "break", "--name", s.cluster(), "--yes")
		t.Run("SIGTERM: "+s.what, func(t *testing.T) {
			x, _ := a.startAt(t, s, sizes[i])
			x.signal(syscall.SIGTERM)
			x.awaitText(stopMessage, soon)
			x.expectExit(130, 5*time.Second)
			a.expectLeaseFree(t, s.cluster(), s.env)
		})
		t.Run("hang-up: "+s.what, func(t *testing.T) {
			x, _ := a.startAt(t, s, sizes[i])
			if err := errors.Join(x.tty.Close(), x.keys.Close()); err != nil {
				t.Fatal(err)
			}
			select {
			case <-x.done:
			case <-time.After(5 * time.Second):
				t.Fatal("it goes on without a terminal")
			}
			a.expectLeaseFree(t, s.cluster(), s.env)
		})
	}
}
