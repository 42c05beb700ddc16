// Package template executes templates in the language of text/template, apart from
// methods: a value offers functions by name instead (see Object).
//
// text/template looks up methods by names that only the template knows, so the linker
// has to keep every exported method of every type in a program that links it. In kops
// that doubled the size of the binary. The parser is the standard library's own.
// Arguments are converted between types of texts, and between types of whole numbers.
// Break, continue, and ranges over channels and functions are not supported.
package template

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"text/template/parse"
)

// Funcs are the functions that a template may call, by name. Each returns a value, or
// a value and an error.
type Funcs map[string]any

// Object is a value whose functions a template calls as if they were methods:
// {{ .Name argument }}.
type Object interface {
	// TemplateFunc returns the function of that name, or nil.
	TemplateFunc(name string) any
}

// Template is a parsed template. It is safe for concurrent use.
type Template struct {
	name  string
	trees map[string]*parse.Tree
	funcs Funcs
}

// Parse reads a template, which may call the functions and those that every template has.
func Parse(name, text string, funcs Funcs) (*Template, error) {
	t := (&Template{name: name, trees: map[string]*parse.Tree{}, funcs: builtins()}).With(funcs)
	if _, err := parse.New(name).Parse(text, "", "", t.trees, t.funcs); err != nil {
		return nil, err
	}
	return t, nil
}

// Name returns the name of the template.
func (t *Template) Name() string { return t.name }

// With returns the template with some of its functions replaced.
func (t *Template) With(funcs Funcs) *Template {
	all := maps.Clone(t.funcs)
	maps.Copy(all, funcs)
	return &Template{name: t.name, trees: t.trees, funcs: all}
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
		return "", fmt.Errorf("template %s: %q is not defined", t.name, name)
	}
	var b strings.Builder
	t.run(&b, tree, reflect.ValueOf(data), 0)
	return b.String(), nil
}

// run writes the text of a tree.
func (t *Template) run(b *strings.Builder, tree *parse.Tree, data reflect.Value, depth int) {
	s := &state{template: t, tree: tree, out: b, vars: []variable{{"$", data}}, depth: depth}
	s.walk(data, tree.Root)
}

// failure carries an error out of an execution.
type failure struct{ error }

// variable is a variable of a template.
type variable struct {
	name  string
	value reflect.Value
}

// maxDepth bounds how deeply templates call templates.
const maxDepth = 1000

// state is the execution of one tree.
type state struct {
	template *Template
	tree     *parse.Tree
	out      *strings.Builder
	vars     []variable // innermost last
	depth    int
}

// fail ends the execution with an error that names the place in the template.
func (s *state) fail(at parse.Node, format string, args ...any) {
	location, context := s.tree.ErrorContext(at)
	panic(failure{fmt.Errorf("template: %s: at <%s>: %w", location, context, fmt.Errorf(format, args...))})
}

// walk writes the text of a node.
func (s *state) walk(dot reflect.Value, n parse.Node) {
	switch n := n.(type) {
	case *parse.ListNode:
		for _, each := range n.Nodes {
			s.walk(dot, each)
		}
	case *parse.TextNode:
		s.out.Write(n.Text)
	case *parse.ActionNode:
		if v := s.pipe(dot, n.Pipe); len(n.Pipe.Decl) == 0 {
			s.print(n, v)
		}
	case *parse.IfNode:
		s.branch(&n.BranchNode, dot, false)
	case *parse.WithNode:
		s.branch(&n.BranchNode, dot, true)
	case *parse.RangeNode:
		s.loop(&n.BranchNode, dot)
	case *parse.TemplateNode:
		s.call(dot, n)
	case *parse.CommentNode:
	default:
		s.fail(n, "%s is not supported", n)
	}
}

// branch executes an if or a with, whose list sees the value as dot.
func (s *state) branch(n *parse.BranchNode, dot reflect.Value, with bool) {
	defer s.scope()()
	v := s.pipe(dot, n.Pipe)
	switch {
	case !truth(v):
		if n.ElseList != nil {
			s.walk(dot, n.ElseList)
		}
	case with:
		s.walk(v, n.List)
	default:
		s.walk(dot, n.List)
	}
}

// scope starts a block; the function that it returns ends it and drops its variables.
func (s *state) scope() func() {
	mark := len(s.vars)
	return func() { s.vars = s.vars[:mark] }
}

// loop executes a range.
func (s *state) loop(n *parse.BranchNode, dot reflect.Value) {
	defer s.scope()()
	mark := len(s.vars)
	over := indirect(s.pipe(dot, n.Pipe))
	some := false
	one := func(key, element reflect.Value) {
		some = true
		s.vars = s.vars[:mark]
		switch d := n.Pipe.Decl; {
		case n.Pipe.IsAssign && len(d) > 0:
			s.fail(n, "a range that assigns to a variable is not supported")
		case len(d) == 1:
			s.vars = append(s.vars, variable{d[0].Ident[0], element})
		case len(d) == 2:
			s.vars = append(s.vars, variable{d[0].Ident[0], key}, variable{d[1].Ident[0], element})
		}
		s.walk(element, n.List)
	}
	switch {
	case !over.IsValid():
	case over.Kind() == reflect.Slice || over.Kind() == reflect.Array:
		for i := range over.Len() {
			one(reflect.ValueOf(i), over.Index(i))
		}
	case over.Kind() == reflect.Map && over.Type().Key().Kind() == reflect.String:
		for _, k := range sortedKeys(over) {
			one(k, over.MapIndex(k))
		}
	default:
		s.fail(n, "range cannot iterate over a %s", over.Type())
	}
	if !some && n.ElseList != nil {
		s.walk(dot, n.ElseList)
	}
}

// call executes a template that the template defines.
func (s *state) call(dot reflect.Value, n *parse.TemplateNode) {
	tree := s.template.trees[n.Name]
	switch {
	case tree == nil:
		s.fail(n, "template %q is not defined", n.Name)
	case s.depth == maxDepth:
		s.fail(n, "templates call each other more than %d deep", maxDepth)
	}
	s.template.run(s.out, tree, s.pipe(dot, n.Pipe), s.depth+1)
}

// print writes a value, or what a pointer leads to.
func (s *state) print(at parse.Node, v reflect.Value) {
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.CanAddr() && reflect.PointerTo(v.Type()).Implements(reflect.TypeFor[fmt.Stringer]()) {
		v = v.Addr()
	}
	switch {
	case !v.IsValid():
		s.out.WriteString("<no value>")
	case v.Kind() == reflect.Func || v.Kind() == reflect.Chan:
		s.fail(at, "a %s cannot be printed", v.Type())
	default:
		fmt.Fprint(s.out, v.Interface())
	}
}
