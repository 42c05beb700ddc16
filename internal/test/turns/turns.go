// Package turns spreads long tests over several runs of CI. Each run proves a share of them;
// what it leaves out is reported with the command that runs it.
//
// The environment variable KOPS_TURN holds the number of the run, which tools/turn prints.
// Where it is not set, or is "all", everything runs.
package turns

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const (
	variable = "KOPS_TURN"
	// report names a file to which each skipped share is appended, as go test shows
	// nothing of a package that passes.
	report = "KOPS_TURN_REPORT"
)

// Take skips the test unless this run is the nth of each group of runs, counted from 0. env is
// what the test needs to be run by itself, such as KOPS_E2E=1.
func Take(t testing.TB, n, of int, env ...string) {
	t.Helper()
	if run, all := now(t); !all && run%of != n {
		t.Skip(skipped(t, fmt.Sprintf("this run is number %d of %d, and the test belongs to number %d", run%of, of, n), env...))
	}
}

// Share returns a function that reports whether an item, such as a field, belongs to this
// run. Every item belongs to one of each group of runs.
func Share(t testing.TB, of int) func(item string) bool {
	t.Helper()
	run, all := now(t)
	if all {
		return func(string) bool { return true }
	}
	skipped(t, fmt.Sprintf("this run tries one item in %d", of))
	return func(item string) bool {
		h := fnv.New32a()
		h.Write([]byte(item)) //nolint:errcheck // a hash takes all
		return int(h.Sum32()%uint32(of)) == run%of
	}
}

// Places returns the first of the numbered places that this run tries, from 1, and the step
// to the next. All places are tried within step runs. They take so long that KOPS_TURN has to
// be "all" for all of them to be tried in one run.
func Places(t testing.TB, step int) (first, next int) {
	t.Helper()
	run, all := now(t)
	if all && os.Getenv(variable) == "all" {
		return 1, 1
	}
	skipped(t, fmt.Sprintf("this run tries one place in %d", step))
	return 1 + run%step, step
}

// now returns the number of this run, and whether everything is to run.
func now(t testing.TB) (run int, all bool) {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" || text == "all" {
		return 0, true
	}
	run, err := strconv.Atoi(text)
	if err != nil || run < 0 {
		t.Fatalf("%s=%q is neither a number nor all", variable, text)
	}
	return run, false
}

// skipped reports what a test leaves out, and how to run it.
func skipped(t testing.TB, why string, env ...string) string {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	dir, err := os.Getwd() // the package's folder
	if err != nil {
		t.Fatal(err)
	}
	vars := strings.Join(append(env, variable+"=all"), " ")
	line := fmt.Sprintf("SKIPPED IN THIS RUN: %s: %s; run it with: (cd %s && %s go test -run '^%s$' .)", t.Name(), why, below(dir), vars, name)
	if file := os.Getenv(report); file != "" {
		if err := appendLine(file, line); err != nil {
			t.Fatal(err)
		}
	}
	return line
}

// below shortens the path of a folder of the module to one within it.
func below(dir string) string {
	for at := dir; at != filepath.Dir(at); at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return "." + strings.TrimPrefix(dir, at)
		}
	}
	return dir
}

func appendLine(file, line string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}
