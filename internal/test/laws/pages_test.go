package laws

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	quoted   = regexp.MustCompile("`[^`\n]+`")
	fenced   = regexp.MustCompile("(?s)```.*?```")
	isFolder = regexp.MustCompile(`^(internal|api|docs|e2e|examples|cmd)/[\w./-]*$`)
	isTest   = regexp.MustCompile(`^Test[A-Z]\w+$`)
	isName   = regexp.MustCompile(`^([a-z]+)\.([A-Z]\w*)$`)
	link     = regexp.MustCompile(`\]\(([^)]+)\)`)
)

// TestThePagesForEngineersAreTrue checks that the files, names and tests that
// docs/contributing mentions exist, and that each page fits a screen.
func TestThePagesForEngineersAreTrue(t *testing.T) {
	const root, screen = "../../..", 62
	names := map[string]bool{} // pkg.Name, and names of tests
	for _, p := range list(t, "./...") {
		for _, file := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range f.Decls {
				switch x := d.(type) {
				case *ast.FuncDecl:
					names[x.Name.Name], names[f.Name.Name+"."+x.Name.Name] = true, true
				case *ast.GenDecl:
					for _, s := range x.Specs {
						if s, ok := s.(*ast.TypeSpec); ok {
							names[f.Name.Name+"."+s.Name.Name] = true
						}
					}
				}
			}
		}
	}
	pages, err := filepath.Glob(root + "/docs/contributing/*.md")
	if err != nil || len(pages) < 5 {
		t.Fatalf("%d pages in docs/contributing: %v", len(pages), err)
	}
	for _, page := range pages {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		if n := strings.Count(text, "\n"); n > screen {
			t.Errorf("%s has %d lines, and a screen has %d", page, n, screen)
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
		for _, q := range quoted.FindAllString(fenced.ReplaceAllString(text, ""), -1) {
			word := strings.Trim(q, "`")
			switch {
			case isFolder.MatchString(word):
				if _, err := os.Stat(filepath.Join(root, word)); err != nil {
					t.Errorf("%s: %v", page, err)
				}
			case (isTest.MatchString(word) || isName.MatchString(word)) && !names[word]:
				t.Errorf("%s speaks of %s, which nothing declares", page, word)
			}
		}
	}
}
