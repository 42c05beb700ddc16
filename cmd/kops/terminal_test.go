//go:build unix

package main

import (
	"bytes"
	"errors"
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
	another = "b.example.com" // a cluster that is described, and not made
	image   = "099720109477/ubuntu/images/hvm-ssd/ubuntu-trusty-14.04-amd64-server-20170727"
)

// soon is how long a user waits for an answer to ^C, and patience for anything else.
const (
	soon     = time.Second
	patience = time.Minute
)

// terminal is kops at a terminal.
type terminal struct {
	*testing.T
	cmd       *exec.Cmd
	keys, tty *os.File
	before    *term.State
	ended     chan struct{}

	mu    sync.Mutex
	shown bytes.Buffer
}

// newTerminal starts kops at a terminal of a size.
func newTerminal(t *testing.T, env map[string]string, size pty.Winsize, args ...string) *terminal {
	t.Helper()
	keys, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	x := &terminal{T: t, keys: keys, tty: tty, cmd: exec.CommandContext(t.Context(), os.Args[0], args...), ended: make(chan struct{})}
	x.cmd.Env = []string{"RUN_KOPS=" + clitest.Version, "TERM=xterm", "PATH=" + os.Getenv("PATH")}
	for k, v := range env {
		x.cmd.Env = append(x.cmd.Env, k+"="+v)
	}
	x.cmd.Stdin, x.cmd.Stdout, x.cmd.Stderr = tty, tty, tty
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := pty.Setsize(keys, &size); err != nil {
		t.Fatal(err)
	}
	if x.before, err = term.GetState(int(tty.Fd())); err != nil {
		t.Fatal(err)
	}
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go x.read()
	go func() {
		_ = x.cmd.Wait() // its code tells
		close(x.ended)
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
		x.shown.Write(buf[:n])
		x.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// screen is all that was written, with line ends as programs write them.
func (x *terminal) screen() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return strings.ReplaceAll(x.shown.String(), "\r\n", "\n")
}

// sees waits until a text is on the terminal.
func (x *terminal) sees(text string, limit time.Duration) {
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

// ends waits for the end of the program, and checks how it leaves the terminal.
func (x *terminal) ends(code int, limit time.Duration) {
	x.Helper()
	select {
	case <-x.ended:
	case <-time.After(limit):
		x.Fatalf("it has not ended after %v; the terminal shows\n%s", limit, x.screen())
	}
	if got := x.cmd.ProcessState.ExitCode(); got != code {
		x.Errorf("exit code %d, not %d; the terminal shows\n%s", got, code, x.screen())
	}
	after, err := term.GetState(int(x.tty.Fd()))
	if err == nil && !reflect.DeepEqual(x.before, after) {
		x.Error("the modes of the terminal are not what they were")
	}
	if out := x.screen(); strings.Count(out, "\x1b[?25l") != strings.Count(out, "\x1b[?25h") {
		x.Errorf("the cursor stays hidden: %q", out)
	}
}

// account is a user of two clusters at an emulator of AWS.
type account struct{ *clitest.Proxied }

func newAccount(t *testing.T) *account {
	server := awstest.Moto(t)
	server.Bucket(t, "files")
	a := &account{&clitest.Proxied{User: clitest.NewUser(t, awsspec.Platform()), Proxy: awstest.Proxy(t, server.URL), Cluster: cluster}}
	for k, v := range map[string]string{
		"KOPS_STATE_STORE": "file://" + a.Home + "/state",
		"AWS_ENDPOINT_URL": a.Proxy.URL, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": server.AccessKey, "AWS_SECRET_ACCESS_KEY": server.SecretKey,
		"S3_ENDPOINT": a.Proxy.URL, "S3_REGION": "us-east-1", "S3_ACCESS_KEY_ID": server.AccessKey, "S3_SECRET_ACCESS_KEY": server.SecretKey,
	} {
		a.Env[k] = v
	}
	for _, name := range []string{cluster, another} {
		a.Must(a.created(name)...)
	}
	a.Must("create", "secret", "dockerconfig", "--name", cluster, "-f", a.File("docker.json", "{}"))
	a.Must("update", "cluster", cluster, "--yes")
	return a
}

// created is the command line that describes a cluster.
func (a *account) created(name string) []string {
	return []string{"create", "cluster", name, "--cloud", "aws", "--zones", "us-east-1a", "--dns", "none", "--networking", "cni", "--image", image,
		"--set", "spec.configBase=s3://files/" + name, "--ssh-public-key", a.Key()}
}

// free checks that the lease of a cluster is there to be taken.
func (a *account) free(t *testing.T, name string) {
	t.Helper()
	if out := a.Run("toolbox", "lock", "show", name).Out; !strings.Contains(out, "No one holds") {
		t.Errorf("the lease was not given back: %s", out)
	}
}

// case of the suite: what a user does who meets a command at some point.
type scene struct {
	what string
	args []string
	env  map[string]string
	// hold is the request to the cloud that is under way when the user loses patience, and sees
	// is what is on the terminal then.
	hold, sees string
	// leased says that the command has the lease, so that it tells that it stops.
	leased bool
	// text is on the terminal at the end.
	text string
	of   string // the cluster, when it is another
}

func scenes() []scene {
	const interrupted = "Error: interrupted"
	sleeper := map[string]string{"EDITOR": `echo an editor; exec sh -c "exec sleep 100"`}
	return []scene{
		{what: "preview, looking up", args: []string{"update", "cluster", cluster}, hold: "ec2.DescribeImages", sees: "looking up the spec's values …", text: interrupted},
		{what: "preview, observing", args: []string{"update", "cluster", cluster}, hold: "ec2.DescribeSubnets", sees: "reading existing resources …", text: interrupted},
		{what: "update, looking up", args: []string{"update", "cluster", cluster, "--yes"}, hold: "ec2.DescribeImages", sees: "looking up the spec's values …", leased: true, text: interrupted},
		{what: "update, observing", args: []string{"update", "cluster", cluster, "--yes"}, hold: "ec2.DescribeSubnets", leased: true, text: interrupted},
		{what: "update, applying", args: []string{"update", "cluster", another, "--yes"}, hold: "ec2.CreateVpc", sees: "creating aws_vpc/", leased: true, text: "interrupted", of: another},
		{what: "create --yes, observing", args: []string{"create", "cluster", "c.example.com", "--cloud", "aws", "--zones", "us-east-1a", "--dns", "none", "--networking", "cni", "--image", image,
			"--set", "spec.configBase=s3://files/c.example.com", "--yes"}, hold: "ec2.DescribeSubnets", leased: true, text: interrupted, of: "c.example.com"},
		{what: "reconcile, observing", args: []string{"reconcile", "cluster", cluster, "--yes"}, hold: "ec2.DescribeSubnets", leased: true, text: "interrupted"},
		{what: "roll, preview", args: []string{"rolling-update", "cluster", cluster, "--cloudonly"}, hold: "ec2.DescribeInstances", text: interrupted},
		{what: "roll, looking", args: []string{"rolling-update", "cluster", cluster, "--cloudonly", "--force", "--yes"}, hold: "autoscaling.DescribeAutoScalingGroups", leased: true, text: interrupted},
		{what: "roll, rolling", args: []string{"rolling-update", "cluster", cluster, "--cloudonly", "--force", "--yes"}, sees: "has to stay ready", leased: true, text: interrupted},
		{what: "validate --wait", args: []string{"validate", "cluster", cluster, "--wait", "10m", "--api-server", "https://127.0.0.1:1"}, sees: "waiting for ", text: interrupted},
		{what: "delete, preview", args: []string{"delete", "cluster", cluster}, hold: "ec2.DescribeSubnets", text: interrupted},
		{what: "delete, observing", args: []string{"delete", "cluster", cluster, "--yes"}, hold: "ec2.DescribeSubnets", leased: true, text: interrupted},
		{what: "delete a group, asked", args: []string{"delete", "instancegroup", "nodes-us-east-1a", "--name", cluster}, sees: "(y/N) ", leased: true, text: interrupted},
		{what: "delete a secret, asked", args: []string{"delete", "secret", "dockerconfig", "--name", cluster}, sees: "(y/N) ", text: interrupted},
		{what: "delete SSH keys, asked", args: []string{"delete", "sshpublickey", cluster}, sees: "(y/N) ", text: interrupted},
		{what: "edit", args: []string{"edit", "cluster", cluster}, env: sleeper, sees: "an editor", text: "run the editor"},
		{what: "edit a group", args: []string{"edit", "instancegroup", "nodes-us-east-1a", "--name", cluster}, env: sleeper, sees: "an editor", text: "run the editor"},
		{what: "delete, deleting", args: []string{"delete", "cluster", cluster, "--yes"}, hold: "autoscaling.DeleteAutoScalingGroup", sees: "deleting aws_autoscaling_group/", leased: true, text: "interrupted"},
	}
}

// at brings a command to the point of a scene.
func (a *account) at(t *testing.T, s scene, size pty.Winsize) (x *terminal, release func()) {
	t.Helper()
	var reached <-chan struct{}
	release = func() {}
	if s.hold != "" {
		reached, release = a.Proxy.Hold(s.hold)
		t.Cleanup(release)
	}
	env := map[string]string{}
	for _, m := range []map[string]string{a.Env, s.env} {
		for k, v := range m {
			env[k] = v
		}
	}
	x = newTerminal(t, env, size, s.args...)
	if reached != nil {
		select {
		case <-reached:
		case <-x.ended:
			t.Fatalf("it ended before %s; the terminal shows\n%s", s.hold, x.screen())
		case <-time.After(patience):
			t.Fatalf("%s was never asked for; the terminal shows\n%s", s.hold, x.screen())
		}
	}
	x.sees(s.sees, patience)
	return x, release
}

func (s scene) cluster() string {
	if s.of != "" {
		return s.of
	}
	return cluster
}

const told = "stopping: no further change is started, and finished changes are recorded; press ^C again to quit immediately\n"

// TestAtATerminal has a user press ^C, end kops, or close the terminal, wherever a command may be.
func TestAtATerminal(t *testing.T) {
	a := newAccount(t)
	sizes := []pty.Winsize{{Cols: 120, Rows: 40}, {Cols: 80, Rows: 24}, {Cols: 60, Rows: 24}}
	for i, s := range scenes() {
		t.Run(s.what, func(t *testing.T) {
			x, _ := a.at(t, s, sizes[i%len(sizes)])
			x.press(ctrlC)
			if s.leased {
				x.sees(told, soon)
			}
			x.ends(130, 5*time.Second)
			x.sees(s.text, soon)
			a.free(t, s.cluster())
		})
	}
	t.Run("SIGTERM: an editor that has changed the terminal", func(t *testing.T) {
		raw := map[string]string{"EDITOR": `stty raw -echo; echo an editor; exec sh -c "exec sleep 100"`}
		x, _ := a.at(t, scene{args: []string{"edit", "cluster", another}, env: raw, sees: "an editor"}, sizes[0])
		x.signal(syscall.SIGTERM)
		x.ends(130, 5*time.Second)
	})
	some := scenes()[2:5]
	for i, s := range some {
		t.Run("twice: "+s.what, func(t *testing.T) {
			x, _ := a.at(t, s, sizes[i])
			defer locked(t, filepath.Join(a.Home, "state", ".kops", s.cluster()))() // so that the lease cannot be given back
			x.press(ctrlC)
			x.sees(told, soon)
			x.press(ctrlC)
			x.ends(130, soon)
			x.sees("Error: quit immediately; changes in progress may or may not have completed", soon)
		})
		a.Must("toolbox", "lock", "break", "--name", s.cluster(), "--yes")
		t.Run("SIGTERM: "+s.what, func(t *testing.T) {
			x, _ := a.at(t, s, sizes[i])
			x.signal(syscall.SIGTERM)
			x.sees(told, soon)
			x.ends(130, 5*time.Second)
			a.free(t, s.cluster())
		})
		t.Run("hang-up: "+s.what, func(t *testing.T) {
			x, _ := a.at(t, s, sizes[i])
			if err := errors.Join(x.tty.Close(), x.keys.Close()); err != nil {
				t.Fatal(err)
			}
			select {
			case <-x.ended:
			case <-time.After(5 * time.Second):
				t.Fatal("it goes on without a terminal")
			}
			a.free(t, s.cluster())
		})
	}
}
