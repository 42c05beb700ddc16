package laws

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the lists of what programs link, cmd/*/deps.txt, and the table of what CI proves")

// TestWhatProgramsLink compares what each program links with the list next to it, so that a commit
// shows every change of it.
func TestWhatProgramsLink(t *testing.T) {
	dirs, err := filepath.Glob("../../../cmd/*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("%d programs: %v", len(dirs), err)
	}
	t.Setenv("GOOS", "linux")
	t.Setenv("GOARCH", "amd64")
	t.Setenv("CGO_ENABLED", "0")
	for _, dir := range dirs {
		name := filepath.Base(dir)
		t.Run(name, func(t *testing.T) {
			got, file := linkedModules(t, "./cmd/"+name), filepath.Join(dir, "deps.txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil { //nolint:gosec // it is source code
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(file)
			if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); err != nil || d != "" {
				t.Errorf("%s links something else (-listed +linked); if it has to, rewrite the list: go test ./internal/test/laws -run TestWhatProgramsLink -update\n%v\n%s", name, err, d)
			}
		})
	}
}

// linkedModules lists the modules that a program links, without the standard library, and
// the packages of this module.
func linkedModules(t *testing.T, program string) string {
	t.Helper()
	var modules, own []string
	for _, p := range list(t, "-deps", program) {
		switch {
		case p.Standard || p.Module == nil:
		case p.Module.Path == module:
			own = append(own, p.short())
		default:
			modules = append(modules, p.Module.Path)
		}
	}
	slices.Sort(modules)
	slices.Sort(own)
	return strings.Join(slices.Concat([]string{"modules"}, slices.Compact(modules), []string{"", "packages"}, own), "\n") + "\n"
}
