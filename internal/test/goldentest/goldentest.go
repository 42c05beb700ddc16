// Package goldentest finds the expected outputs that tests compare with: a few
// that are part of the source, in each package's testdata, and the complete set if
// the environment or the folder next to the source provides it.
//
// It must not know what produces the outputs.
package goldentest

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	yamlv3 "go.yaml.in/yaml/v3"
)

// variable names the folder with all goldens.
const variable = "KOPS_GOLDENS"

// Cases returns the folders under testdata/<set> of the package under test and
// under <set> of the folder with all goldens, by name. If the latter does not exist,
// that is logged.
func Cases(t *testing.T, set string) map[string]string {
	t.Helper()
	cases := folders(filepath.Join("testdata", set))
	if len(cases) == 0 {
		t.Fatalf("no cases in testdata/%s", set)
	}
	all := Root()
	more := folders(filepath.Join(all, set))
	if len(more) == 0 {
		t.Logf("ONLY THE CASES IN testdata/%s ARE TESTED: there are none in %s; name a folder in %s", set, all, variable)
	}
	for name, dir := range more {
		if _, err := os.Stat(filepath.Join(dir, "data")); err == nil || set != "update_cluster" { // for some clouds there is only the input
			cases[name] = dir
		}
	}
	return cases
}

// Root returns the folder with all goldens, which may not exist: the value of the environment
// variable KOPS_GOLDENS, or shared/goldens next to the checkout.
func Root() string {
	if dir := os.Getenv(variable); dir != "" {
		return dir
	}
	source := folder
	for _, err := os.Stat(filepath.Join(source, "go.mod")); err != nil && source != filepath.Dir(source); _, err = os.Stat(filepath.Join(source, "go.mod")) {
		source = filepath.Dir(source)
	}
	return filepath.Join(source, "..", "shared", "goldens")
}

// folder is the folder of the package under test, in which its tests run.
var folder, _ = os.Getwd()

func folders(dir string) map[string]string {
	found := map[string]string{}
	entries, _ := os.ReadDir(dir) // a missing folder has no cases
	for _, e := range entries {
		if e.IsDir() {
			found[e.Name()] = filepath.Join(dir, e.Name())
		}
	}
	return found
}

// Read returns the file of a case that matches the pattern; there must be exactly one.
func Read(t testing.TB, dir, pattern string) []byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(files) != 1 {
		t.Fatalf("%s in %s matches %d files", pattern, dir, len(files))
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Archives runs a test for each archive of files that matches the pattern, in a test of its own: print
// returns what the last file should have, given all files by name. With update, that is written instead.
func Archives(t *testing.T, pattern string, update bool, print func(t *testing.T, files map[string][]byte) string) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d files, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			files := map[string][]byte{}
			for _, f := range a.Files {
				files[f.Name] = f.Data
			}
			got, last := print(t, files), &a.Files[len(a.Files)-1]
			if update {
				last.Data = []byte(got)
				if err := os.WriteFile(path, txtar.Format(a), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(string(last.Data), got); d != "" {
				t.Errorf("%s; with -update it is what is expected", d)
			}
		})
	}
}

// Rows reads a gzipped file of tab-separated values, without its first line.
func Rows(t testing.TB, file string) [][]string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() // only read
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	r := csv.NewReader(z)
	r.Comma, r.LazyQuotes = '\t', true
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows[1:]
}

// Diff compares two YAML files by meaning, document by document; "" means that they are equal.
func Diff(t *testing.T, want, got []byte) string {
	t.Helper()
	return cmp.Diff(documents(t, want), documents(t, got))
}

func documents(t *testing.T, data []byte) []any {
	t.Helper()
	var all []any
	for d := yamlv3.NewDecoder(bytes.NewReader(data)); ; {
		var v any
		err := d.Decode(&v)
		switch {
		case err == nil:
			all = append(all, v)
		case strings.Contains(err.Error(), "EOF"):
			return all
		default:
			t.Fatal(err)
		}
	}
}
