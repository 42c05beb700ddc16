// Package turns spreads long tests over several CI runs. Each run covers a share of them;
// skipped ones are reported with the command that runs them.
//
// The environment variable KOPS_TURN holds the number of the run, which tools/turn prints.
// If it is not set, or is "all", everything runs. KOPS_TOUCHED holds what the change concerns.
package turns

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	variable = "KOPS_TURN"
	// touched holds the items that a change concerns, separated by spaces, which tools/touched prints.
	touched = "KOPS_TOUCHED"
	// report names a file to which each skipped share is appended, because go test shows
	// no output of a package that passes.
	report = "KOPS_TURN_REPORT"
)

// SkipUnlessTurn skips the test unless this run is the nth of each group of runs, counted from 0. env is
// the environment needed to run the test separately, such as KOPS_E2E=1.
func SkipUnlessTurn(t testing.TB, n, of int, env ...string) {
	t.Helper()
	if run, all := currentRun(t); !all && run%of != n {
		t.Skip(reportSkipped(t, fmt.Sprintf("this run is number %d of %d, and the test belongs to number %d", run%of, of, n), env...))
	}
}

// Share is a test of an item, such as a cloud, of which each run picks some.
type Share struct {
	Item string
	Of   []string // all items
	Pick int      // how many of them each run picks
	// The tests of an item take turns: this one is the Part of so many Parts, from 0.
	Part, Parts int
}

// SkipUnlessPicked skips the test unless this run picks its item, and it is the item's turn. A run picks
// those first that the change concerns, and others in turns.
func SkipUnlessPicked(t testing.TB, s Share, env ...string) {
	t.Helper()
	run, all := currentRun(t)
	if all {
		return
	}
	if picked := s.picked(run, strings.Fields(os.Getenv(touched))); !slices.Contains(picked, s.Item) {
		t.Skip(reportSkipped(t, "this run picks "+strings.Join(picked, " and "), env...))
	}
	if part := run / len(s.Of) % s.Parts; part != s.Part {
		t.Skip(reportSkipped(t, fmt.Sprintf("this run has part %d of %d of %s, and the test belongs to part %d", part, s.Parts, s.Item, s.Part), env...))
	}
}

// picked returns the items that a run picks.
func (s Share) picked(run int, touched []string) []string {
	from := run * s.Pick % len(s.Of)
	order := slices.Concat(s.Of[from:], s.Of[:from])
	slices.SortStableFunc(order, func(a, b string) int {
		return cmp.Compare(rank(touched, a), rank(touched, b))
	})
	return order[:min(s.Pick, len(order))]
}

// rank returns 0 for an item that is among those, and 1 otherwise.
func rank(those []string, item string) int {
	if slices.Contains(those, item) {
		return 0
	}
	return 1
}

// ItemsOfTurn returns a function that reports whether an item, such as a field, belongs to this
// run. Every item belongs to one run of each group.
func ItemsOfTurn(t testing.TB, of int) func(item string) bool {
	t.Helper()
	run, all := currentRun(t)
	if all {
		return func(string) bool { return true }
	}
	reportSkipped(t, fmt.Sprintf("this run tries one item in %d", of))
	return func(item string) bool {
		h := fnv.New32a()
		h.Write([]byte(item)) //nolint:errcheck // writing to a hash never fails
		return int(h.Sum32()%uint32(of)) == run%of
	}
}

// PlacesOfTurn returns the first of the numbered places that this run tries, from 1, and the step
// to the next. All places are covered within step runs. Because they take so long, all of them
// run at once only if KOPS_TURN is "all".
func PlacesOfTurn(t testing.TB, step int) (first, next int) {
	t.Helper()
	run, all := currentRun(t)
	if all && os.Getenv(variable) == "all" {
		return 1, 1
	}
	reportSkipped(t, fmt.Sprintf("this run tries one place in %d", step))
	return 1 + run%step, step
}

// currentRun returns the number of this run, and whether everything is run.
func currentRun(t testing.TB) (run int, all bool) {
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

// reportSkipped reports what a test skips, and how to run it.
func reportSkipped(t testing.TB, why string, env ...string) string {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	dir, err := os.Getwd() // the package's folder
	if err != nil {
		t.Fatal(err)
	}
	vars := strings.Join(append(env, variable+"=all"), " ")
	line := fmt.Sprintf("SKIPPED IN THIS RUN: %s: %s; run it with: (cd %s && %s go test -run '^%s$' .)", t.Name(), why, relativeDir(dir), vars, name)
	if file := os.Getenv(report); file != "" {
		if err := appendLine(file, line); err != nil {
			t.Fatal(err)
		}
	}
	return line
}

// relativeDir returns the path of a folder relative to the module.
func relativeDir(dir string) string {
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
