package laws

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// openers are the functions that access a file by path. Functions of the packages listed here
// follow links, and accept any path.
var openers = map[string][]string{
	"os": {"Open", "OpenFile", "OpenRoot", "Create", "CreateTemp", "WriteFile", "ReadFile", "Mkdir", "MkdirAll", "MkdirTemp",
		"Rename", "Remove", "RemoveAll", "ReadDir", "Readlink", "Symlink", "Link", "Truncate", "DirFS", "CopyFS"},
	"path/filepath": {"Walk", "WalkDir", "Glob"},
}

// ownPaths are the functions that open files by path, outside of the package confined:
// PACKAGE, or PACKAGE FUNCTION if the package also handles names chosen by others. The value
// states who chooses the names of the files.
var ownPaths = map[string]string{
	". etcdArchive.verify":                    "a temporary folder of kops' own",
	"cmd":                                     "programs of machines: their flags",
	"internal/cli/bundle write":               "the file that a flag names",
	"internal/cli/bundle packing.run":         "the file that a flag names",
	"internal/cli/create":                     "the user's own public keys, of fixed names",
	"internal/cli/edit":                       "a temporary folder, and the names of objects, which are validated",
	"internal/cli/helpers":                    "the user's cache, by digests",
	"internal/cli/shell App.configuredStore":  "the file that a flag names, and those of fixed names in the user's home",
	"internal/cli/shell replaceFile":          "the file that a flag names",
	"internal/cli/shell readFile":             "the file that a flag names",
	"internal/cli/toolbox empty":              "the folder that a flag names",
	"internal/cli/toolbox filesBelow":         "the folder that a flag names, whose files are read as templates and values",
	"internal/ops/bundle openArea":            "the folder of the bundle itself",
	"internal/ops/bundle input.copy":          "programs that were built here, below folders that flags name",
	"internal/ops/bundle folders.all":         "programs that were built here, below folders that flags name",
	"internal/ops/bundle folders.root":        "programs that were built here, below folders that flags name",
	"internal/ops/bundle folders.content":     "programs that were built here, below folders that flags name",
	"internal/ops/bundle writtenSum":          "programs that were built here, below folders that flags name",
	"internal/ops/bundle runsOn":              "programs that were built here, below folders that flags name",
	"internal/ops/bundle tree.folder":         "programs that were built here, below folders that flags name",
	"internal/ops/bundle maker.archivedImage": "the archive that a flag names",
	"internal/ops/bundle SavedImages":         "the archive that a flag names",
	"internal/ops/delivery":                   "the archive of programs, in places that kops or a variable names",
	"internal/ops/health":                     "files that the user's kubeconfig names",
	"internal/ops/kubeconfig":                 "the user's kubeconfig file",
	"internal/ops/rehearse":                   "a folder of kops' own on this host",
	"internal/pipeline":                       "files that the user's kubeconfig names; the journal in the cache",
	"internal/platform/onmachine":             "secrets, whose names a platform lists",
	"internal/platform/ssh":                   "the user's keys",
	"internal/store":                          "a state store in a folder, whose keys are checked before each use",
}

// machinePackages reports whether a package runs on machines or is this host's cloud: it owns the paths.
func machinePackages(short string) bool {
	owned, _ := filepath.Match("internal/platform/*/rehearsal", short)
	return owned || under("internal/node", "internal/platform/local", "internal/platform/metal/node", "internal/platform/openstack/node", "internal/platform/gce/vtpm", "internal/platform/rehearsal")(short)
}

// TestFilesOfForeignNamesAreConfined checks that a file whose name comes from elsewhere (a
// downloaded index, an API server, a cloud, a machine) is opened only by the package confined,
// which follows no link and leaves no folder: every other function that opens files
// is on the list above, with the reason why its paths are trusted.
func TestFilesOfForeignNamesAreConfined(t *testing.T) {
	used := map[string]bool{}
	for _, p := range list(t, "./...") {
		short := p.short()
		if isForTests(short) || machinePackages(short) || short == "internal/store/confined" || under("e2e", "tools", "examples")(short) {
			continue
		}
		for _, file := range p.GoFiles {
			for _, f := range opening(t, filepath.Join(p.Dir, file)) {
				key := listed(short, f.function)
				if key == "" {
					t.Errorf("%s: %s opens a file by its path with %s; use internal/store/confined, or list the function with the reason why no other names the file", f.at, f.function, f.call)
				}
				used[key] = true
			}
		}
	}
	for key := range ownPaths {
		if !used[key] {
			t.Errorf("%s opens no file any more; strike it from the list", key)
		}
	}
}

// listed returns the list entry for a function, or "".
func listed(short, function string) string {
	if short == "" {
		short = "."
	}
	for _, key := range []string{short + " " + function, short, strings.SplitN(short, "/", 2)[0]} {
		if _, ok := ownPaths[key]; ok {
			return key
		}
	}
	if _, ok := ownPaths["internal/store"]; ok && under("internal/store")(short) {
		return "internal/store"
	}
	return ""
}

// fileOpening is a call that opens a file.
type fileOpening struct {
	at             token.Position
	function, call string
}

// opening lists the calls of a source file that open files.
func opening(t *testing.T, file string) []fileOpening {
	t.Helper()
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	packages := map[string]string{}
	for _, i := range tree.Imports {
		full := strings.Trim(i.Path.Value, `"`)
		name := full[strings.LastIndex(full, "/")+1:]
		if i.Name != nil {
			name = i.Name.Name
		}
		packages[name] = full
	}
	var out []fileOpening
	for _, d := range tree.Decls {
		ast.Inspect(d, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := s.X.(*ast.Ident); ok && slices.Contains(openers[packages[x.Name]], s.Sel.Name) {
				out = append(out, fileOpening{fset.Position(s.Pos()), functionName(d), x.Name + "." + s.Sel.Name})
			}
			return true
		})
	}
	return out
}

// functionName returns FUNCTION or TYPE.METHOD.
func functionName(d ast.Decl) string {
	f, ok := d.(*ast.FuncDecl)
	if !ok {
		return "a variable"
	}
	if f.Recv == nil {
		return f.Name.Name
	}
	of := f.Recv.List[0].Type
	if p, ok := of.(*ast.StarExpr); ok {
		of = p.X
	}
	if name, ok := of.(*ast.Ident); ok {
		return name.Name + "." + f.Name.Name
	}
	return f.Name.Name
}
