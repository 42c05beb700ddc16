package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// common are the folders that define flags of every program.
var common = []string{"component-base/cli/globalflag", "component-base/compatibility", "component-base/featuregate", "component-base/logs", "component-base/metrics", "component-base/version",
	"apiserver/pkg/util/compatibility", "apiserver/pkg/util/feature", "kubernetes/pkg/features"}

// serving are the folders that define flags of programs that serve HTTPS.
var serving = []string{"apiserver/pkg/server/options", "component-base/config/options", "component-base/tracing"}

// programs are the folders that define additional flags of each program.
var programs = map[string][]string{
	"kube-apiserver": append([]string{"kubernetes/cmd/kube-apiserver/app", "kubernetes/pkg/controlplane", "kubernetes/pkg/kubeapiserver/options",
		"kubernetes/pkg/serviceaccount", "kubernetes/plugin/pkg/admission", "apiserver/pkg/admission", "kube-aggregator/pkg/apiserver"}, serving...),
	"kube-controller-manager": append([]string{"kubernetes/cmd/kube-controller-manager/app", "controller-manager/options", "controller-manager/pkg", "cloud-provider/options"}, serving...),
	"kube-scheduler":          append([]string{"kubernetes/cmd/kube-scheduler/app"}, serving...),
	"kubelet":                 {"kubernetes/cmd/kubelet/app", "kubernetes/pkg/kubelet", "kubernetes/pkg/credentialprovider"},
	"kube-proxy":              {"kubernetes/cmd/kube-proxy/app", "kubernetes/pkg/proxy"},
}

// names returns everything that a release accepts.
func (s source) names() (map[name]bool, error) {
	found := map[name]bool{}
	for program, folders := range programs {
		for _, f := range slices.Concat(common, folders) {
			err := s.parse(f, func(consts map[string]string, file *ast.File) {
				ast.Inspect(file, func(n ast.Node) bool {
					for _, flag := range flagsOf(n, consts) {
						found[name{program, strings.ReplaceAll(flag, "_", "-")}] = true
					}
					return true
				})
			})
			if err != nil {
				return nil, err
			}
		}
	}
	for module := range maps.Keys(s) {
		if err := s.parse(module+"/pkg", func(_ map[string]string, file *ast.File) { gates(file, found) }); err != nil {
			return nil, err
		}
	}
	for _, module := range []string{"client-go/features", "component-base", "controller-manager", "cloud-provider"} {
		if err := s.parse(module, func(_ map[string]string, file *ast.File) { gates(file, found) }); err != nil {
			return nil, err
		}
	}
	for _, f := range []string{"kubernetes/plugin/pkg/admission", "apiserver/pkg/admission/plugin"} {
		if err := s.parse(f, func(_ map[string]string, file *ast.File) { plugins(file, found) }); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// parse visits the files of a folder and its subfolders, each with the string constants of its package.
func (s source) parse(path string, visit func(consts map[string]string, file *ast.File)) error {
	root := s.folder(path)
	err := filepath.WalkDir(root, func(dir string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		files, err := parseFolder(dir)
		if err != nil {
			return err
		}
		consts := map[string]string{}
		for _, f := range files {
			eachConst(f, func(n string, _ ast.Expr, text string) { consts[n] = text })
		}
		for _, f := range files {
			visit(consts, f)
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil // some releases do not have some folders
	}
	return err
}

// parseFolder parses the files of one folder, without tests.
func parseFolder(dir string) ([]*ast.File, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []*ast.File
	for _, e := range entries {
		if e.IsDir() || !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, e.Name()), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("parse %s: %w", e.Name(), err)
		}
		out = append(out, f)
	}
	return out, nil
}

// eachConst visits the string constants of a file.
func eachConst(file *ast.File, visit func(name string, kind ast.Expr, text string)) {
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST && g.Tok != token.VAR {
			continue
		}
		for _, spec := range g.Specs {
			v, ok := spec.(*ast.ValueSpec)
			if !ok {
				continue
			}
			for i, value := range v.Values {
				if text, ok := literal(value); ok && i < len(v.Names) {
					visit(v.Names[i].Name, v.Type, text)
				}
			}
		}
	}
}

// literal returns the value of a string literal.
func literal(e ast.Expr) (string, bool) {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(l.Value)
	return text, err == nil
}

// Names of functions that register a flag, and of flags. The programs accept _ for -.
var (
	registers = regexp.MustCompile(`^(\w*Var(P|PF)?|String|Bool|Int|Int32|Int64|Duration|StringSlice|AddCustomGlobalFlag|(pflagR|r)egister\w*)$`)
	flagName  = regexp.MustCompile(`^[a-z][a-z0-9._-]*$`)
)

// flagsOf returns the names of flags that a call registers. A composed name, such as the flags of
// each back end of the audit log, yields every name that it can be.
func flagsOf(n ast.Node, consts map[string]string) []string {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return nil
	}
	function := ""
	switch f := call.Fun.(type) {
	case *ast.Ident:
		function = f.Name
	case *ast.SelectorExpr:
		function = f.Sel.Name
	}
	if !registers.MatchString(function) {
		return nil
	}
	for _, arg := range call.Args[:min(3, len(call.Args))] {
		switch text := textOf(arg, consts); {
		case strings.Count(text, "%s") == 1:
			return []string{strings.Replace(text, "%s", "log", 1), strings.Replace(text, "%s", "webhook", 1)}
		case flagName.MatchString(text):
			return []string{text}
		}
	}
	return nil
}

// textOf returns the value of a string literal or of a constant of the package, or the format of a composed string.
func textOf(e ast.Expr, consts map[string]string) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := literal(e)
		return text
	case *ast.Ident:
		return consts[e.Name]
	case *ast.SelectorExpr:
		return consts[e.Sel.Name]
	case *ast.CallExpr:
		if f, ok := e.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Sprintf" && len(e.Args) > 0 {
			return textOf(e.Args[0], consts)
		}
	}
	return ""
}

// gates records the feature gates in a file.
func gates(file *ast.File, found map[name]bool) {
	eachConst(file, func(_ string, kind ast.Expr, text string) {
		of := ""
		switch k := kind.(type) {
		case *ast.Ident:
			of = k.Name
		case *ast.SelectorExpr:
			of = k.Sel.Name
		}
		if of == "Feature" {
			found[name{"gate", text}] = true
		}
	})
}

// plugins records the admission plugins in a file.
func plugins(file *ast.File, found map[name]bool) {
	eachConst(file, func(n string, _ ast.Expr, text string) {
		if strings.EqualFold(n, "PluginName") {
			found[name{"plugin", text}] = true
		}
	})
}
