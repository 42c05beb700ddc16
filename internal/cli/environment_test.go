package cli

import (
	"bytes"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/cli/shell"
)

var updateDocs = flag.Bool("update-docs", false, "rewrite docs/environment.md")

// readsVariable matches the name of a variable of kops in source code.
var readsVariable = regexp.MustCompile(`"(KOPS_[A-Z0-9_]+)"`)

// TestEveryVariableIsExplained checks the variables that the programs' source code names.
func TestEveryVariableIsExplained(t *testing.T) {
	known := map[string]bool{}
	for _, v := range shell.Environment() {
		for name := range strings.SplitSeq(v.Name, ", ") {
			known[name] = true
		}
	}
	read := 0
	for _, dir := range []string{"../../cmd", "../../world", "../../internal", "../.."} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			slashed := filepath.ToSlash(path)
			if err != nil || d.IsDir() {
				if dir == "../.." && path != dir || strings.HasSuffix(slashed, "internal/test") || err == nil && strings.HasSuffix(d.Name(), "test") && path != dir {
					return fs.SkipDir
				}
				return err
			}
			if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			text, err := os.ReadFile(path)
			for _, m := range readsVariable.FindAllSubmatch(text, -1) {
				if read++; !known[string(m[1])] {
					t.Errorf("%s names %s, which kops help environment does not explain", slashed, m[1])
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if read < 20 {
		t.Errorf("only %d variables were found", read)
	}
}

func TestTheEnvironmentPageMatchesTheHelp(t *testing.T) {
	const page = "../../docs/environment.md"
	want := shell.EnvironmentPage()
	if *updateDocs {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil || string(got) != want {
		t.Errorf("%s is not what shell.Environment says (%v); go test ./internal/cli -run Environment -update-docs", page, err)
	}
	var out bytes.Buffer
	code := Run(t.Context(), shell.System{In: &bytes.Buffer{}, Out: &out, Err: &out, Env: func(string) string { return "" }, Now: time.Now}, []string{"help", "environment"})
	for _, v := range shell.Environment() {
		if !strings.Contains(out.String(), v.Name) || !strings.Contains(out.String(), v.Meaning) {
			t.Errorf("%s is not in the help (code %d)", v.Name, code)
		}
	}
}
