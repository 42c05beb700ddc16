package rehearsal

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"kops.local/kops/internal/ops/bundle"
	"kops.local/kops/internal/ops/rehearse"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/local/localtest"
	"kops.local/kops/internal/platform/plays"
	platformrehearsal "kops.local/kops/internal/platform/rehearsal"
)

const (
	// workplace is the folder of everything that this test creates. It is fixed, so that a run
	// finds and removes the leftovers of an interrupted one.
	workplace = "/var/lib/kops-e2e-rehearsal"
	// service is the address of the rehearsal.
	service = "198.18.0.1"
	// clusterTime is the time limit of any change of a cluster, on a slow host.
	clusterTime = 8 * time.Minute
	pause       = 100 * time.Millisecond
)

// agnhost answers requests in tests.
const agnhost = "registry.k8s.io/e2e-test-images/agnhost:2.63.0"

func inWorkplace(path string) string { return filepath.Join(workplace, path) }

// prepare builds kops, its programs for machines, and a bundle for the clusters of a cloud,
// once for all tests of the cloud. The bundle also has the agents of a pod network, if one is given.
func prepare(cloud, network string) error {
	if err := prepareBase(); err != nil {
		return err
	}
	if err := clouds[cloud].prepare(); err != nil || network == "" {
		return err
	}
	return runAll([][]string{
		{"make", "-C", "../..", "programs", "NETWORK=" + network},
		{inWorkplace("bin/kops"), "bundle", "create", "--dir", inWorkplace("bundle"), "--own", inWorkplace("bin"), "--networking", network, "--offline"},
	})
}

var prepareBase = sync.OnceValue(func() error {
	own, err := usersBundle()
	if err != nil {
		return err
	}
	steps := [][]string{
		{"make", "-C", "../..", "archive", "BUILD=" + inWorkplace("bin"), "ARCHES=" + runtime.GOARCH},
		{"env", "CGO_ENABLED=0", "go", "build", "-trimpath", "-o", inWorkplace("standin"), "./standin"},
	}
	if _, err := os.Stat(own); err == nil { // then it need not be downloaded again
		steps = append(steps, []string{"cp", "--archive", "--reflink=auto", "--no-target-directory", own, inWorkplace("bundle")})
	}
	return runAll(steps)
})

var (
	bundleCloud   = flag.String("cloud", "", "cloud whose bundle TestBundle gives to this host's user")
	bundleNetwork = flag.String("network", "cilium", "pod network whose agents the bundle of TestBundle has")
)

// TestBundle gives this host's user the bundle of a cloud's tests: make rehearsal-bundle.
func TestBundle(t *testing.T) {
	if *bundleCloud == "" {
		t.Skip("SKIPPED, NOT TESTED: nobody asks for a bundle; make rehearsal-bundle does")
	}
	if clouds[*bundleCloud] == nil {
		t.Fatalf("no rehearsal of %q has a bundle: name one of %v", *bundleCloud, slices.Sorted(maps.Keys(clouds)))
	}
	localtest.Cluster(t)
	own, err := usersBundle()
	if err == nil {
		err = prepare(*bundleCloud, *bundleNetwork)
	}
	if err == nil {
		err = runAll([][]string{{"mkdir", "--parents", own}, {"cp", "--archive", "--reflink=auto", "--no-target-directory", inWorkplace("bundle"), own}})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// usersBundle returns the folder of the bundle that make bundle creates.
func usersBundle() (string, error) {
	if dir := os.Getenv("KOPS_BUNDLE"); dir != "" {
		return dir, nil
	}
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "kops", "bundle"), err
}

func runAll(steps [][]string) error {
	for _, s := range steps {
		if out, err := exec.Command(s[0], s[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("prepare: %s: %w\n%s", strings.Join(s, " "), err, out)
		}
	}
	return nil
}

// standIns writes an archive of images with a program, under the names that it stands in for. Another
// release of CoreDNS, which the bundle has, stands in for the one that clusters run.
func standIns(program, archive string, names []string) error {
	text, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, path := range []string{"standin", "cluster-proportional-autoscaler"} { // the second is a command of a manifest
		err = errors.Join(err, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: 0o755, Size: int64(len(text))}))
		_, werr := w.Write(text)
		err = errors.Join(err, werr)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return err
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	if err != nil {
		return err
	}
	image, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		return err
	}
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{OS: "linux", Architecture: runtime.GOARCH, RootFS: rootFS(image), Config: v1.Config{Entrypoint: []string{"/standin"}}})
	if err != nil {
		return err
	}
	all := map[name.Reference]v1.Image{}
	for _, n := range names {
		tag, err := name.NewTag(n)
		if err != nil {
			return err
		}
		if all[tag] = image; strings.Contains(n, "/coredns:") {
			if all[tag], err = built(inWorkplace("bundle"), coreDNSBuilt); err != nil {
				return err
			}
		}
	}
	return tarball.MultiRefWriteToFile(archive, all)
}

// built returns an image of a bundle.
func built(dir, image string) (v1.Image, error) {
	b, err := bundle.Open(dir)
	if err != nil {
		return nil, err
	}
	digest, _ := b.ImageDigest(image)
	hash, err := v1.NewHash(digest)
	if err != nil {
		return nil, fmt.Errorf("the bundle has no %s: %w", image, err)
	}
	all, err := layout.ImageIndexFromPath(filepath.Join(dir, "oci"))
	if err != nil {
		return nil, err
	}
	index, err := all.ImageIndex(hash)
	if err != nil {
		return nil, err
	}
	of, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	return index.Image(of.Manifests[0].Digest) // it was built only for this host
}

func rootFS(i v1.Image) v1.RootFS {
	c, err := i.ConfigFile()
	if err != nil {
		return v1.RootFS{}
	}
	return c.RootFS
}

// world is a user with an account of the emulated cloud.
type world struct {
	*testing.T
	store     string // of the state
	rehearsal *rehearse.Rehearsal
	dir       string // his working directory
	env       []string
}

func newWorld(t *testing.T, cloud, network, store string) *world {
	t.Helper()
	localtest.Cluster(t)
	w := &world{T: t, dir: t.TempDir(), store: store}
	w.ok(prepare(cloud, network))
	cache, err := os.UserCacheDir()
	w.ok(err)
	t.Setenv("PATH", inWorkplace("bin")+":"+os.Getenv("PATH")) // the emulation starts programs, too
	w.env = []string{"PATH=" + inWorkplace("bin") + ":" + os.Getenv("PATH"), "HOME=" + w.dir, "KOPS_BUNDLE=" + inWorkplace("bundle")}
	stage := plays.Stage(platform.World{Cache: filepath.Join(cache, "kops"), Bundle: inWorkplace("bundle"), Log: os.Stderr})
	log, err := os.Create(filepath.Join(w.dir, "rehearsal.log"))
	w.ok(err)
	w.rehearsal, err = rehearse.Open(t.Context(), plays.All(), stage, cloud, platformrehearsal.StageOptions{Root: inWorkplace("stage"), Log: slog.New(slog.NewTextHandler(log, nil))})
	w.ok(err)
	t.Cleanup(func() {
		if t.Failed() {
			w.diagnose()
		}
		w.ok(w.rehearsal.Close(context.Background())) // the test's own context has ended
		w.checkNothingLeft()
	})
	return w
}

// TestMain has exclusive use of the workplace, and removes it.
func TestMain(m *testing.M) { localtest.Main(m, workplace, func() bool { return false }) }

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// checkNothingLeft checks that nothing of the rehearsal is left on this host.
func (w *world) checkNothingLeft() {
	w.Helper()
	links, err := net.Interfaces()
	w.ok(err)
	for _, l := range links {
		addresses, err := l.Addrs()
		w.ok(err)
		for _, a := range addresses {
			if strings.HasPrefix(a.String(), service+"/") {
				w.Errorf("the rehearsal has left the interface %s", l.Name)
			}
		}
	}
	if left, err := os.ReadDir(inWorkplace("stage")); !errors.Is(err, os.ErrNotExist) {
		w.Errorf("the rehearsal has left %v, %v", left, err)
	}
	loops, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	w.ok(err)
	for _, l := range loops {
		if file, err := os.ReadFile(l); err == nil && strings.HasPrefix(string(file), workplace) {
			w.Errorf("the rehearsal has left the disk %s", file)
		}
	}
}

// try runs a command line in the rehearsal, and returns its output.
func (w *world) try(line string) (string, error) {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.Context()), clusterTime+time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	c := w.rehearsal.Command(ctx, w.env, "bash", "-c", line)
	c.Dir, c.Stdout, c.Stderr, c.WaitDelay = w.dir, &out, &errs, 5*time.Second
	start := time.Now()
	if err := c.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w\n%s%s", line, err, tail(out.String(), 4000), tail(errs.String(), 4000))
	}
	w.Logf("%s: %s", line, time.Since(start).Round(time.Millisecond))
	return out.String(), nil
}

// must runs a command line, which must succeed.
func (w *world) must(line string) string {
	w.Helper()
	out, err := w.try(line)
	w.ok(err)
	return out
}

// wait tries f until it is nil, and returns how long that took.
func (w *world) wait(what string, f func() error) time.Duration {
	w.Helper()
	start := time.Now()
	for {
		err := f()
		took := time.Since(start)
		if err == nil {
			w.Logf("%s: after %s", what, took.Round(time.Millisecond))
			return took
		}
		if took > clusterTime {
			w.Fatalf("%s: not after %s: %v", what, took.Round(time.Second), err)
		}
		time.Sleep(pause)
	}
}

// dialer connects to the names of the rehearsal. A query of DNS that is lost is repeated after 5 s.
func dialer() *net.Dialer {
	return &net.Dialer{Timeout: 30 * time.Second, Resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, service+":53")
	}}}
}

func (w *world) api() *kubernetes.Clientset {
	w.Helper()
	c, err := clientcmd.BuildConfigFromFlags("", inWorkplace("stage/rehearsal/play/kubeconfig"))
	w.ok(err)
	c.Timeout, c.QPS, c.Dial = 10*time.Second, -1, dialer().DialContext
	client, err := kubernetes.NewForConfig(c)
	w.ok(err)
	return client
}

// machines returns the running instances.
func (w *world) machines() []string {
	w.Helper()
	all, err := w.rehearsal.Machines().List()
	w.ok(err)
	var out []string
	for m, runs := range all {
		if runs {
			out = append(out, m)
		}
	}
	return out
}

// diagnose prints the state of the rehearsal after a failure.
func (w *world) diagnose() {
	log, _ := os.ReadFile(filepath.Join(w.dir, "rehearsal.log")) // if it cannot be read, it is not printed
	w.Logf("the rehearsal:\n%s", tail(string(log), 4000))
	for _, m := range w.machines() {
		log, _ := w.rehearsal.Machines().Console(m)
		w.Logf("console of %s:\n%s", m, tail(string(log), 2500))
	}
	for _, line := range []string{"timeout 60 kubectl get nodes,pods -A -o wide", "KOPS_STATE_STORE=" + w.store + " timeout 60 kops doctor " + cluster} {
		out, err := w.try(line)
		w.Logf("%s\n%s%v", line, tail(out, 8000), err)
	}
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }
