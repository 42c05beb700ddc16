package template

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"text/template/parse"
)

// failure carries an error through a panic.
type failure struct{ error }

// variable is a variable of a template.
type variable struct {
	name  string
	value reflect.Value
}

// maxDepth limits how deeply templates may call templates.
const maxDepth = 1000

// state is the state of executing one tree.
type state struct {
	template *Template
	tree     *parse.Tree
	out      *strings.Builder
	vars     []variable // innermost last
	depth    int
}

// fail stops the execution with an error that names the place in the template.
func (s *state) fail(at parse.Node, format string, args ...any) {
	location, context := s.tree.ErrorContext(at)
	panic(failure{fmt.Errorf("template: %s: at <%s>: %w", location, context, fmt.Errorf(format, args...))})
}

// flow is how the execution of a node ended.
type flow int

const (
	onward    flow = iota
	broken         // by a break
	continued      // by a continue
)

// walk executes a node, and writes its text.
func (s *state) walk(dot reflect.Value, n parse.Node) flow {
	switch n := n.(type) {
	case *parse.ListNode:
		for _, each := range n.Nodes {
			if f := s.walk(dot, each); f != onward {
				return f
			}
		}
	case *parse.TextNode:
		s.out.Write(n.Text)
	case *parse.ActionNode:
		if v := s.pipe(dot, n.Pipe); len(n.Pipe.Decl) == 0 {
			s.print(n, v)
		}
	case *parse.IfNode:
		return s.branch(&n.BranchNode, dot, false)
	case *parse.WithNode:
		return s.branch(&n.BranchNode, dot, true)
	case *parse.RangeNode:
		return s.loop(n, dot)
	case *parse.BreakNode:
		return broken
	case *parse.ContinueNode:
		return continued
	case *parse.TemplateNode:
		s.call(dot, n)
	case *parse.CommentNode:
	default:
		s.fail(n, "%s is not supported", n)
	}
	return onward
}

// branch executes an if or a with; in the list of a with, dot is the value.
func (s *state) branch(n *parse.BranchNode, dot reflect.Value, with bool) flow {
	defer s.scope()()
	v := s.pipe(dot, n.Pipe)
	switch {
	case truth(v) && with:
		return s.walk(v, n.List)
	case truth(v):
		return s.walk(dot, n.List)
	case n.ElseList != nil:
		return s.walk(dot, n.ElseList)
	}
	return onward
}

// scope starts a block; the function that it returns ends the block and drops its variables.
func (s *state) scope() func() {
	mark := len(s.vars)
	return func() { s.vars = s.vars[:mark] }
}

// loop executes a range. In the else list, its variables have the value of the pipeline.
func (s *state) loop(n *parse.RangeNode, dot reflect.Value) flow {
	defer s.scope()()
	mark := len(s.vars)
	over := indirect(s.pipe(dot, n.Pipe))
	empty := true
	for key, element := range s.elements(n, over) {
		empty = false
		s.vars = s.vars[:mark]
		switch d := n.Pipe.Decl; len(d) {
		case 1:
			s.bind(n.Pipe, d[0], element)
		case 2:
			s.bind(n.Pipe, d[0], key)
			s.bind(n.Pipe, d[1], element)
		}
		if s.walk(element, n.List) == broken {
			break
		}
	}
	if empty && n.ElseList != nil && s.walk(dot, n.ElseList) == continued {
		return continued // for the enclosing loop; as in text/template, a break ends this one
	}
	return onward
}

// elements returns the keys and elements of what a range iterates over.
func (s *state) elements(n *parse.RangeNode, over reflect.Value) iter.Seq2[reflect.Value, reflect.Value] {
	switch {
	case !over.IsValid():
		return func(func(_, _ reflect.Value) bool) {}
	case over.Kind() == reflect.Slice || over.Kind() == reflect.Array:
		return over.Seq2()
	case over.Kind() == reflect.Map:
		return sorted(over)
	case over.CanInt() || over.CanUint():
		if len(n.Pipe.Decl) > 1 {
			s.fail(n, "range over a number has one variable, not %d", len(n.Pipe.Decl))
		}
		return func(yield func(_, _ reflect.Value) bool) {
			over.Seq()(func(i reflect.Value) bool { return yield(reflect.Value{}, i) })
		}
	}
	s.fail(n, "range cannot iterate over %s", Kind(over.Type()))
	return nil
}

// sorted returns the entries of a map in the order of its keys.
func sorted(m reflect.Value) iter.Seq2[reflect.Value, reflect.Value] {
	keys := slices.SortedFunc(slices.Values(m.MapKeys()), func(a, b reflect.Value) int {
		order, _ := compare(elem(a), elem(b))
		return order
	})
	return func(yield func(_, _ reflect.Value) bool) {
		for _, k := range keys {
			if !yield(k, m.MapIndex(k)) {
				return
			}
		}
	}
}

// call executes a template that the template defines.
func (s *state) call(dot reflect.Value, n *parse.TemplateNode) {
	tree := s.template.trees[n.Name]
	switch {
	case tree == nil:
		s.fail(n, "%w", &UndefinedError{n.Name})
	case s.depth == maxDepth:
		s.fail(n, "templates call each other more than %d deep", maxDepth)
	}
	s.template.run(s.out, tree, s.pipe(dot, n.Pipe), s.depth+1)
}

// print writes a value.
func (s *state) print(at parse.Node, v reflect.Value) {
	text, ok := printable(v)
	if !ok {
		s.fail(at, "a %s cannot be printed", v.Type())
	}
	fmt.Fprint(s.out, text)
}

// printable returns what is printed for a value: the value itself or what a pointer leads to.
// Functions and channels cannot be printed.
func printable(v reflect.Value) (text any, ok bool) {
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.CanAddr() && reflect.PointerTo(v.Type()).Implements(reflect.TypeFor[fmt.Stringer]()) {
		v = v.Addr()
	}
	if !v.IsValid() {
		return "<no value>", true
	}
	return v.Interface(), v.Kind() != reflect.Func && v.Kind() != reflect.Chan
}
