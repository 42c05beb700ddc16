package agent_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kops.local/kops/internal/contract/nodeconfig"
)

// Nothing is written to the read-only parts of an image-based system. On
// Container-Optimized OS that is everything but a few folders, and /opt is covered by a
// writable one.
func TestAnImageIsNotWrittenTo(t *testing.T) {
	for _, c := range []struct {
		file     string
		writable func(folder string) bool
	}{
		{"testdata/aws-worker-flatcar.txtar", func(f string) bool { return !slices.Contains([]string{"usr", "bin", "sbin", "lib", "lib64"}, f) }},
		{"testdata/gce-control-plane-cos.txtar", func(f string) bool { return slices.Contains([]string{"etc", "home", "var", "opt"}, f) }},
	} {
		w := newWorld(t, c.file)
		before, err := os.ReadDir(w.root)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.converge(); err != nil {
			t.Fatal(err)
		}
		all, err := os.ReadDir(w.root)
		if err != nil || len(all) <= len(before) {
			t.Fatalf("%s: nothing was written, %v", c.file, err)
		}
		for _, d := range all {
			if !c.writable(d.Name()) {
				inside, _ := filepath.Glob(filepath.Join(w.root, d.Name(), "*", "*")) // the pattern is valid
				t.Errorf("%s: it wrote to /%s: %v", c.file, d.Name(), inside)
			}
		}
	}
}

// If external updates are configured, the image does not replace itself; otherwise its updaters are left
// alone.
func TestUpdatesOfAnImage(t *testing.T) {
	w := newWorld(t, "testdata/aws-worker-flatcar.txtar")
	w.reconfigure(func(c *nodeconfig.Config) { c.UpdatePolicy = "automatic" })
	if err := w.converge(); err != nil {
		t.Fatal(err)
	}
	for _, f := range w.files() {
		if strings.Contains(f.Name, "update-engine") || strings.Contains(f.Name, "locksmithd") || strings.Contains(f.Name, "apt") {
			t.Errorf("with automatic updates there is %s", f.Name)
		}
	}
}

// containerd's configuration file has a version that the image's own containerd can read.
func TestTheConfigurationOfTheImagesContainerd(t *testing.T) {
	for version, want := range map[string]string{"1.7.27": "version = 2\n", "2.0.5": "version = 3\n", "2.3.4": "version = 3\n", "": "version = 3\n"} {
		w := newWorld(t, "testdata/aws-worker-flatcar.txtar")
		w.host.Containerd = version
		if err := w.converge(); err != nil {
			t.Fatal(err)
		}
		if text := w.read("/etc/containerd/config.toml"); !strings.HasPrefix(text, want) {
			t.Errorf("with containerd %q it begins with %.12q, want %q", version, text, want)
		}
	}
}
