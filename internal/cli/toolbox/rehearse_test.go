package toolbox_test

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kops.local/kops/internal/cli"
	"kops.local/kops/internal/cli/shell"
)

// started is a program that kops became.
type started struct {
	path      string
	args, env []string
}

// rehearse runs kops toolbox rehearse with more arguments, as the program dir/kops.
func rehearse(t *testing.T, dir string, env map[string]string, args ...string) (code int, errs string, s *started) {
	var text bytes.Buffer
	sys := shell.System{In: &bytes.Buffer{}, Out: &text, Err: &text, Env: func(name string) string { return env[name] }, Cache: "/var/cache/kops", Version: "1.37.0", Program: filepath.Join(dir, "kops"),
		Exec: func(path string, args, env []string) error {
			s = &started{path, args, env}
			return nil
		}}
	code = cli.Run(t.Context(), sys, append([]string{"toolbox", "rehearse"}, args...))
	return code, text.String(), s
}

// program writes a program, and returns its path.
func program(t *testing.T, dir string, mode os.FileMode) string {
	t.Helper()
	file := filepath.Join(dir, "kops-rehearse")
	if err := os.WriteFile(file, nil, mode); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestTheProgramOfRehearsalsIsFound looks beside kops first, and then in PATH.
func TestTheProgramOfRehearsalsIsFound(t *testing.T) {
	own, other := t.TempDir(), t.TempDir()
	t.Chdir(other)
	for _, c := range []struct{ path, want string }{
		{other, ""},
		{"/no/such/folder:" + other, ""},
		{".", "missing"},
		{"", "missing"},
	} {
		want := c.want
		if want == "" {
			want = program(t, other, 0o755)
		}
		code, errs, s := rehearse(t, own, map[string]string{"PATH": c.path})
		if want == "missing" {
			if text := "Error: rehearsals need the program kops-rehearse, which is neither beside kops, in " + own + ", nor in a folder of PATH; take it from "; code != 1 || s != nil || !strings.HasPrefix(errs, text) {
				t.Errorf("PATH=%s: exit code %d, %s", c.path, code, errs)
			}
		} else if code != 0 || s == nil || s.path != want {
			t.Errorf("PATH=%s: exit code %d, %s, started is %+v", c.path, code, errs, s)
		}
	}
	file := program(t, own, 0o644) // it is not a program
	if _, _, s := rehearse(t, own, map[string]string{"PATH": other}); s == nil || s.path == file {
		t.Errorf("started is %+v", s)
	}
	if err := os.Chmod(file, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, _, s := rehearse(t, own, map[string]string{"PATH": other}); s == nil || s.path != file {
		t.Errorf("started is %+v", s)
	}
}

// TestTheProgramOfRehearsalsGetsEverything checks its arguments, and that its commands find this
// kops, the bundle, and programs that were built.
func TestTheProgramOfRehearsalsGetsEverything(t *testing.T) {
	dir := t.TempDir()
	program(t, dir, 0o755)
	t.Setenv("KOPS_BUILT", "/of/the/user")
	t.Setenv("PATH", "/bin")
	for line, want := range map[string]string{
		"":                          "kops-rehearse --for 1.37.0 --cloud aws -v 0 --",
		"--cloud gce -- sh -c true": "kops-rehearse --for 1.37.0 --cloud gce -v 0 -- sh -c true",
		"-v 1 --dir x true":         "kops-rehearse --for 1.37.0 --cloud aws -v 1 --dir x -- true",
	} {
		code, errs, s := rehearse(t, dir, map[string]string{"PATH": "/bin", "KOPS_BUILT": "/of/the/user"}, strings.Fields(line)...)
		if code != 0 || s == nil || strings.Join(s.args, " ") != want {
			t.Fatalf("%q: exit code %d, %s, started is %+v", line, code, errs, s)
		}
		got := map[string]string{}
		for _, e := range s.env {
			name, value, _ := strings.Cut(e, "=")
			if _, twice := got[name]; twice {
				t.Errorf("%s is twice in the environment", name)
			}
			got[name] = value
		}
		maps.DeleteFunc(got, func(name, _ string) bool {
			return !slices.Contains([]string{"PATH", "KOPS_BUNDLE", "KOPS_BUILT"}, name)
		})
		if want := map[string]string{"PATH": dir + ":/bin", "KOPS_BUNDLE": "/var/cache/kops/bundle", "KOPS_BUILT": "/of/the/user"}; !maps.Equal(got, want) {
			t.Errorf("%q: the environment has %v, want %v", line, got, want)
		}
	}
}

// TestTheCloudsOfRehearsalsAreCompleted checks that kops knows them without the program.
func TestTheCloudsOfRehearsalsAreCompleted(t *testing.T) {
	var out bytes.Buffer
	sys := shell.System{In: &bytes.Buffer{}, Out: &out, Err: &bytes.Buffer{}, Env: func(string) string { return "" }, Version: "1.37.0"}
	if code := cli.Run(t.Context(), sys, []string{"__complete", "toolbox", "rehearse", "--cloud", ""}); code != 0 || !strings.HasPrefix(out.String(), "aws\ngce\n") || strings.Contains(out.String(), "\nlocal\n") || !strings.Contains(out.String(), "\n:") {
		t.Errorf("exit code %d, %q", code, out.String())
	}
}
