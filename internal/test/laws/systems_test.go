package laws

import (
	"os"
	"testing"

	"golang.org/x/tools/go/packages"
)

// TestKopsIsForOtherSystemsToo checks the types of kops, and of all of this module that it
// links, as they are for the systems of users that are least like this one.
func TestKopsIsForOtherSystemsToo(t *testing.T) {
	for _, system := range []string{"windows", "darwin"} {
		env := append(os.Environ(), "CGO_ENABLED=0", "GOARCH=arm64", "GOOS="+system)
		linked, err := packages.Load(&packages.Config{Env: env, Mode: packages.NeedName | packages.NeedImports | packages.NeedDeps | packages.NeedModule}, module+"/cmd/kops")
		if err != nil {
			t.Fatal(err)
		}
		var ours []string
		packages.Visit(linked, nil, func(p *packages.Package) {
			if p.Module != nil && p.Module.Path == module {
				ours = append(ours, p.PkgPath)
			}
		})
		checked, err := packages.Load(&packages.Config{Env: env, Mode: packages.LoadAllSyntax}, ours...)
		if err != nil {
			t.Fatal(err)
		}
		packages.Visit(checked, nil, func(p *packages.Package) {
			for _, e := range p.Errors {
				t.Errorf("for %s: %v", system, e)
			}
		})
		if len(checked) < 100 {
			t.Errorf("for %s, only %d packages were checked", system, len(checked))
		}
	}
}
