package laws

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const beginTurns, endTurns = "<!-- turns: begin -->\n", "<!-- turns: end -->\n"

// TestWhatCIProvesIsInThePage keeps the table of the tests of whole clusters: what each proves, in the words
// of its comment, and in which runs.
func TestWhatCIProvesIsInThePage(t *testing.T) {
	file := filepath.Join("..", "..", "..", "docs", "contributing", "what-ci-proves.md")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), beginTurns)
	table, after, ended := strings.Cut(rest, endTurns)
	if !ok || !ended {
		t.Fatalf("%s has no place for the table", file)
	}
	want := "| test | runs | proves |\n|---|---|---|\n"
	for _, folder := range []string{"local", "metal", "rehearsal"} {
		want += turnsOf(t, folder)
	}
	if *update {
		if err := os.WriteFile(file, []byte(before+beginTurns+want+endTurns+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(want, table); d != "" {
		t.Errorf("%s is outdated (-want +got; -update rewrites):\n%s", file, d)
	}
}

// turnsOf returns the rows of the tests in a folder of e2e/.
func turnsOf(t *testing.T, folder string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("..", "..", "..", "e2e", folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	constants, tests := map[string]string{}, []*ast.FuncDecl{}
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if isTest.MatchString(n.Name.Name) && n.Name.Name != "TestMain" && n.Name.Name != "TestBundle" {
					tests = append(tests, n)
				}
				return false
			case *ast.ValueSpec:
				if len(n.Names) == 1 && len(n.Values) == 1 {
					constants[n.Names[0].Name] = spelled(n.Values[0], nil)
				}
			}
			return true
		})
	}
	rows := ""
	for _, f := range tests {
		first, _, _ := strings.Cut(strings.Join(strings.Fields(f.Doc.Text()), " "), ". ")
		proves := strings.TrimSuffix(strings.TrimLeft(strings.TrimPrefix(first, f.Name.Name), ": "), ".")
		if proves == "" {
			t.Errorf("the comment of %s does not say what it proves", f.Name.Name)
		}
		rows += fmt.Sprintf("| `%s` | %s | %s |\n", f.Name.Name, runsOf(f, constants), proves)
	}
	if rows == "" {
		t.Fatalf("there are no tests in e2e/%s", folder)
	}
	return rows
}

// runsOf says in which runs a test runs, as its calls say.
func runsOf(f *ast.FuncDecl, constants map[string]string) string {
	runs := "each"
	ast.Inspect(f.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		var a []string
		for _, x := range call.Args {
			a = append(a, spelled(x, constants))
		}
		switch name := spelled(call.Fun, nil); {
		case name == "ClusterTurn":
			runs = "one of " + a[2] + ", number " + a[1]
		case name == "SkipUnlessFull":
			runs = "in full only"
		case name == "skipUnlessPicked" && a[3] == "1":
			runs = "when " + a[1] + " is rehearsed"
		case name == "skipUnlessPicked":
			runs = "when " + a[1] + " is rehearsed, one of " + a[3]
		}
		return true
	})
	return runs
}

// spelled returns the text of a literal or a constant, or the last part of a name.
func spelled(x ast.Expr, constants map[string]string) string {
	switch x := x.(type) {
	case *ast.BasicLit:
		return strings.Trim(x.Value, `"`)
	case *ast.SelectorExpr:
		return x.Sel.Name
	case *ast.Ident:
		name := x.Name
		for constants[name] != "" {
			name = constants[name]
		}
		return name
	}
	return ""
}
