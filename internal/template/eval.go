package template

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"text/template/parse"
)

// pipe returns the value of a pipeline, and declares or sets its variables.
func (s *state) pipe(dot reflect.Value, p *parse.PipeNode) reflect.Value {
	if p == nil {
		return reflect.Value{}
	}
	var v reflect.Value
	var last []reflect.Value // the value of the previous command
	for _, c := range p.Cmds {
		v = s.command(dot, c, last)
		v = elem(v)
		last = []reflect.Value{v}
	}
	for _, d := range p.Decl {
		s.bind(p, d, v)
	}
	return v
}

// bind declares or sets a variable of a pipeline.
func (s *state) bind(p *parse.PipeNode, n *parse.VariableNode, v reflect.Value) {
	if p.IsAssign {
		s.variable(n).value = v
	} else {
		s.vars = append(s.vars, variable{n.Ident[0], v})
	}
}

// variable finds the innermost variable with a name.
func (s *state) variable(n *parse.VariableNode) *variable {
	for i := range slices.Backward(s.vars) {
		if s.vars[i].name == n.Ident[0] {
			return &s.vars[i]
		}
	}
	s.fail(n, "there is no variable %s", n.Ident[0])
	return nil
}

// command returns the value of a command. last is the value that is piped into it.
func (s *state) command(dot reflect.Value, c *parse.CommandNode, last []reflect.Value) reflect.Value {
	args := c.Args[1:]
	switch n := c.Args[0].(type) {
	case *parse.IdentifierNode:
		return s.function(dot, c, n.Ident, args, last)
	case *parse.FieldNode:
		return s.fields(dot, dot, n, n.Ident, args, last)
	case *parse.ChainNode:
		return s.fields(dot, s.operand(dot, n.Node), n, n.Field, args, last)
	case *parse.VariableNode:
		return s.fields(dot, s.variable(n).value, n, n.Ident[1:], args, last)
	}
	if len(args)+len(last) > 0 || c.Args[0].Type() == parse.NodeNil {
		s.fail(c, "%s is not a function", c.Args[0])
	}
	return s.operand(dot, c.Args[0])
}

// operand returns the value of an argument.
func (s *state) operand(dot reflect.Value, n parse.Node) reflect.Value {
	switch n := n.(type) {
	case *parse.DotNode:
		return dot
	case *parse.NilNode:
		return reflect.Value{}
	case *parse.PipeNode:
		return s.pipe(dot, n)
	case *parse.BoolNode:
		return reflect.ValueOf(n.True)
	case *parse.StringNode:
		return reflect.ValueOf(n.Text)
	case *parse.NumberNode:
		return s.number(n)
	}
	return s.command(dot, &parse.CommandNode{NodeType: parse.NodeCommand, Pos: n.Position(), Args: []parse.Node{n}}, nil)
}

// number returns a constant: a complex128 or float64 if it is written as one, and otherwise an int.
func (s *state) number(n *parse.NumberNode) reflect.Value {
	literal := strings.ToLower(n.Text)
	hex, char := strings.Contains(literal, "0x"), n.Text[0] == '\''
	switch {
	case n.IsComplex:
		return reflect.ValueOf(n.Complex128)
	case n.IsFloat && !char && (strings.ContainsAny(literal, ".p") || !hex && strings.Contains(literal, "e")):
		return reflect.ValueOf(n.Float64)
	case n.IsInt && int64(int(n.Int64)) == n.Int64:
		return reflect.ValueOf(int(n.Int64))
	}
	s.fail(n, "%s is not a number that templates have", n.Text)
	return reflect.Value{}
}

// fields follows names from a value. The last one receives the arguments.
func (s *state) fields(dot, from reflect.Value, at parse.Node, names []string, args []parse.Node, last []reflect.Value) reflect.Value {
	if len(names) == 0 && len(args)+len(last) > 0 {
		s.fail(at, "%s is not a function", at)
	}
	for i, name := range names {
		if i < len(names)-1 {
			from = s.field(dot, from, at, name, nil, nil)
		} else {
			from = s.field(dot, from, at, name, args, last)
		}
	}
	return from
}

// field returns a function's result, a field of a struct, or an entry of a map.
func (s *state) field(dot, from reflect.Value, at parse.Node, name string, args []parse.Node, last []reflect.Value) reflect.Value {
	if f := s.method(from, name); f != nil {
		return s.invoke(dot, at, name, reflect.ValueOf(f), args, last)
	}
	v := indirect(from)
	switch {
	case !from.IsValid() && s.template.options.MissingKeysAreZero:
		return reflect.Value{}
	case !v.IsValid():
		s.fail(at, "%s of nothing: the value before it is nil", name)
	case len(args)+len(last) > 0:
		s.fail(at, "%s is not a function", name)
	case v.Kind() == reflect.Struct:
		if f, ok := v.Type().FieldByName(name); ok && f.IsExported() {
			got, err := v.FieldByIndexErr(f.Index)
			if err != nil {
				s.fail(at, "%w", err)
			}
			return got
		}
	case v.Kind() == reflect.Map:
		if key, err := convert(reflect.ValueOf(name), v.Type().Key()); err == nil {
			return s.entry(v, key, at)
		}
	}
	s.fail(at, "%s has no field or function %s", Kind(v.Type()), name)
	return reflect.Value{}
}

// entry returns the entry of a map.
func (s *state) entry(m, key reflect.Value, at parse.Node) reflect.Value {
	switch got := m.MapIndex(key); {
	case got.IsValid():
		return got
	case s.template.options.MissingKeysAreZero:
		return reflect.Zero(m.Type().Elem())
	}
	s.fail(at, "%w", &MissingKeyError{Key: key.String()})
	return reflect.Value{}
}

// method returns the function that replaces a method of a value, or nil.
func (s *state) method(v reflect.Value, name string) any {
	v = elem(v)
	if !v.IsValid() || !v.CanInterface() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil
	}
	if o, ok := v.Interface().(Object); ok {
		return o.TemplateFunc(name)
	}
	if s.template.options.Methods != nil {
		return s.template.options.Methods(v.Interface(), name)
	}
	return nil
}

// function calls a function by its name. And and or only evaluate the arguments that they need.
func (s *state) function(dot reflect.Value, at parse.Node, name string, args []parse.Node, last []reflect.Value) reflect.Value {
	switch name {
	case "and", "or":
		return s.decide(dot, at, name, args, last)
	case "call":
		if len(args) == 0 {
			s.fail(at, "call has no argument, and needs a function")
		}
		f := elem(s.operand(dot, args[0]))
		if f.Kind() != reflect.Func || f.IsNil() {
			s.fail(at, "%s is not a function", args[0])
		}
		return s.invoke(dot, at, args[0].String(), f, args[1:], last)
	}
	return s.invoke(dot, at, name, reflect.ValueOf(s.template.funcs[name]), args, last)
}

// decide returns the first argument that decides an and or an or, or otherwise the last one.
func (s *state) decide(dot reflect.Value, at parse.Node, name string, args []parse.Node, last []reflect.Value) (v reflect.Value) {
	if len(args)+len(last) == 0 {
		s.fail(at, "%s has no arguments, and needs one", name)
	}
	for _, a := range args {
		if v = s.operand(dot, a); truth(v) == (name == "or") {
			return v
		}
	}
	if len(last) > 0 {
		return last[0]
	}
	return v
}

// invoke calls a function with arguments, and fails with its error.
func (s *state) invoke(dot reflect.Value, at parse.Node, name string, f reflect.Value, args []parse.Node, last []reflect.Value) reflect.Value {
	t := f.Type()
	given := make([]reflect.Value, 0, len(args)+1)
	for _, a := range args {
		given = append(given, s.operand(dot, a))
	}
	given = append(given, last...)
	fixed, atLeast := t.NumIn(), ""
	if t.IsVariadic() {
		fixed--
		atLeast = "at least "
	}
	if len(given) < fixed || len(given) > fixed && !t.IsVariadic() {
		s.fail(at, "%s has %d arguments, and needs %s%d", name, len(given), atLeast, fixed)
	}
	for i := range given {
		var wanted reflect.Type
		if i < fixed {
			wanted = t.In(i)
		} else {
			wanted = t.In(fixed).Elem()
		}
		v, err := convert(given[i], wanted)
		if err != nil {
			s.fail(at, "argument %d of %s: %w", i+1, name, err)
		}
		given[i] = v
	}
	out, err := result(f, given)
	if err != nil {
		s.fail(at, "%s: %w", name, err)
	}
	return elem(out)
}

// result calls a function and returns its value, or its error or panic.
func result(f reflect.Value, args []reflect.Value) (v reflect.Value, err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case error:
			err = r
		default:
			err = fmt.Errorf("%v", r)
		}
	}()
	out := f.Call(args)
	if len(out) == 2 && !out[1].IsNil() {
		return v, out[1].Interface().(error) //nolint:forcetypeassert // Funcs says so
	}
	return out[0], nil
}

// convert converts a value to a type: it returns it unchanged, what a pointer leads to, a pointer
// to it, or the same text or number with another type.
func convert(v reflect.Value, to reflect.Type) (reflect.Value, error) {
	v = elem(v)
	if !v.IsValid() {
		if k := to.Kind(); k == reflect.Interface || k == reflect.Pointer || k == reflect.Map || k == reflect.Slice || k == reflect.Func {
			return reflect.Zero(to), nil
		}
		return v, fmt.Errorf("it is nil, and not %s", Kind(to))
	}
	switch {
	case v.Type().AssignableTo(to):
		return v, nil
	case v.Kind() == reflect.Pointer && v.Type().Elem().AssignableTo(to):
		if v.IsNil() {
			return v, fmt.Errorf("it is nil, and not %s", Kind(to))
		}
		return v.Elem(), nil
	case v.CanAddr() && reflect.PointerTo(v.Type()).AssignableTo(to):
		return v.Addr(), nil
	case v.Kind() == reflect.String && to.Kind() == reflect.String:
		return v.Convert(to), nil
	case isNumber(v) && isNumber(reflect.Zero(to)):
		if c := v.Convert(to); isNegative(c) == isNegative(v) && c.Convert(v.Type()).Equal(v) {
			return c, nil
		}
		return v, fmt.Errorf("%v is not a number of the type %s", v, to)
	}
	return v, fmt.Errorf("it is %s, and not %s", Kind(v.Type()), Kind(to))
}

func isNumber(v reflect.Value) bool { return v.CanInt() || v.CanUint() || v.CanFloat() }

func isNegative(v reflect.Value) bool {
	return v.CanInt() && v.Int() < 0 || v.CanFloat() && v.Float() < 0
}

// indirect follows pointers and interfaces; it is invalid for nil.
func indirect(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	return v
}

// truth reports whether a value is neither zero nor empty. A struct is always true.
func truth(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Invalid:
		return false
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() > 0
	case reflect.Struct:
		return true
	case reflect.Interface:
		return truth(v.Elem())
	}
	return !v.IsZero()
}
