// Package template executes templates in the language of text/template, except for methods: a value
// provides functions by name instead (see Object and Options.Methods).
//
// text/template looks up methods by names that are only known from the template, so the linker has
// to keep every exported method of every type in a program that links it. In kops that doubled the
// size of the binary. The parser is the standard library's own.
//
// It accepts more than text/template, as long as that does not change any output: arguments are
// converted between types of texts and between types of numbers that can represent the value
// exactly, and integers can be compared with other numbers. It does not support ranges over
// channels and functions.
package template

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"text/template/parse"
)

// Funcs are the functions that a template may call, by name. Each returns a value, or
// a value and an error.
type Funcs map[string]any

// Object is a value whose functions a template calls as if they were methods:
// {{ .Name argument }}.
type Object interface {
	// TemplateFunc returns the function with a name, or nil.
	TemplateFunc(name string) any
}

// Template is a parsed template. It is safe for concurrent use.
type Template struct {
	name    string
	trees   map[string]*parse.Tree
	funcs   Funcs
	options Options
}

// Options specify how a template is executed.
type Options struct {
	// MissingKeysAreZero yields the zero value for a missing key in a map. By default the execution
	// fails.
	MissingKeysAreZero bool
	// Methods returns the function that templates call as a method of a value that is
	// not an Object, or nil. It may be nil.
	Methods func(of any, name string) any
}

// UnknownFunctionError reports that a template calls a function that does not exist.
type UnknownFunctionError struct {
	Place    string // file:line:column
	Function string
	Known    []string // the functions that exist
}

// Error returns the message, with the place of the call.
func (e *UnknownFunctionError) Error() string {
	return fmt.Sprintf("template: %s: function %q not defined", e.Place, e.Function)
}

// MissingKeyError reports that a template uses a key that is missing in a map.
type MissingKeyError struct{ Key string }

// Error returns the message, with the key.
func (e *MissingKeyError) Error() string { return fmt.Sprintf("the map has no entry %q", e.Key) }

// UndefinedError reports that a template with a name is not defined.
type UndefinedError struct{ Template string }

// Error returns the message, with the template's name.
func (e *UndefinedError) Error() string { return fmt.Sprintf("template %q is not defined", e.Template) }

// Parse parses a template, which may call the given functions and the built-in ones.
func Parse(name, text string, funcs Funcs) (*Template, error) {
	return (&Template{name: name, funcs: builtins()}).With(funcs).Add(name, text)
}

// Name returns the name of the template.
func (t *Template) Name() string { return t.name }

// With returns the template with some of its functions replaced.
func (t *Template) With(funcs Funcs) *Template {
	out := *t
	out.funcs = maps.Clone(t.funcs)
	maps.Copy(out.funcs, funcs)
	return &out
}

// WithOptions returns the template with other options.
func (t *Template) WithOptions(o Options) *Template {
	out := *t
	out.options = o
	return &out
}

// Add returns the template with an additional text, which defines the template with the given name
// and those of its define and block actions. They replace earlier ones, unless they are empty.
func (t *Template) Add(name, text string) (*Template, error) {
	out, added := *t, map[string]*parse.Tree{}
	tree := parse.New(name)
	tree.Mode = parse.SkipFuncCheck
	if _, err := tree.Parse(text, "", "", added, out.funcs); err != nil {
		return nil, err
	}
	out.trees = maps.Clone(t.trees)
	if out.trees == nil {
		out.trees = map[string]*parse.Tree{}
	}
	for _, name := range slices.Sorted(maps.Keys(added)) {
		if err := out.checkFunctions(added[name]); err != nil {
			return nil, err
		}
		if out.trees[name] == nil || !parse.IsEmptyTree(added[name].Root) {
			out.trees[name] = added[name]
		}
	}
	return &out, nil
}

// checkFunctions returns an error if a tree calls a function that the template does not have.
func (t *Template) checkFunctions(tree *parse.Tree) (err error) {
	visit(tree.Root, func(n *parse.IdentifierNode) {
		if _, ok := t.funcs[n.Ident]; !ok && err == nil {
			place, _ := tree.ErrorContext(n)
			err = &UnknownFunctionError{Place: place, Function: n.Ident, Known: slices.Sorted(maps.Keys(t.funcs))}
		}
	})
	return err
}

// visit calls a function for each identifier below a node.
func visit(n parse.Node, f func(*parse.IdentifierNode)) {
	list := func(l *parse.ListNode) {
		if l != nil {
			visit(l, f)
		}
	}
	pipe := func(p *parse.PipeNode) {
		if p != nil {
			visit(p, f)
		}
	}
	branch := func(b *parse.BranchNode) {
		pipe(b.Pipe)
		list(b.List)
		list(b.ElseList)
	}
	switch n := n.(type) {
	case *parse.IdentifierNode:
		f(n)
	case *parse.ListNode:
		for _, each := range n.Nodes {
			visit(each, f)
		}
	case *parse.PipeNode:
		for _, c := range n.Cmds {
			for _, a := range c.Args {
				visit(a, f)
			}
		}
	case *parse.ChainNode:
		visit(n.Node, f)
	case *parse.ActionNode:
		pipe(n.Pipe)
	case *parse.TemplateNode:
		pipe(n.Pipe)
	case *parse.IfNode:
		branch(&n.BranchNode)
	case *parse.WithNode:
		branch(&n.BranchNode)
	case *parse.RangeNode:
		branch(&n.BranchNode)
	}
}

// Execute returns the text of the template for some data.
func (t *Template) Execute(data any) (string, error) { return t.ExecuteDefined(t.name, data) }

// ExecuteDefined returns the text of a template that t defines, for some data.
func (t *Template) ExecuteDefined(name string, data any) (text string, err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.error
		default:
			panic(r)
		}
	}()
	tree := t.trees[name]
	if tree == nil {
		return "", fmt.Errorf("template: %s: %w", t.name, &UndefinedError{name})
	}
	var b strings.Builder
	t.run(&b, tree, reflect.ValueOf(data), 0)
	return b.String(), nil
}

// run executes a tree, and writes its text.
func (t *Template) run(b *strings.Builder, tree *parse.Tree, data reflect.Value, depth int) {
	s := &state{template: t, tree: tree, out: b, vars: []variable{{"$", data}}, depth: depth}
	s.walk(data, tree.Root)
}
