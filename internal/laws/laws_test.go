package laws

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "kops.local/kops"

// pkg is what `go list` says of one package.
type pkg struct {
	ImportPath string
	Dir        string
	Standard   bool
	Doc        string
	GoFiles    []string
	Imports    []string
	Deps       []string
}

func (p pkg) short() string { return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/") }

func list(t *testing.T, args ...string) map[string]pkg {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Dir,Standard,Doc,GoFiles,Imports,Deps"}, args...)...)
	cmd.Dir = "../.."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	pkgs := map[string]pkg{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs[p.ImportPath] = p
	}
}

// law says that packages under from must not depend on anything that banned accepts.
type law struct {
	name   string
	from   func(pkg string) bool
	banned func(dep string) bool
}

func under(paths ...string) func(string) bool {
	return func(s string) bool {
		return slices.ContainsFunc(paths, func(p string) bool { return s == p || strings.HasPrefix(s, p+"/") })
	}
}

func isStd(dep string) bool { return !strings.Contains(strings.Split(dep, "/")[0], ".") }

func TestImports(t *testing.T) {
	engine := under("internal/resource", "internal/graph", "internal/observe", "internal/plan", "internal/exec", "internal/journal", "internal/render")
	cloudSDK := under("github.com/aws", "google.golang.org/api", "cloud.google.com", "github.com/gophercloud", "github.com/digitalocean", "github.com/hetznercloud", "github.com/vmware", "github.com/Azure")
	local := func(paths ...string) func(string) bool {
		for i := range paths {
			paths[i] = module + "/" + paths[i]
		}
		return under(paths...)
	}
	laws := []law{
		{"the engine knows neither Kubernetes nor a cloud", engine, func(d string) bool {
			return cloudSDK(d) || under("k8s.io", "sigs.k8s.io")(d) || local("api", "internal/clouds", "internal/store", "internal/clusterstore", "internal/cli")(d)
		}},
		{"resource imports the standard library only", under("internal/resource"), func(d string) bool { return !isStd(d) }},
		{"api imports only the standard library and Kubernetes' API machinery", func(s string) bool { return s == "api" }, func(d string) bool {
			return cloudSDK(d) || local("internal")(d) || strings.HasPrefix(d, "k8s.io/client-go")
		}},
		{"only the list of clouds imports clouds", func(s string) bool {
			return strings.HasPrefix(s, "internal/") && !strings.HasPrefix(s, "internal/clouds") && s != "internal/cli" && !strings.HasPrefix(s, "internal/cli/")
		}, local("internal/clouds")},
		{"the store knows no clusters", under("internal/store"), local("api", "internal/clusterstore", "internal/clouds")},
		{"the typed store knows neither the engine nor a cloud", under("internal/clusterstore"), local("internal/resource", "internal/graph", "internal/plan", "internal/exec", "internal/clouds", "internal/cloud")},
		{"the pure stages see no network", under("internal/complete", "internal/validate", "internal/model", "internal/plan", "internal/graph", "internal/newcluster", "internal/channel", "internal/addons", "internal/assets", "internal/names"), func(d string) bool {
			return cloudSDK(d) || local("internal/store", "internal/clusterstore", "internal/cli")(d)
		}},
	}
	all := list(t, "./...")
	for _, l := range laws {
		for _, p := range all {
			if !l.from(p.short()) {
				continue
			}
			for _, d := range p.Deps {
				if d != p.ImportPath && l.banned(d) {
					t.Errorf("%s: %s, but %s", l.name, strings.Join(path(all, p.ImportPath, d), " imports "), l.name)
				}
			}
		}
	}
}

// path is a chain of imports within the module from one package to a dependency.
func path(all map[string]pkg, from, to string) []string {
	prev := map[string]string{from: ""}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		for _, i := range all[queue[0]].Imports {
			if _, seen := prev[i]; seen {
				continue
			}
			prev[i] = queue[0]
			if i == to {
				var out []string
				for at := to; at != ""; at = prev[at] {
					out = append([]string{at}, out...)
				}
				return out
			}
			queue = append(queue, i)
		}
	}
	return []string{from, "…", to}
}

func TestCloudsDoNotImportEachOther(t *testing.T) {
	const clouds = module + "/internal/clouds/"
	name := func(p string) string { return strings.Split(strings.TrimPrefix(p, clouds), "/")[0] }
	for _, p := range list(t, "./internal/...") {
		if !strings.HasPrefix(p.ImportPath, clouds) {
			continue
		}
		for _, d := range p.Deps {
			if strings.HasPrefix(d, clouds) && name(d) != name(p.ImportPath) {
				t.Errorf("%s imports another cloud, %s", p.short(), d)
			}
		}
	}
}

// TestSource reads every Go file: packages have documentation, no file is over
// 600 lines, nothing has an init, no package variable is assigned to, and only
// the command line reads the environment, ends the process or sees the terminal.
func TestSource(t *testing.T) {
	for _, p := range list(t, "./...") {
		if p.Doc == "" {
			t.Errorf("%s has no package documentation", p.ImportPath)
		}
		s := &source{T: t, pkg: p, fset: token.NewFileSet()}
		var files []*ast.File
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(s.fset, filepath.Join(p.Dir, name), nil, parser.ParseComments)
			if err != nil {
				t.Error(err)
				continue
			}
			files = append(files, f)
		}
		s.resolve(files)
		for _, f := range files {
			s.check(f)
		}
	}
}

// source is one package under test.
type source struct {
	*testing.T
	pkg  pkg
	fset *token.FileSet
	uses map[*ast.Ident]types.Object // what names mean, as far as the package's own files say
}

// resolve finds out what names mean. Other packages are not read, and what
// follows from them stays unknown.
func (s *source) resolve(files []*ast.File) {
	s.uses = map[*ast.Ident]types.Object{}
	c := types.Config{Error: func(error) {}, Importer: nothing{}, FakeImportC: true}
	_, _ = c.Check(s.pkg.ImportPath, s.fset, files, &types.Info{Uses: s.uses}) // it fails for want of the imports
}

// nothing imports nothing.
type nothing struct{}

func (nothing) Import(path string) (*types.Package, error) {
	return nil, errors.New("not read: " + path)
}

func (s *source) at(n ast.Node) string {
	pos := s.fset.Position(n.Pos())
	return s.pkg.short() + "/" + filepath.Base(pos.Filename) + ":" + strconv.Itoa(pos.Line)
}

func (s *source) check(f *ast.File) {
	if n := s.fset.Position(f.End()).Line; n > 600 {
		s.Errorf("%s has %d lines; a reader finds their way in 600 at most", s.at(f), n)
	}
	short := s.pkg.short()
	command := strings.HasPrefix(short, "cmd/") || short == "internal/cli" || strings.HasPrefix(short, "internal/cli/") || strings.HasSuffix(short, "test")
	ast.Inspect(f, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.FuncDecl:
			s.function(x)
		case *ast.AssignStmt:
			if x.Tok != token.DEFINE {
				s.assigned(x.Lhs...)
			}
		case *ast.IncDecStmt:
			s.assigned(x.X)
		case *ast.CallExpr:
			if !command {
				s.call(x)
			}
		}
		return true
	})
}

func (s *source) function(f *ast.FuncDecl) {
	if f.Name.Name == "init" && f.Recv == nil {
		s.Errorf("%s: no init: registries are explicit lists", s.at(f))
	}
	if lines := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line; lines > 100 {
		s.Errorf("%s: %s has %d lines; one level of abstraction takes fewer", s.at(f), f.Name.Name, lines)
	}
}

func (s *source) assigned(to ...ast.Expr) {
	for _, e := range to {
		id, ok := e.(*ast.Ident)
		if !ok {
			continue
		}
		if v, ok := s.uses[id].(*types.Var); ok && v.Pkg() != nil && v.Parent() == v.Pkg().Scope() {
			s.Errorf("%s: package variable %s is changed; pass the state as a value", s.at(e), id.Name)
		}
	}
}

func (s *source) call(x *ast.CallExpr) {
	f, ok := x.Fun.(*ast.SelectorExpr)
	if !ok {
		return
	}
	banned := []string{"Getenv", "LookupEnv", "Environ", "Exit", "Setenv"}
	if id, ok := f.X.(*ast.Ident); ok && id.Name == "os" && slices.Contains(banned, f.Sel.Name) {
		s.Errorf("%s: os.%s; only the command line reads the environment or ends the process", s.at(x), f.Sel.Name)
	}
}

// TestWords keeps the project's texts about the project alone.
func TestWords(t *testing.T) {
	banned := []string{"TO" + "DO", "FIX" + "ME", "X" + "XX"}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == ".build" || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, g := range f.Comments {
			for _, w := range banned {
				if strings.Contains(g.Text(), w) {
					t.Errorf("%s: %s in a comment; finish it or leave it out", fset.Position(g.Pos()), w)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
