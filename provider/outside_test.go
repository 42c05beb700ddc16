package provider_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestAModuleOutsideBringsAPlatform runs the tests of examples/provider, a separate module,
// which can use only the exported packages of this one.
func TestAModuleOutsideBringsAPlatform(t *testing.T) {
	dir, mods := filepath.Join("..", "examples", "provider"), t.TempDir()
	for _, name := range []string{"go.mod", "go.sum"} { // copied, because the dependencies of this module may be newer
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(mods, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	c := exec.CommandContext(t.Context(), "go", "test", "-mod=mod", "-modfile="+filepath.Join(mods, "go.mod"), "./...")
	c.Dir = dir
	c.Env = append(os.Environ(), "GOWORK=off") // GOFLAGS stay, so that what both link is compiled once
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
