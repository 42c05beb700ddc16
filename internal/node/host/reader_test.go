package host_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/host"
)

// containerd is a real containerd, private to this test.
type containerd struct {
	*testing.T
	programs, socket, root string
}

// startContainerd starts the containerd that tools/kubernetes has built, or skips the test.
func startContainerd(t *testing.T) containerd {
	t.Helper()
	c := containerd{T: t, socket: filepath.Join(t.TempDir(), "s"), root: filepath.Join(t.TempDir(), "root")}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	built := func(what string) string {
		found, _ := filepath.Glob(filepath.Join(cache, "kops", "build", what+"-v*-"+runtime.GOARCH, "bin")) // the pattern is valid
		return strings.Join(found, ":")
	}
	c.programs = built("containerd") + ":" + built("runc")
	if os.Geteuid() != 0 || strings.HasPrefix(c.programs, ":") || strings.HasSuffix(c.programs, ":") {
		const remedy = "only root starts containers, with a containerd and runc; run `make bundle` as root"
		if os.Getenv("CI") == "true" {
			t.Fatal("CANNOT RUN: " + remedy)
		}
		t.Skip("SKIPPED, NOT TESTED: " + remedy)
	}
	t.Setenv("PATH", c.programs+":"+os.Getenv("PATH"))
	if err := os.Mkdir(c.root, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, link := range []string{"bin", "lib", "lib64"} { // a root file system with the host's programs
		if err := os.Symlink("usr/"+link, filepath.Join(c.root, link)); err != nil {
			t.Fatal(err)
		}
	}
	server := exec.Command("containerd", "--address", c.socket, "--root", t.TempDir(), "--state", t.TempDir())
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill() // it may have exited
		_ = server.Wait()         // it was killed
	})
	c.await("containerd answers", func() bool { _, err := c.command(t.Context(), "ctr", "version"); return err == nil })
	return c
}

// command is host.Run for this containerd.
func (c containerd) command(ctx context.Context, name string, args ...string) ([]byte, error) {
	return host.Run(ctx, name, append([]string{"--address", c.socket}, args...)...)
}

func (c containerd) ctr(args ...string) string {
	c.Helper()
	out, err := c.command(context.WithoutCancel(c.Context()), "ctr", append([]string{"--namespace", "k8s.io"}, args...)...)
	if err != nil {
		c.Fatal(err)
	}
	return string(out)
}

// await waits until a condition becomes true.
func (c containerd) await(what string, condition func() bool) {
	c.Helper()
	for end := time.Now().Add(30 * time.Second); !condition(); {
		if time.Now().After(end) {
			c.Fatal("in vain waited until " + what)
		}
	}
}

// start runs a container as the kubelet does.
func (c containerd) start(id, name string) {
	c.Helper()
	c.ctr("run", "--detach", "--label", "io.kubernetes.container.name="+name, "--mount", "type=bind,src=/usr,dst=/usr,options=rbind:ro",
		"--rootfs", c.root, id, "/usr/bin/sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done")
	c.Cleanup(func() {
		_, _ = c.command(context.Background(), "ctr", "--namespace", "k8s.io", "tasks", "delete", "--force", id) // it may be gone
	})
}

func (c containerd) isRunning(id string) bool {
	for line := range strings.Lines(c.ctr("tasks", "list")) {
		if f := strings.Fields(line); len(f) > 0 && f[0] == id {
			return f[len(f)-1] == "RUNNING"
		}
	}
	return false
}

// A program that runs with an older certificate than the file's is stopped, and nothing else is.
func TestReadersOfAReplacedCertificateAreStopped(t *testing.T) {
	c := startContainerd(t)
	m := machine(t)
	m.Command = c.command
	want := host.Reader{Container: "kube-router", Path: "/kubeconfig", Current: true}
	current := func() bool {
		got, err := host.Readers.List(t.Context(), m, resource.Scope{Names: []string{"kube-router=/kubeconfig"}})
		if err != nil || len(got) != 1 || got[0].Container != want.Container || got[0].Path != want.Path {
			t.Fatalf("%+v %v", got, err)
		}
		return got[0].Current
	}
	c.start("another", "kube-proxy")
	c.start("router-1", "kube-router")
	if !current() {
		t.Error("without a file there is something to be read anew")
	}
	write(t, m, "/kubeconfig", "of today") // newer than the containers
	if current() {
		t.Error("the file is younger than its reader, which counts as current")
	}
	if err := host.Readers.Create(t.Context(), m, &want); err != nil {
		t.Fatal(err)
	}
	c.await("the container has stopped", func() bool { return !c.isRunning("router-1") })
	if !current() || !c.isRunning("another") {
		t.Errorf("after the stop it is current: %v, and the other container runs: %v", current(), c.isRunning("another"))
	}
	c.start("router-2", "kube-router") // as the kubelet would
	if err := host.Readers.Create(t.Context(), m, &want); err != nil || !current() || !c.isRunning("router-2") {
		t.Errorf("the container that has read the file is stopped: %v", err)
	}
	m.Command = func(context.Context, string, ...string) ([]byte, error) { return nil, errors.New("it does not run") }
	if err := host.Readers.Create(t.Context(), m, &want); err == nil {
		t.Error("without containerd nobody knows, and it was no error")
	}
}
