package shell

import (
	"path/filepath"
	"testing"
)

// The keeper of a local cluster runs in another folder than the command that starts it.
func TestFoldersOfTheLocalCloudAreAbsolute(t *testing.T) {
	here := t.TempDir()
	t.Chdir(here)
	app := func(bundle, cache string) *App {
		return &App{System: System{Cache: cache, Env: func(name string) string { return map[string]string{"KOPS_BUNDLE": bundle}[name] }}}
	}
	for _, c := range []struct{ bundle, cache, want string }{
		{"files", "/home/me/.cache/kops", filepath.Join(here, "files")},
		{"/files", "", "/files"},
		{"", "/home/me/.cache/kops", "/home/me/.cache/kops/bundle"},
		{"", "cache", filepath.Join(here, "cache/bundle")},
		{"", "", ""},
	} {
		if got := app(c.bundle, c.cache).Bundle(); got != c.want {
			t.Errorf("KOPS_BUNDLE=%q, cache folder %q: %q, not %q", c.bundle, c.cache, got, c.want)
		}
	}
	for dir, want := range map[string]string{"": "", "/r": "/r", "../r": filepath.Join(filepath.Dir(here), "r")} {
		if got := absolute(dir); got != want {
			t.Errorf("absolute(%q) = %q, not %q", dir, got, want)
		}
	}
}
