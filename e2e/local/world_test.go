package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kops.local/kops/internal/platform/local/localtest"
	"kops.local/kops/internal/platform/local/machine"
	"kops.local/kops/internal/platform/local/site"
)

const (
	// workplace is the folder of everything that these tests create. It is fixed, so that
	// a run finds and removes the leftovers of an interrupted one; it is on a disk,
	// because etcd and overlays need one.
	workplace = "/var/lib/kops-e2e"
	cluster   = "e2e.k8s.local"
	agnhost   = "registry.k8s.io/e2e-test-images/agnhost:2.63.0"
	// clusterTime is the time limit for a cluster, or any change of one, to become ready,
	// on a slow host. Tests never wait for a fixed time, but for a state.
	clusterTime = 8 * time.Minute
	pause       = 100 * time.Millisecond
)

// world is a user of this host with a state store and one cluster.
type world struct {
	*testing.T
	tools   tools
	env     []string
	site    site.Site
	machine machine.Host
	before  host
	figures figures
}

// tools are the programs of a run, and the bundle built from them.
type tools struct{ kops, ctl, bundle string }

// prepare builds kops, and a bundle of it from the bundle of this host's user, once for all tests.
var prepare = sync.OnceValues(func() (tools, error) {
	bin := filepath.Join(workplace, "bin")
	t := tools{filepath.Join(bin, "kops"), filepath.Join(bin, "kubectl"), filepath.Join(workplace, "bundle")}
	steps := [][]string{
		{"env", "CGO_ENABLED=0", "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", bin + "/", "kops.local/kops/cmd/..."},
		{t.kops, "bundle", "create", "--own", bin, "--dir", t.bundle, "--add", agnhost},
		{t.kops, "bundle", "extract", "kubectl", "--dir", t.bundle, "--to", t.ctl},
	}
	own, err := usersBundle()
	if err != nil {
		return t, err
	}
	if _, err := os.Stat(own); err == nil { // then it need not be downloaded again
		steps = slices.Insert(steps, 0, []string{"cp", "--archive", "--reflink=auto", "--no-target-directory", own, t.bundle})
	}
	for _, s := range steps {
		if out, err := exec.Command(s[0], s[1:]...).CombinedOutput(); err != nil {
			return t, fmt.Errorf("prepare: %s: %w\n%s", strings.Join(s, " "), err, out)
		}
	}
	return t, nil
})

// usersBundle returns the folder of the bundle that make bundle creates.
func usersBundle() (string, error) {
	if dir := os.Getenv("KOPS_BUNDLE"); dir != "" {
		return dir, nil
	}
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "kops", "bundle"), err
}

// TestMain has exclusive use of the workplace, and removes it.
func TestMain(m *testing.M) {
	localtest.Main(m, workplace, func() bool { // if machines are left, the next run needs the rest to delete them
		_, err := os.Stat(filepath.Join(workplace, "local"))
		return !errors.Is(err, fs.ErrNotExist)
	})
}

// newWorld returns a world that is deleted when the test ends, or skips the test
// if clusters are not enabled or not possible.
func newWorld(t *testing.T) *world {
	t.Helper()
	localtest.Cluster(t)
	w := &world{T: t, site: site.Site{Root: filepath.Join(workplace, "local"), Cluster: cluster}, figures: figures{}}
	var err error
	start := time.Now()
	w.tools, err = prepare()
	w.ok(err)
	w.figures.seconds("programs and their bundle", time.Since(start)) // once for all tests
	w.machine, err = machine.NewHost(w.site)
	w.ok(err)
	cache, err := os.UserCacheDir()
	w.ok(err)
	w.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(workplace, "home"), "XDG_CACHE_HOME=" + cache,
		"KOPS_BUNDLE=" + w.tools.bundle, "KOPS_LOCAL_ROOT=" + w.site.Root, "KOPS_STATE_STORE=file://" + w.state(),
		"KUBECONFIG=" + w.kubeconfig()}
	w.deleteCluster(context.Background()) // leftovers of an interrupted run
	w.before = observeHost(w)
	t.Cleanup(func() {
		if t.Failed() {
			w.diagnose()
		}
		w.deleteCluster(context.Background()) // the test's own context has ended
		w.report()
	})
	return w
}

func (w *world) state() string      { return filepath.Join(workplace, "state") }
func (w *world) kubeconfig() string { return filepath.Join(workplace, "home", "kubeconfig") }

// deleteCluster deletes the cluster, if there is one, and the files of its user.
func (w *world) deleteCluster(ctx context.Context) {
	w.Helper()
	if _, err := os.Stat(filepath.Join(w.state(), cluster)); err == nil {
		if r := w.run(ctx, clusterTime, "delete", "cluster", cluster, "--yes"); r.code != 0 {
			w.Fatalf("CLEAN UP BY HAND: the cluster cannot be deleted: exit %d\n%s%s", r.code, r.out, r.err)
		}
	}
	for _, dir := range []string{w.site.Root, w.state(), filepath.Join(workplace, "home")} {
		w.ok(os.RemoveAll(dir))
	}
}

// result is the result of one run of the program.
type result struct {
	code     int
	out, err string
	took     time.Duration
}

// run runs kops, with a time limit.
func (w *world) run(ctx context.Context, limit time.Duration, args ...string) result {
	w.Helper()
	return w.exec(ctx, limit, w.tools.kops, args...)
}

func (w *world) exec(ctx context.Context, limit time.Duration, program string, args ...string) result {
	w.Helper()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var out, errs bytes.Buffer
	c := exec.CommandContext(ctx, program, args...)
	c.Env, c.Stdout, c.Stderr, c.WaitDelay = w.env, &out, &errs, 5*time.Second
	start := time.Now()
	err := c.Run()
	r := result{out: out.String(), err: errs.String(), took: time.Since(start)}
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		r.code = exit.ExitCode()
	} else if err != nil {
		r.code, r.err = -1, r.err+err.Error()
	}
	if ctx.Err() != nil {
		r.code, r.err = -1, r.err+fmt.Sprintf("cut off after %s", limit)
	}
	return r
}

// must runs kops, which must succeed.
func (w *world) must(args ...string) result {
	w.Helper()
	r := w.run(w.Context(), clusterTime+time.Minute, args...)
	if r.code != 0 {
		w.Fatalf("kops %s: exit %d\n%s%s", strings.Join(args, " "), r.code, r.out, r.err)
	}
	return r
}

// kubectl runs kubectl, which must succeed, and returns its output.
func (w *world) kubectl(args ...string) string {
	w.Helper()
	r := w.exec(w.Context(), time.Minute, w.tools.ctl, args...)
	if r.code != 0 {
		w.Fatalf("kubectl %s: exit %d\n%s%s", strings.Join(args, " "), r.code, r.out, r.err)
	}
	return r.out
}

// restConfig returns the configuration of API clients.
func (w *world) restConfig() *rest.Config {
	w.Helper()
	c, err := clientcmd.BuildConfigFromFlags("", w.kubeconfig())
	w.ok(err)
	c.Timeout = 10 * time.Second
	c.QPS = -1 // no limit: the cluster is measured, not the client
	return c
}

func (w *world) client() *kubernetes.Clientset {
	w.Helper()
	c, err := kubernetes.NewForConfig(w.restConfig())
	w.ok(err)
	return c
}

// access is a client of the API that uses the current content of the user's kubeconfig file.
type access struct {
	w    *world
	mu   sync.Mutex
	text string
	last *kubernetes.Clientset
}

func (w *world) access() *access {
	w.Helper()
	return &access{w: w, last: w.client()}
}

// client reads the file again. A file that is being written is used once it is complete.
func (a *access) client() *kubernetes.Clientset {
	a.mu.Lock()
	defer a.mu.Unlock()
	text, err := os.ReadFile(a.w.kubeconfig())
	if err != nil || string(text) == a.text {
		return a.last
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(text)
	if err != nil {
		return a.last
	}
	config.Timeout, config.QPS = tryTime, -1
	if c, err := kubernetes.NewForConfig(config); err == nil {
		a.text, a.last = string(text), c
	}
	return a.last
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// wait calls f until it returns nil, and returns how long that took. On failure it reports
// the last error.
func (w *world) wait(what string, limit time.Duration, f func() error) time.Duration {
	w.Helper()
	start := time.Now()
	last := ""
	for {
		err := f()
		took := time.Since(start)
		if err == nil {
			w.Logf("%s: after %s%s", what, took.Round(time.Millisecond), last)
			return took
		}
		last = fmt.Sprintf("; before that: %.200v", err)
		if took > limit {
			w.Fatalf("%s: not after %s: %v", what, took.Round(time.Second), err)
		}
		select {
		case <-w.Context().Done():
			w.Fatalf("%s: %v", what, w.Context().Err())
		case <-time.After(pause):
		}
	}
}
