package metal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/ops/bundle"
	"kops.local/kops/internal/platform/local/kinds"
	"kops.local/kops/internal/platform/local/localtest"
	"kops.local/kops/internal/platform/local/machine"
	"kops.local/kops/internal/platform/local/site"
	"kops.local/kops/internal/spec/facts"
)

const (
	// workplace is the folder of everything that this test creates. It is fixed, so that a run
	// finds and removes the leftovers of an interrupted one.
	workplace = "/var/lib/kops-e2e-metal"
	cluster   = "metal.k8s.local"
	// rack is the site of this host whose machines stand in for the user's.
	rack    = "rack.k8s.local"
	network = "10.199.7.0/24"
	gateway = "10.199.7.1"
	mirror  = "http://" + gateway + ":3989"
	agnhost = "registry.k8s.io/e2e-test-images/agnhost:2.63.0"
	// clusterTime is the time limit of any change of the cluster, on a slow host.
	clusterTime = 8 * time.Minute
)

// world is a user with machines, a state store and an SSH key.
type world struct {
	*testing.T
	kops, kubectl, bundle string
	env                   []string
	client                *kinds.Client
	image, bridge         string
	host                  machine.Host
}

func newWorld(t *testing.T) *world {
	t.Helper()
	localtest.Cluster(t)
	lock, err := localtest.Claim(workplace)
	w := &world{T: t}
	w.ok(err)
	w.Cleanup(func() { _ = lock.Close() })
	cache, err := os.UserCacheDir()
	w.ok(err)
	w.prepare(cache)
	w.client = &kinds.Client{Root: w.path("rack"), Cache: filepath.Join(cache, "kops", "local"), Run: "/run/kops-local", Keeper: []string{w.kops, "local", "keep"}, Log: os.Stderr, Now: time.Now}
	w.host, err = machine.NewHost(site.Site{Root: w.client.Root, Cluster: rack})
	w.ok(err)
	w.removeAll()
	w.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.path("home"), "XDG_CACHE_HOME=" + w.path("home"), "KOPS_FEATURE_FLAGS=Metal",
		"KOPS_STATE_STORE=file://" + w.path("state"), "KUBECONFIG=" + w.path("home/kubeconfig")}
	w.ok(os.MkdirAll(w.path("home/.ssh"), 0o700))
	w.must("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", w.path("home/.ssh/id_ed25519"))
	w.Cleanup(func() {
		if t.Failed() {
			w.diagnose()
		}
		w.removeAll()
		if !t.Failed() {
			w.ok(errors.Join(os.RemoveAll(workplace), os.Remove(workplace+".lock")))
		}
	})
	return w
}

func (w *world) path(path string) string { return filepath.Join(workplace, path) }

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// prepare builds kops, and a bundle of it from the bundle of this host's user.
func (w *world) prepare(cache string) {
	w.Helper()
	bin := w.path("bin")
	w.kops, w.kubectl, w.bundle = filepath.Join(bin, "kops"), filepath.Join(bin, "kubectl"), w.path("bundle")
	w.must("env", "CGO_ENABLED=0", "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", bin+"/", "kops.local/kops/cmd/...")
	own := os.Getenv("KOPS_BUNDLE")
	if own == "" {
		own = filepath.Join(cache, "kops", "bundle")
	}
	if _, err := os.Stat(own); err == nil {
		w.must("cp", "--archive", "--reflink=auto", "--no-target-directory", own, w.bundle)
	}
	w.must(w.kops, "bundle", "create", "--own", bin, "--dir", w.bundle, "--add", agnhost)
	w.must(w.kops, "bundle", "extract", "kubectl", "--dir", w.bundle, "--to", w.kubectl)
	b, err := bundle.Open(w.bundle)
	w.ok(err)
	f := b.Facts()
	f.Clouds = map[string]*facts.Cloud{"metal": {Architecture: "amd64"}}
	text, err := f.Marshal()
	w.ok(err)
	w.ok(os.WriteFile(w.path("facts.yaml"), text, 0o600))
}

// kindNamed returns a kind of the local cloud.
func kindNamed(name string) resource.Any {
	for _, k := range kinds.All() {
		if k.KindName() == name {
			return k
		}
	}
	panic("there is no kind " + name)
}

// create creates an object of the local cloud.
func create[T any](w *world, name string, want *T) *T {
	w.Helper()
	k := kindNamed(name)
	got, err := k.Create(w.Context(), w.client, want)
	w.ok(err)
	w.wait("the "+name, func() error { return k.Ready(w.Context(), w.client, got) })
	return got.(*T)
}

// createNetwork creates the network of the machines, and the servers of files and images there.
func (w *world) createNetwork() {
	w.Helper()
	img := create(w, "local_image", &kinds.Image{Cluster: rack, Packages: []string{"openssh-server"}})
	net := create(w, "local_network", &kinds.Network{Cluster: rack, CIDR: network, NAT: true, Up: true})
	w.image, w.bridge = img.Path, net.ID
	create(w, "local_mirror", &kinds.Mirror{Cluster: rack, Name: "bundle", Network: resource.Lit(net.ID), Bundle: w.bundle, Port: 3989})
}

// prints makes the console of a machine show the fingerprint of its host key, once SSH is ready.
const prints = `#!/bin/sh
set -e
mkdir -p -m 700 /root/.ssh
cat > /root/.ssh/authorized_keys << 'END'
%s
END
systemctl stop ssh.service
rm -f /etc/ssh/ssh_host_*
ssh-keygen -q -A
systemctl reset-failed ssh.service
systemctl start ssh.service
echo "host key $(ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub)"
`

// machine creates a machine, and returns its address and the fingerprint on its console.
func (w *world) machine(name string) (address, fingerprint string) {
	w.Helper()
	key, err := os.ReadFile(w.path("home/.ssh/id_ed25519.pub"))
	w.ok(err)
	m := create(w, "local_machine", &kinds.Machine{Cluster: rack, Name: name, Network: resource.Lit(w.bridge), Image: resource.Lit(w.image),
		UserData: resource.Text(resource.Lit(fmt.Sprintf(prints, strings.TrimSpace(string(key)))))})
	w.wait("the console of "+name, func() error {
		log, err := w.host.Log(name)
		if err != nil {
			return err
		}
		_, after, ok := strings.Cut(string(log), "host key ")
		if f := strings.Fields(after); ok && len(f) > 1 {
			fingerprint = f[1]
			return nil
		}
		return errors.New("it shows no host key")
	})
	return m.Address, fingerprint
}

// destroy terminates a machine immediately.
func (w *world) destroy(name string) {
	w.Helper()
	w.ok(kinds.TerminateMachine(w.Context(), w.client, rack, name))
}

// removeAll removes everything that this test, or an interrupted one, has created.
func (w *world) removeAll() {
	w.Helper()
	for _, name := range []string{"local_machine", "local_mirror", "local_image", "local_network"} {
		k, ctx := kindNamed(name), context.Background() // the test's own has ended
		all, err := k.Observe(ctx, w.client, resource.Scope{Cluster: rack, All: true})
		w.ok(err)
		for _, o := range all {
			w.ok(k.Delete(ctx, w.client, o.Got))
		}
	}
	for _, dir := range []string{"rack", "state", "home"} {
		w.ok(os.RemoveAll(w.path(dir)))
	}
}

// must runs a program, which must succeed, and returns its output.
func (w *world) must(program string, args ...string) string {
	w.Helper()
	out, err := w.try(program, args...)
	if err != nil {
		w.Fatal(err)
	}
	return out
}

func (w *world) try(program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), clusterTime+time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	c := exec.CommandContext(ctx, program, args...)
	c.Env, c.Stdout, c.Stderr, c.WaitDelay = w.env, &out, &errs, 5*time.Second
	start := time.Now()
	if err := c.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w\n%s%s", filepath.Base(program), strings.Join(args, " "), err, out.String(), errs.String())
	}
	w.Logf("%s %s: %s", filepath.Base(program), strings.Join(args[:min(len(args), 3)], " "), time.Since(start).Round(time.Millisecond))
	return out.String(), nil
}

func (w *world) api() *kubernetes.Clientset {
	w.Helper()
	c, err := clientcmd.BuildConfigFromFlags("", w.path("home/kubeconfig"))
	w.ok(err)
	c.Timeout = 10 * time.Second
	client, err := kubernetes.NewForConfig(c)
	w.ok(err)
	return client
}

// wait tries f until it is nil.
func (w *world) wait(what string, f func() error) {
	w.Helper()
	start := time.Now()
	for {
		err := f()
		took := time.Since(start).Round(time.Millisecond)
		if err == nil {
			w.Logf("%s: after %s", what, took)
			return
		}
		if took > clusterTime {
			w.Fatalf("%s: not after %s: %v", what, took, err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// diagnose prints the state of the machines after a failure.
func (w *world) diagnose() {
	all, _ := w.host.List() // if it cannot be listed, it is not printed
	for _, m := range all {
		log, _ := w.host.Log(m.Name)
		w.Logf("console of %s:\n%s", m.Name, tail(string(log), 1500))
		out, err := exec.Command("ssh", "-i", w.path("home/.ssh/id_ed25519"), "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "ConnectTimeout=5", "root@"+m.Address,
			"journalctl -u kops-configuration --no-pager | tail -15; tail -3 /var/log/kops-boot.log; crictl ps -a 2>/dev/null | head -30; for f in /var/log/containers/*; do echo == $f; tail -4 $f; done").CombinedOutput() //nolint:gosec // a test
		w.Logf("%s: %v\n%s", m.Name, err, tail(string(out), 6000))
	}
	out, err := w.try(w.kubectl, "get", "pods,nodes", "-A", "-o", "wide")
	w.Logf("%s%v", out, err)
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }
