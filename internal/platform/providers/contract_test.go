package providers_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/providers"
)

var updateContract = flag.Bool("update", false, "rewrite the table in docs/contributing")

const beginContract, endContract = "<!-- functions: begin -->\n", "<!-- functions: end -->\n"

// TestTheContractIsInThePage keeps the table of what kops asks of a cloud, in a page for those who add
// one: what each function is needed for, and who has it.
func TestTheContractIsInThePage(t *testing.T) {
	file := filepath.Join("..", "..", "..", "docs", "contributing", "what-a-cloud-has.md")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), beginContract)
	table, after, ended := strings.Cut(rest, endContract)
	if !ok || !ended {
		t.Fatalf("%s has no place for the table", file)
	}
	want := contract(t)
	if *updateContract {
		if err := os.WriteFile(file, []byte(before+beginContract+want+endContract+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(want, table); d != "" {
		t.Errorf("%s is outdated (-want +got; -update rewrites):\n%s", file, d)
	}
}

// contract writes the table.
func contract(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| function | needed for | who has it |\n|---|---|---|\n")
	all := providers.All(platform.World{})
	for _, part := range []string{"Lookup", "Declare", "Fleet", "Fleet.Roll", "Hosts"} {
		of := reflect.ValueOf(all[0])
		for name := range strings.SplitSeq(part, ".") {
			of = of.FieldByName(name)
		}
		for i := range of.NumField() {
			f := of.Type().Field(i)
			if f.Type.Kind() != reflect.Func {
				continue
			}
			needed := f.Tag.Get("needed")
			if needed == "" {
				t.Errorf("%s.%s: say with the tag needed for which commands it is", part, f.Name)
			}
			fmt.Fprintf(&b, "| `%s.%s` | %s | %s |\n", part, f.Name, needed, strings.Join(having(all, part, f.Name), ", "))
		}
	}
	return b.String()
}

// having returns the names of the platforms that have a function.
func having(all []platform.Provider, part, name string) []string {
	var out []string
	for _, p := range all {
		of := reflect.ValueOf(p)
		for name := range strings.SplitSeq(part, ".") {
			of = of.FieldByName(name)
		}
		if !of.FieldByName(name).IsNil() {
			out = append(out, string(p.Name))
		}
	}
	return out
}
