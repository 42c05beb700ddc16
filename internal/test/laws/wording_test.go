package laws

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// wording is a phrase that texts for users must not contain, and the plain way to say it.
type wording struct {
	phrase *regexp.Regexp
	plain  string
}

var stilted = []wording{
	{regexp.MustCompile(`(?i)\bthat of\b`), `name the noun: "X's value", "the value of X"`},
	{regexp.MustCompile(`\b(is|are|was|were|be) none\b|\b[Nn]one (is|are|has)\b`), `"there is no X", "no X is", "does not exist"`},
	{regexp.MustCompile(`(?i)\b(is|are|was|were|be|been) told\b|\btold of\b`), `"reports", "shows", "prints"`},
	{regexp.MustCompile(`(?i)\banew\b`), `"again", or a verb: restarts, recreates, reissues`},
	{regexp.MustCompile(`(?i)\bwhoever\b`), `"anyone who", "the process that"`},
	{regexp.MustCompile(`(?i)\bof which\b|\b(where|there)(in|of|by|upon)\b`), `a second sentence`},
	{regexp.MustCompile(`\bas one[.,;:]|\bas one$`), `the noun`},
	{regexp.MustCompile(`(?i)\b(is|are|was|were) to be\b`), `"must be", "will be"`},
	{regexp.MustCompile(`(?i)\b(is|are|was|were|be) had\b`), `"is available", "could not be read"`},
	{regexp.MustCompile(`(?i)\bany more\b`), `"no longer"`},
	{regexp.MustCompile(`(?i)\bothers' `), `name the others`},
	{regexp.MustCompile(`(?i)\b(is|are|was|were) no [a-z]`), `"is not a"`},
	{regexp.MustCompile(`(?i)\bsuch as (is|are)\b|\bgets known\b|^not [a-z]+ (is|are)\b`), `subject, verb, object`},
	{regexp.MustCompile(`([.;:] |\| )What [^?|]*$`), `a noun instead of a clause that begins with "What"`},
}

// there matches the idiom that "is no" is part of, and quotations of code.
var there = regexp.MustCompile("(?i)\\bthere (is|are|was|were) (no|none)\\b|\\b(is|are|was|were) no longer\\b|`[^`\n]*`")

// TestTextsForUsersArePlain holds that messages, help, pages and the documentation of the
// library are free of phrases that a reader stumbles over.
func TestTextsForUsersArePlain(t *testing.T) {
	for where, text := range textsForUsers(t) {
		text = there.ReplaceAllString(text, "")
		for _, w := range stilted {
			if m := w.phrase.FindString(text); m != "" {
				t.Errorf("%s: %q; write %s", where, m, w.plain)
			}
		}
	}
}

// textsForUsers collects, by their places, lines of pages, string literals of several words,
// and doc comments of the library.
func textsForUsers(t *testing.T) map[string]string {
	texts := map[string]string{}
	const root = "../../.."
	for _, pattern := range []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/*.md", "docs/contributing/*.md"} {
		pages, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(pages) == 0 {
			t.Fatalf("%s: %d pages: %v", pattern, len(pages), err)
		}
		for _, page := range pages {
			data, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			for i, line := range strings.Split(string(data), "\n") {
				if !strings.HasPrefix(line, "#") {
					texts[strings.TrimPrefix(page, root+"/")+":"+strconv.Itoa(i+1)] = line
				}
			}
		}
	}
	for _, p := range list(t, "./...") {
		if isForTests(p.short()) || under("tools", "e2e")(p.short()) {
			continue
		}
		public := !under("internal", "cmd", "examples")(p.short())
		eachFile(t, p, func(fset *token.FileSet, f *ast.File) {
			add := func(at token.Pos, text string) {
				pos := fset.Position(at)
				texts[filepath.Join(p.short(), filepath.Base(pos.Filename))+":"+strconv.Itoa(pos.Line)+":"+strconv.Itoa(pos.Column)] = text
			}
			for _, text := range literals(f) {
				value, err := strconv.Unquote(text.Value)
				if err != nil {
					t.Fatal(err)
				}
				add(text.Pos(), value)
			}
			if public {
				for _, doc := range docs(f) {
					add(doc.Pos(), strings.Join(strings.Fields(doc.Text()), " "))
				}
			}
		})
	}
	return texts
}

// isFile matches contents of files on machines: scripts, units and their comments.
var isFile = regexp.MustCompile("^[`\"](#|\\[Unit)")

// literals returns the strings of several words in a file, except file contents.
func literals(f *ast.File) []*ast.BasicLit {
	var found []*ast.BasicLit
	ast.Inspect(f, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING && strings.Contains(l.Value, " ") && !isFile.MatchString(l.Value) {
			found = append(found, l)
		}
		return true
	})
	return found
}

// docs returns the comments of a file that go doc shows.
func docs(f *ast.File) []*ast.CommentGroup {
	var found []*ast.CommentGroup
	exported := func(names ...*ast.Ident) bool { return slices.ContainsFunc(names, (*ast.Ident).IsExported) }
	add := func(groups ...*ast.CommentGroup) {
		for _, g := range groups {
			if g != nil {
				found = append(found, g)
			}
		}
	}
	add(f.Doc)
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if exported(d.Name) {
				add(d.Doc)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					if !exported(s.Name) {
						continue
					}
					add(d.Doc, s.Doc, s.Comment)
					ast.Inspect(s.Type, func(n ast.Node) bool {
						if m, ok := n.(*ast.Field); ok && exported(m.Names...) {
							add(m.Doc, m.Comment)
						}
						return true
					})
				case *ast.ValueSpec:
					if exported(s.Names...) {
						add(d.Doc, s.Doc, s.Comment)
					}
				}
			}
		}
	}
	return found
}
