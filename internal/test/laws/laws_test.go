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
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kops.local/kops/fakecloud"
	"kops.local/kops/internal/node/host"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/providers"
	"kops.local/kops/internal/store/onstore"
	"kops.local/kops/internal/store/open/user"
)

const module = "kops.local/kops"

// pkg is the output of `go list` for one package.
type pkg struct {
	ImportPath string
	Dir        string
	Standard   bool
	Doc        string
	GoFiles    []string
	// TestGoFiles are tests within the package, XTestGoFiles external tests.
	TestGoFiles, XTestGoFiles []string
	Imports                   []string
	Deps                      []string
	Module                    *struct{ Path string }
}

func (p pkg) short() string { return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/") }

func list(t *testing.T, args ...string) map[string]pkg {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Dir,Standard,Doc,GoFiles,TestGoFiles,XTestGoFiles,Imports,Deps,Module"}, args...)...)
	cmd.Dir = "../../.."
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

// law means that packages under from must not depend on anything that banned accepts.
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

// pure are the stages that access nothing outside their arguments.
var pure = under("internal/spec/complete", "internal/spec/validate", "internal/model", "internal/engine/resource", "internal/engine/plan", "internal/engine/graph", "internal/engine/render",
	"internal/spec/newcluster", "internal/spec/versions", "internal/spec/catalogue", "internal/model/addons", "internal/model/assets", "internal/spec/componentflags", "internal/model/names", "internal/spec/diag", "internal/contract/nodeconfig", "internal/contract/layout")

// cloudOf returns the cloud in whose folder a package is, or "".
func cloudOf(short string) string {
	rest, ok := strings.CutPrefix(short, "internal/platform/")
	cloud, _, _ := strings.Cut(rest, "/")
	if !ok || slices.Contains([]string{"providers", "nodes", "controls", "plays", "incluster", "onmachine", "rehearsal", "traits", "servers", "ssh", "rest", "zones"}, cloud) {
		return ""
	}
	return cloud
}

// isPure reports whether a package itself accesses nothing outside its arguments. That includes
// the model of a cloud, although the kinds that it declares link packages that access the cloud.
func isPure(short string) bool {
	cloud := cloudOf(short)
	return (pure(short) || cloud != "" && under("model", "spec")(strings.TrimPrefix(short, "internal/platform/"+cloud+"/"))) && !isForTests(short)
}

// isCommand reports whether a package may access flags, the environment and the terminal.
func isCommand(short string) bool { return under("cmd", "internal/cli", "tools")(short) }

// isForTests reports whether a package is only for tests.
func isForTests(short string) bool {
	return strings.HasSuffix(short, "test") || under("internal/platform/aws/awstest", "internal/test")(short)
}

// TestDirectImports checks the direct imports of packages, without transitive ones.
func TestDirectImports(t *testing.T) {
	flags := under("flag", "github.com/spf13/pflag", "github.com/spf13/cobra", "golang.org/x/term")
	outside := under("net/http", "os", "math/rand", "crypto/rand", "syscall")
	for _, p := range list(t, "./...") {
		for _, i := range p.Imports {
			switch short, own := p.short(), strings.TrimPrefix(i, module+"/"); {
			case under("internal/store/s3", "internal/store/gs", "internal/store/azureblob", "internal/store/swift")(own) && !under("internal/store")(short) && cloudOf(short) == "" &&
				!under("internal/store/s3/sdkchain")(own) && !isForTests(short):
				t.Errorf("%s imports %s, but every program opens stores by internal/store/open, and those that platforms bring", short, i)
			case short == "api" && !isStd(i) && !under("k8s.io/apimachinery")(i):
				t.Errorf("api imports %s, but it imports only the standard library and Kubernetes' API machinery", i)
			case flags(i) && !isCommand(short) && !isForTests(short):
				t.Errorf("%s imports %s, but only the command line reads flags and sees the terminal", short, i)
			case under("internal/node", "cmd")(short) && under("internal/platform")(own) && !under("internal/platform/onmachine", "internal/platform/incluster")(own) &&
				!(under("cmd")(short) && under("internal/platform/nodes", "internal/platform/controls")(own)):
				t.Errorf("%s imports %s, but what runs on machines is handed its platforms, which a main function lists", short, i)
			case (i == "text/template" || i == "html/template") && !isForTests(short):
				t.Errorf("%s imports %s, which makes the linker keep every method of every type; use internal/template", short, i)
			case isPure(short) && outside(i):
				t.Errorf("%s imports %s, but it is a pure stage", short, i)
			}
		}
	}
}

func TestImports(t *testing.T) {
	engine := under("internal/engine/resource", "internal/engine/graph", "internal/engine/observe", "internal/engine/plan", "internal/engine/exec", "internal/engine/journal", "internal/engine/render")
	cloudSDK := under("github.com/aws", "google.golang.org/api", "cloud.google.com", "github.com/gophercloud", "github.com/digitalocean", "github.com/hetznercloud", "github.com/vmware", "github.com/Azure")
	local := func(paths ...string) func(string) bool {
		for i := range paths {
			paths[i] = module + "/" + paths[i]
		}
		return under(paths...)
	}
	clouds := func(dep string) bool { return cloudOf(strings.TrimPrefix(dep, module+"/")) != "" }
	laws := []law{
		{"the engine knows neither Kubernetes nor a cloud", engine, func(d string) bool {
			return cloudSDK(d) || under("k8s.io", "sigs.k8s.io")(d) || local("api", "internal/platform", "internal/store", "internal/cli")(d)
		}},
		{"resource imports the standard library and values only", under("internal/engine/resource", "provider/value"), func(d string) bool { return !isStd(d) && !local("provider/value")(d) }},
		{"the client of AWS' query protocol imports the standard library and classes of errors only", under("internal/platform/aws/awsquery"), func(d string) bool {
			return !isStd(d) && !local("internal/engine/fault")(d)
		}},
		{"what a machine asks of AWS, and proves by it, links no cloud SDK", under("internal/platform/aws/node/ec2", "internal/platform/aws/awssts"), cloudSDK},
		{"a client of JSON APIs imports the standard library, classes of errors and the clock only", under("internal/platform/rest", "internal/platform/gce/gcerest"), func(d string) bool {
			return !isStd(d) && !local("internal/engine/fault", "internal/engine/clock", "internal/platform/rest")(d)
		}},
		{"no program of a cluster links a client of Compute's", under("cmd/nodeup", "cmd/etcd-manager", "cmd/kops-controller", "cmd/dns-controller", "cmd/channels"), under("google.golang.org/api/compute")},
		{"the programs of a machine link no client of EC2's", under("cmd/nodeup", "cmd/etcd-manager"), under("github.com/aws/aws-sdk-go-v2/service/ec2", "github.com/aws/aws-sdk-go-v2/service/autoscaling")},
		{"api imports only the standard library and Kubernetes' API machinery", func(s string) bool { return s == "api" }, func(d string) bool {
			return cloudSDK(d) || local("internal")(d) || strings.HasPrefix(d, "k8s.io/client-go")
		}},
		{"only the list of clouds imports clouds", func(s string) bool {
			return cloudOf(s) == "" && !isForTests(s) && !under("internal/platform", "world", "internal/cli", "cmd", "e2e")(s)
		}, clouds},
		{"a contract knows neither of the programs that keep it", under("internal/contract"), func(d string) bool {
			return cloudSDK(d) || strings.HasPrefix(d, "k8s.io/client-go") || local("internal")(d) && !local("internal/contract")(d)
		}},
		{"the programs of a cluster do not know what an update writes for them", func(s string) bool {
			return under("internal/node", "cmd/nodeup", "cmd/etcd-manager", "cmd/kops-controller", "cmd/dns-controller", "cmd/channels", "cmd/kube-apiserver-healthcheck")(s)
		},
			local("internal/model", "internal/spec/complete", "internal/spec/validate", "internal/spec/newcluster", "internal/spec/facts", "internal/spec/versions", "internal/spec/catalogue")},
		{"the store knows no clusters", func(s string) bool { return under("internal/store")(s) && !under("internal/store/clusterstore")(s) }, local("api", "internal/store/clusterstore", "internal/platform")},
		{"the typed store knows neither the engine nor a cloud", under("internal/store/clusterstore"), local("internal/engine/resource", "internal/engine/graph", "internal/engine/plan", "internal/engine/exec", "internal/platform")},
		{"kops links the types of the API groups that it uses, by kubeclient, because it would register all others at each start", func(s string) bool { return s == "cmd/kops" },
			under("k8s.io/client-go/kubernetes", "k8s.io/client-go/dynamic", "k8s.io/client-go/discovery", "k8s.io/client-go/metadata", "k8s.io/client-go/gentype", "k8s.io/client-go/testing")},
		{"what only rehearsals need is in a program of its own", func(s string) bool { return s == "cmd/kops" },
			local("internal/platform/plays", "internal/platform/rehearsal", "internal/platform/aws/rehearsal", "internal/platform/gce/rehearsal", "internal/platform/gce/emulator", "internal/platform/local/stage", "internal/ops/rehearse")},
		{"the pure stages see no network", pure, func(d string) bool {
			return cloudSDK(d) || local("internal/store", "internal/cli")(d)
		}},
	}
	all := list(t, "./...")
	for _, l := range laws {
		for _, p := range all {
			if !l.from(p.short()) {
				continue
			}
			var shortest []string // the others mostly follow from it
			for _, d := range p.Deps {
				if d == p.ImportPath || !l.banned(d) {
					continue
				}
				if way := path(all, p.ImportPath, d); shortest == nil || len(way) < len(shortest) {
					shortest = way
				}
			}
			if shortest != nil {
				t.Errorf("%s, but %s", strings.Join(shortest, " imports "), l.name)
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
	for _, p := range list(t, "./internal/...") {
		cloud := cloudOf(p.short())
		if cloud == "" {
			continue
		}
		for _, d := range p.Deps {
			if other := cloudOf(strings.TrimPrefix(d, module+"/")); other != "" && other != cloud {
				t.Errorf("%s imports another cloud, %s", p.short(), d)
			}
		}
	}
}

// TestSource reads every Go file: packages have documentation, no file is over
// 600 lines, there is no init function, no package variable is assigned to, and only
// the command line reads the environment, exits the process or accesses the terminal.
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
		for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
			f, err := parser.ParseFile(s.fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Error(err)
				continue
			}
			s.length(f)
		}
	}
}

// source is one package under test.
type source struct {
	*testing.T
	pkg  pkg
	fset *token.FileSet
	uses map[*ast.Ident]types.Object // the objects that names refer to, as far as the package's own files define them
	// globals are the identifiers that declare package variables.
	globals map[*ast.Ident]bool
}

// resolve resolves names. Other packages are not read, so names that depend on them
// stay unresolved.
func (s *source) resolve(files []*ast.File) {
	s.uses = map[*ast.Ident]types.Object{}
	c := types.Config{Error: func(error) {}, Importer: nothing{}, FakeImportC: true}
	defs := map[*ast.Ident]types.Object{}
	_, _ = c.Check(s.pkg.ImportPath, s.fset, files, &types.Info{Uses: s.uses, Defs: defs}) // it fails because the imports are missing
	s.globals = map[*ast.Ident]bool{}
	for id, o := range defs {
		if v, ok := o.(*types.Var); ok && v.Pkg() != nil && v.Parent() == v.Pkg().Scope() {
			s.globals[id] = true
		}
	}
}

// nothing is an importer that imports no package.
type nothing struct{}

func (nothing) Import(path string) (*types.Package, error) {
	return nil, errors.New("not read: " + path)
}

func (s *source) at(n ast.Node) string {
	pos := s.fset.Position(n.Pos())
	return s.pkg.short() + "/" + filepath.Base(pos.Filename) + ":" + strconv.Itoa(pos.Line)
}

func (s *source) length(f *ast.File) {
	if n := s.fset.File(f.Pos()).LineCount(); n > 600 {
		s.Errorf("%s has %d lines; a reader finds their way in 600 at most", s.at(f), n)
	}
}

func (s *source) check(f *ast.File) {
	s.length(f)
	short := s.pkg.short()
	command := isCommand(short) || isForTests(short)
	ast.Inspect(f, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.FuncDecl:
			s.function(x)
		case *ast.AssignStmt:
			if x.Tok != token.DEFINE {
				s.checkAssignments(x.Lhs...)
			}
		case *ast.IncDecStmt:
			s.checkAssignments(x.X)
		case *ast.CallExpr:
			if id, ok := x.Fun.(*ast.Ident); ok && len(x.Args) > 0 && (id.Name == "delete" || id.Name == "clear") {
				s.checkAssignments(x.Args[0])
			}
		case *ast.ValueSpec:
			s.checkVariable(x)
		case *ast.BasicLit:
			if reachesUsers(short) && x.Kind == token.STRING && namesFlag(x.Value) {
				s.Errorf("%s: %s names a flag; below the command line it is option:Name, which internal/cli/shell spells", s.at(x), x.Value)
			}
		case *ast.SelectorExpr:
			if !command {
				s.checkCommand(x)
			}
			if isPure(short) {
				s.checkPurity(x)
			}
			if short != "internal/cli/shell" && isOf(x, "text", "Exact") {
				s.Errorf("%s: text.Exact; only internal/cli/shell writes what may control a terminal, as text holds words of others", s.at(x))
			}
			if under("internal/node", "cmd")(short) && isOf(x, "api", x.Sel.Name) && strings.HasPrefix(x.Sel.Name, "Cloud") {
				s.Errorf("%s: api.%s is named; what differs between platforms is in internal/platform/<name>/node and /control", s.at(x), x.Sel.Name)
			}
		}
		return true
	})
}

// reachesUsers reports whether a package's errors and findings reach users of the library.
func reachesUsers(short string) bool {
	return short == "" || under("internal/pipeline", "internal/spec", "internal/engine/plan", "internal/ops/health", "internal/ops/kubeconfig", "internal/platform/aws/lookup", "provider")(short) &&
		!under("internal/spec/componentflags")(short) && !isForTests(short)
}

// aFlag matches a flag in a text, commandLine a command of kops up to the end of its words.
var (
	aFlag       = regexp.MustCompile("(^[\"`]|[^\"`] |\\()--[a-z]")
	commandLine = regexp.MustCompile("kops [^;,(]*")
)

// namesFlag reports whether a text names a flag, other than in a command line of kops.
func namesFlag(text string) bool { return aFlag.MatchString(commandLine.ReplaceAllString(text, "")) }

func (s *source) function(f *ast.FuncDecl) {
	if f.Name.Name == "init" && f.Recv == nil {
		s.Errorf("%s: no init: registries are explicit lists", s.at(f))
	}
	if lines := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line; lines > 100 {
		s.Errorf("%s: %s has %d lines; one level of abstraction takes fewer", s.at(f), f.Name.Name, lines)
	}
}

func (s *source) checkAssignments(to ...ast.Expr) {
	for _, e := range to {
		id := root(e)
		if id == nil {
			continue
		}
		switch v := s.uses[id].(type) {
		case *types.Var:
			if v.Pkg() != nil && v.Parent() == v.Pkg().Scope() {
				s.Errorf("%s: package variable %s is changed; pass the state as a value", s.at(e), id.Name)
			}
		case *types.PkgName:
			if isCommand(s.pkg.short()) {
				continue // such as flag.Usage, in a program of its own
			}
			s.Errorf("%s: a variable of package %s is changed; pass the state as a value", s.at(e), id.Name)
		}
	}
}

// checkVariable finds package variables of mutable types.
func (s *source) checkVariable(v *ast.ValueSpec) {
	x, ok := v.Type.(*ast.SelectorExpr)
	if i, generic := v.Type.(*ast.IndexExpr); generic { // atomic.Pointer[T]
		x, ok = i.X.(*ast.SelectorExpr)
	}
	if !ok || !isOf(x, "sync", "Mutex", "RWMutex", "Once", "Map", "Pool", "WaitGroup") && !isOf(x, "atomic", x.Sel.Name) {
		return
	}
	for _, id := range v.Names {
		if s.globals[id] {
			s.Errorf("%s: package variable %s is there to be changed; pass the state as a value", s.at(v), id.Name)
		}
	}
}

// root returns the variable that an assignment to v, v.f, v[i] or *v changes, or nil.
func root(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return nil
		}
	}
}

// isOf reports whether x is one of the names of a package.
func isOf(x *ast.SelectorExpr, pkg string, names ...string) bool {
	id, ok := x.X.(*ast.Ident)
	return ok && id.Name == pkg && slices.Contains(names, x.Sel.Name)
}

func (s *source) checkCommand(x *ast.SelectorExpr) {
	if isOf(x, "os", "Getenv", "LookupEnv", "Environ", "Setenv", "Unsetenv", "ExpandEnv", "Exit", "Args", "Stdin", "Stdout", "Stderr",
		"TempDir", "UserCacheDir", "UserConfigDir", "UserHomeDir") || // which the environment determines
		isOf(x, "fmt", "Print", "Printf", "Println") || isOf(x, "log", "Fatal", "Fatalf", "Fatalln") {
		s.Errorf("%s: %s.%s; only the command line reads the environment, sees the terminal or ends the process", s.at(x), x.X, x.Sel.Name)
	}
}

func (s *source) checkPurity(x *ast.SelectorExpr) {
	if isOf(x, "time", "Now", "Since", "Until", "Sleep", "After", "NewTimer", "NewTicker", "AfterFunc") {
		s.Errorf("%s: time.%s in a pure stage", s.at(x), x.Sel.Name)
	}
	if isOf(x, "net", "Dial", "DialTimeout", "Dialer", "Resolver", "Listen", "LookupHost", "LookupIP", "LookupAddr", "Interfaces") {
		s.Errorf("%s: net.%s in a pure stage", s.at(x), x.Sel.Name)
	}
}

// TestKinds checks that every kind of every platform declares how its fields change and which
// phase it belongs to, and has names of its own.
func TestKinds(t *testing.T) {
	var fake platform.Provider
	fakecloud.New().Provider().As(&fake)
	kinds := slices.Concat(onstore.Buckets(user.Backends(func(string) string { return "" }, http.DefaultClient)).Kinds(), host.Kinds(), fake.Kinds)
	for _, p := range providers.All(platform.World{}) {
		kinds = slices.Concat(kinds, p.Kinds)
		tasks := map[string]string{}
		for _, k := range p.Kinds {
			for _, task := range k.Tasks() {
				other := tasks[task]
				if other == "" {
					tasks[task] = k.KindName()
				} else if !strings.HasPrefix(k.KindName(), other+"_") { // a part of a resource may be handled with it
					t.Errorf("%s and %s are both the task %s", other, k.KindName(), task)
				}
			}
		}
	}
	seen := map[string]bool{}
	for _, k := range kinds {
		if err := k.Check(); err != nil {
			t.Error(err)
		}
		if seen[k.KindName()] {
			t.Errorf("two kinds are called %s", k.KindName())
		}
		seen[k.KindName()] = true
	}
}

// TestWords checks that no comment contains a marker of unfinished work.
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

// TestExamples checks that the examples of public packages are usable by programs
// outside this module, which cannot import internal packages.
func TestExamples(t *testing.T) {
	found := 0
	for _, p := range list(t, "./...") {
		if strings.Contains(p.short(), "internal") {
			continue
		}
		for _, name := range p.XTestGoFiles {
			if !strings.HasPrefix(name, "example") {
				continue
			}
			found++
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range f.Imports {
				if strings.Contains(i.Path.Value, "/internal/") {
					t.Errorf("%s imports %s, which no other module can", filepath.Join(p.short(), name), i.Path.Value)
				}
			}
		}
	}
	if found == 0 {
		t.Error("no package has an example")
	}
}
