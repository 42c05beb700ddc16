package laws

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"

	"kops.local/kops/internal/test/turns"
)

// TestKopsIsForOtherSystemsToo type-checks kops and kops-rehearse, and all packages of this module that they
// link, for those of the users' systems that differ most from this one. Of other modules
// it reads only declarations: function bodies are most of the work, and not ours.
func TestKopsIsForOtherSystemsToo(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for i, system := range []string{"windows", "darwin"} {
		t.Run(system, func(t *testing.T) {
			turns.SkipUnlessTurn(t, i, 2)
			linked, err := packages.Load(&packages.Config{
				Env:       append(os.Environ(), "CGO_ENABLED=0", "GOARCH=arm64", "GOOS="+system),
				Mode:      packages.LoadAllSyntax | packages.NeedModule,
				ParseFile: declarations(root),
			}, module+"/cmd/kops", module+"/cmd/kops-rehearse")
			if err != nil {
				t.Fatal(err)
			}
			ours := 0
			packages.Visit(linked, nil, func(p *packages.Package) {
				own := p.Module != nil && p.Module.Path == module
				if own {
					ours++
				}
				for _, e := range p.Errors {
					if own || e.Kind != packages.TypeError { // the types of other modules lack function bodies
						t.Error(e)
					}
				}
			})
			if ours < 100 {
				t.Errorf("only %d packages were checked", ours)
			}
		})
	}
}

// declarations returns a parser that omits function bodies in files that are not below root.
func declarations(root string) func(*token.FileSet, string, []byte) (*ast.File, error) {
	return func(set *token.FileSet, name string, src []byte) (*ast.File, error) {
		f, err := parser.ParseFile(set, name, src, parser.SkipObjectResolution)
		if err != nil || strings.HasPrefix(name, root+string(filepath.Separator)) {
			return f, err
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				fn.Body = nil
			}
		}
		return f, nil
	}
}
