package agent_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/nodeconfig"
)

const inventory = "/var/lib/kops/inventory.json"

// reconfigure changes the node configuration as an update of the cluster does.
func (w *world) reconfigure(change func(*nodeconfig.Config)) {
	w.Helper()
	var c nodeconfig.Config
	w.decode(string(w.config), &c)
	change(&c)
	text, err := yaml.Marshal(c)
	if err != nil {
		w.Fatal(err)
	}
	w.config = w.configuration(string(text))
	var boot nodeconfig.Boot
	w.decode(string(w.boot), &boot)
	sum := sha256.Sum256(w.config)
	boot.NodeupConfigHash = base64.StdEncoding.EncodeToString(sum[:])
	if w.boot, err = yaml.Marshal(boot); err != nil {
		w.Fatal(err)
	}
	w.joiner.config = w.config
}

func (w *world) exists(path string) bool {
	_, err := os.Lstat(filepath.Join(w.root, path))
	return err == nil
}

func TestWhatIsNoLongerWantedIsRemoved(t *testing.T) {
	w := newWorld(t, worker)
	w.write("/etc/motd", "the distribution's\n")
	plain := w.config
	w.reconfigure(func(c *nodeconfig.Config) {
		c.Hooks = [2][]api.HookSpec{{{Name: "warm-up", Manifest: "Type=oneshot\nExecStart=/bin/true"}}, nil}
		c.FileAssets = []api.FileAssetSpec{{Name: "policy", Path: "/etc/kubernetes/manifests/extra.yaml", Content: "a"}, {Name: "motd", Path: "/etc/motd", Content: "ours"}}
		c.ContainerdConfig.RegistryMirrors["quay.io"] = []string{"http://10.77.0.1:5001"}
		for arch, lines := range c.Assets {
			for i := range lines {
				c.Assets[arch][i] = strings.Replace(lines[i], "v1.34.0/bin/linux/amd64/kubelet", "v1.33.0/bin/linux/amd64/kubelet", 1)
			}
		}
	})
	if err := w.converge(); err != nil {
		t.Fatal(err)
	}
	stale := []string{"/etc/systemd/system/warm-up.service", "/etc/systemd/system/multi-user.target.wants/warm-up.service", "/etc/kubernetes/manifests/extra.yaml",
		"/etc/containerd/certs.d/quay.io/hosts.toml", "/etc/kubernetes/manifests/kube-proxy.manifest", "/var/lib/kube-proxy/kubeconfig"}
	for _, path := range stale {
		if !w.exists(path) {
			t.Fatalf("there is no %s", path)
		}
	}
	cached := func() []string {
		all, err := fs.Glob(os.DirFS(filepath.Join(w.root, "/var/cache/nodeup")), "*_kubelet")
		if err != nil || len(all) != 1 {
			t.Fatalf("the cache has %v, %v", all, err)
		}
		return all
	}
	before, kubelet := cached(), w.read("/usr/local/bin/kubelet")

	w.config = plain
	w.reconfigure(func(c *nodeconfig.Config) { c.KubeProxy = nil })
	text := w.preview()
	for _, path := range []string{"/etc/kubernetes/manifests/extra.yaml", "warm-up.service", "/var/lib/kube-proxy/kubeconfig"} {
		if !slices.ContainsFunc(strings.Split(text, "\n"), func(l string) bool { return strings.Contains(l, "- ") && strings.Contains(l, path) }) {
			t.Errorf("the preview does not show that %s is removed:\n%s", path, text)
		}
	}
	if !w.exists(stale[0]) {
		t.Error("a preview has removed a file")
	}
	if err := w.converge(); err != nil {
		t.Fatal(err)
	}
	for _, path := range stale {
		if w.exists(path) {
			t.Errorf("%s is still there", path)
		}
		if strings.Contains(w.read(inventory), path) {
			t.Errorf("%s is still in the inventory", path)
		}
	}
	if got := w.read("/etc/motd"); got != "ours" {
		t.Errorf("a file that was there before the first run became %q", got)
	}
	if after := cached(); after[0] == before[0] || w.read("/usr/local/bin/kubelet") == kubelet {
		t.Errorf("the cache has %v; the kubelet is that of before: %v", after, w.read("/usr/local/bin/kubelet") == kubelet)
	}
	var journal bytes.Buffer
	a := w.agent()
	a.Journal = &journal
	if err := a.Converge(t.Context(), w.boot); err != nil || journal.Len() > 0 {
		t.Errorf("the third run: %v\n%s", err, &journal)
	}
}

// A later run removes what an interrupted run was about to remove or had begun to create.
func TestARemovalThatWasCutOffIsFinished(t *testing.T) {
	for n := range 4 {
		w := newWorld(t, worker)
		extra := func(c *nodeconfig.Config) {
			c.FileAssets = []api.FileAssetSpec{{Name: "a", Path: "/etc/kubernetes/a", Content: "a"}, {Name: "b", Path: "/etc/kubernetes/b", Content: "b"}, {Name: "c", Path: "/etc/kubernetes/c", Content: "c"}}
		}
		plain := w.config
		w.reconfigure(extra)
		if n > 0 { // on the first attempt the creation itself is interrupted
			if err := w.converge(); err != nil {
				t.Fatal(err)
			}
			w.config = plain
			w.reconfigure(func(*nodeconfig.Config) {})
		}
		a := w.agent()
		a.Journal = &interruption{remaining: max(n-1, 0) + 40*(1-min(n, 1))}
		if err := a.Converge(t.Context(), w.boot); n < 3 && err == nil {
			t.Fatal("it was not cut off")
		}
		w.config = plain
		w.reconfigure(func(*nodeconfig.Config) {})
		if err := w.converge(); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/etc/kubernetes/a", "/etc/kubernetes/b", "/etc/kubernetes/c"} {
			if w.exists(path) {
				t.Errorf("cut %d: %s is still there", n, path)
			}
		}
	}
}

func TestABrokenInventoryRemovesNothing(t *testing.T) {
	w := newWorld(t, worker)
	if err := w.converge(); err != nil {
		t.Fatal(err)
	}
	w.write(inventory, "{")
	w.reconfigure(func(c *nodeconfig.Config) { c.KubeProxy = nil })
	if err := w.converge(); err != nil {
		t.Fatal(err)
	}
	if !w.exists("/etc/kubernetes/manifests/kube-proxy.manifest") {
		t.Error("a file was removed")
	}
	if warnings := w.lastReport().Warnings; len(warnings) != 1 || !strings.Contains(warnings[0], "cannot read "+inventory+", so nothing that earlier runs created is removed") {
		t.Errorf("warnings %v", warnings)
	}
}

// A cluster may disable a service that not all of its machines have.
func TestAServiceThatIsNotThereStaysOff(t *testing.T) {
	w := newWorld(t, worker)
	off := false
	w.reconfigure(func(c *nodeconfig.Config) {
		c.Hooks = [2][]api.HookSpec{{{Name: "warm-up", Manifest: "Type=oneshot\nExecStart=/bin/true"}}, {{Name: "update-engine.service", Enabled: &off}}}
	})
	if err := w.converge(); err != nil {
		t.Fatal(err)
	}
	if got := w.preview(); !strings.Contains(got, "nothing to change") {
		t.Errorf("a second run would change\n%s", got)
	}
	const unit = "/etc/systemd/system/warm-up.service"
	if !w.exists(unit) {
		t.Fatal("the hook is not there")
	}
	w.reconfigure(func(c *nodeconfig.Config) { c.Hooks[0] = []api.HookSpec{{Name: "warm-up", Enabled: &off}} })
	if err := w.converge(); err != nil {
		t.Fatal(err)
	}
	if w.exists(unit) || w.exists("/etc/systemd/system/multi-user.target.wants/warm-up.service") {
		t.Error("a hook that was switched off is still there")
	}
	if got := w.preview(); !strings.Contains(got, "nothing to change") {
		t.Errorf("a second run would change\n%s", got)
	}
	w.reconfigure(func(c *nodeconfig.Config) {
		c.Hooks[0] = []api.HookSpec{{Name: "warm-up", Manifest: "Type=oneshot\nExecStart=/bin/true"}}
	})
	if err := w.converge(); err != nil || !w.exists(unit) {
		t.Errorf("a hook that was switched on again is not there: %v", err)
	}
}
