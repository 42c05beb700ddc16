package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestAModuleIsMended builds a program of a module that requires something that nobody published.
func TestAModuleIsMended(t *testing.T) {
	served := t.TempDir()
	t.Setenv("GOPROXY", "file://"+served)
	t.Setenv("GONOSUMDB", "*")
	t.Setenv("GOFLAGS", "-modcacherw")
	t.Setenv("GOMODCACHE", t.TempDir())
	publishFiles(t, served, "v1.0.0", map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.26.0\n\nrequire (\n\texample.com/gone v1.0.0\n\texample.com/tools v1.0.0\n)\n\ntool example.com/tools/generate\n",
		"main.go": "package main\n\nimport (\n\t\"os\"\n\n\t\"example.com/gone\"\n\t_ \"example.com/tools/cloud\"\n)\n\n" +
			"func main() { _, _ = os.Stdout.WriteString(gone.Text + \" wrong\") }\n",
	})
	m := mended{module: module{path: "example.com/m", version: "v1.0.0", programs: []program{{"p", "example.com/m"}}},
		edit:    []string{"-replace=example.com/gone=./gone", "-droprequire=example.com/tools"},
		added:   map[string]string{"gone/go.mod": "module example.com/gone\n\ngo 1.26.0\n", "gone/text.go": "package gone\n\nconst Text = \"mended\"\n"},
		changed: []change{{file: "main.go", match: regexp.MustCompile(`" (wro)ng"`), with: `"${1}te"`, places: 1}},
		without: []string{"example.com/tools/cloud"}}
	whole := described{several{m}, "a later version"}
	j := job{dir: t.TempDir(), arch: runtime.GOARCH, say: t.Logf}
	if err := whole.make(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), filepath.Join(j.dir, "bin/p")).Output(); err != nil || string(out) != "mendedwrote" {
		t.Errorf("the program writes %q, %v", out, err)
	}
	var have []string
	for _, f := range whole.files() {
		if _, err := os.Stat(filepath.Join(j.dir, f)); err != nil {
			t.Error(err)
		}
		have = append(have, f)
	}
	if !slices.Contains(have, contentFile) {
		t.Errorf("the files are %v", have)
	}
	if text, err := os.ReadFile(filepath.Join(j.dir, contentFile)); err != nil || string(text) != "a later version\n" {
		t.Errorf("the content is %q, %v", text, err)
	}
	m.changed[0].places = 2
	if err := m.make(t.Context(), j); err == nil || !strings.Contains(err.Error(), "main.go: 1 places match") {
		t.Errorf("a text with other places: %v", err)
	}
	m.changed = nil
	m.without = []string{"example.com/tools/other"}
	if err := m.make(t.Context(), j); err == nil || !strings.Contains(err.Error(), "does not link example.com/tools/other") {
		t.Errorf("a package that is not linked: %v", err)
	}
}
