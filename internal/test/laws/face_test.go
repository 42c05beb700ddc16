package laws

import (
	"encoding/json"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestTheLibraryShowsNoInternalType checks everything that a program outside this module can
// reach from the packages of the library: no signature, field or method has a type of an
// internal package, because such a program can neither name it nor read its documentation.
func TestTheLibraryShowsNoInternalType(t *testing.T) {
	var faces []string
	for _, p := range list(t, "./...") {
		if !under("internal", "cmd", "e2e", "tools")(p.short()) {
			faces = append(faces, p.ImportPath)
		}
	}
	imports := importer.ForCompiler(token.NewFileSet(), "gc", exportData(t, faces...))
	f := &exposedTypes{seen: map[types.Type]bool{}, found: map[string]bool{}}
	for _, path := range faces {
		p, err := imports.Import(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range p.Scope().Names() {
			o := p.Scope().Lookup(name)
			if !o.Exported() {
				continue
			}
			f.path = append(f.path[:0], p.Name()+"."+name)
			f.visit(o.Type())
			if a, ok := o.(*types.TypeName); ok && a.IsAlias() {
				f.visit(types.Unalias(o.Type()))
			}
		}
	}
	for _, line := range slices.Sorted(maps.Keys(f.found)) {
		t.Error(line)
	}
}

// exportData finds the compiler's export data of packages and of everything that they import.
func exportData(t *testing.T, paths ...string) func(path string) (io.ReadCloser, error) {
	t.Helper()
	c := exec.Command("go", append([]string{"list", "-export", "-deps", "-json=ImportPath,Export"}, paths...)...)
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var p struct{ ImportPath, Export string }
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		files[p.ImportPath] = p.Export
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(files[path]) }
}

// exposedTypes follows types from where the library exposes them.
type exposedTypes struct {
	path  []string // from an exported name to the current type
	seen  map[types.Type]bool
	found map[string]bool
}

// at visits the type of a member of the current type.
func (f *exposedTypes) at(member string, t types.Type) {
	f.path = append(f.path, member)
	f.visit(t)
	f.path = f.path[:len(f.path)-1]
}

func (f *exposedTypes) visit(t types.Type) {
	if f.seen[t] {
		return
	}
	f.seen[t] = true
	switch t := t.(type) {
	case *types.Alias:
		f.visit(types.Unalias(t))
	case *types.Named:
		f.named(t)
	case *types.Pointer:
		f.visit(t.Elem())
	case *types.Slice:
		f.visit(t.Elem())
	case *types.Array:
		f.visit(t.Elem())
	case *types.Chan:
		f.visit(t.Elem())
	case *types.Map:
		f.visit(t.Key())
		f.visit(t.Elem())
	case *types.Signature:
		for v := range t.Params().Variables() {
			f.visit(v.Type())
		}
		for v := range t.Results().Variables() {
			f.visit(v.Type())
		}
	case *types.Struct:
		for v := range t.Fields() {
			if v.Exported() || v.Embedded() {
				f.at(v.Name(), v.Type())
			}
		}
	case *types.Interface:
		for m := range t.ExplicitMethods() {
			if m.Exported() {
				f.at(m.Name(), m.Type())
			}
		}
	}
}

// named follows a type of this module, unless it is internal.
func (f *exposedTypes) named(t *types.Named) {
	p := t.Obj().Pkg()
	if p == nil || p.Path() != module && !strings.HasPrefix(p.Path(), module+"/") {
		return
	}
	if strings.Contains(p.Path()+"/", "/internal/") {
		f.found[strings.Join(f.path, ".")+" is a "+strings.TrimPrefix(p.Path(), module+"/")+"."+t.Obj().Name()] = true
		return
	}
	for m := range t.Methods() {
		if m.Exported() {
			f.at(m.Name(), m.Type())
		}
	}
	for a := range t.TypeArgs().Types() {
		f.visit(a)
	}
	f.visit(t.Underlying())
}
