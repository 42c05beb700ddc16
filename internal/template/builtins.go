package template

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"reflect"
)

// builtins returns the functions that every template has. And and or, which do not evaluate all
// arguments, and call are part of the executor.
func builtins() Funcs {
	return Funcs{
		"and": true, "or": true, "call": true,
		"not":      func(v any) bool { return !truth(reflect.ValueOf(v)) },
		"len":      length,
		"index":    index,
		"slice":    slice,
		"print":    fmt.Sprint,
		"printf":   fmt.Sprintf,
		"println":  fmt.Sprintln,
		"html":     func(args ...any) string { return escapeHTML(joinArgs(args)) },
		"js":       func(args ...any) string { return escapeJS(joinArgs(args)) },
		"urlquery": func(args ...any) string { return url.QueryEscape(joinArgs(args)) },
		"eq":       equalToAny,
		"ne": func(a, b any) (bool, error) {
			same, err := equal(a, b)
			return !same, err
		},
		"lt": ordered(func(order int) bool { return order < 0 }),
		"le": ordered(func(order int) bool { return order <= 0 }),
		"gt": ordered(func(order int) bool { return order > 0 }),
		"ge": ordered(func(order int) bool { return order >= 0 }),
	}
}

// length returns the number of elements of a list or a map, or of bytes in a text.
func length(of any) (int, error) {
	switch v := indirect(reflect.ValueOf(of)); v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len(), nil
	}
	return 0, fmt.Errorf("%s has no length", kindOf(of))
}

// kindOf names the kind of a value in the words of its users.
func kindOf(v any) string { return Kind(reflect.TypeOf(v)) }

// Kind names the kind of a type in the words of a template's users: a number, a list.
func Kind(t reflect.Type) string {
	if t == nil {
		return "nil"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return Kind(t.Elem())
	case reflect.Bool:
		return "a boolean"
	case reflect.String:
		return "a text"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map:
		return "a map"
	case reflect.Func:
		return "a function"
	case reflect.Struct:
		return "an object"
	}
	if isNumber(reflect.Zero(t)) {
		return "a number"
	}
	return "a " + t.String()
}

// index follows keys into lists and maps. For a missing key in a map, it returns the zero value.
func index(in any, keys ...any) (any, error) {
	v := indirect(reflect.ValueOf(in))
	if !v.IsValid() {
		return nil, errors.New("nil is neither a list nor a map")
	}
	for _, key := range keys {
		k := indirect(reflect.ValueOf(key))
		switch v.Kind() {
		case reflect.Array, reflect.Slice, reflect.String:
			i, err := convert(k, reflect.TypeFor[int]())
			if err != nil {
				return nil, fmt.Errorf("the index: %w", err)
			}
			if i.Int() < 0 || i.Int() >= int64(v.Len()) {
				return nil, fmt.Errorf("there is no element %v of %d", key, v.Len())
			}
			v = v.Index(int(i.Int()))
		case reflect.Map:
			k, err := convert(k, v.Type().Key())
			if err != nil {
				return nil, fmt.Errorf("the key: %w", err)
			}
			if found := v.MapIndex(k); found.IsValid() {
				v = found
			} else {
				v = reflect.Zero(v.Type().Elem())
			}
		default:
			return nil, fmt.Errorf("%s is neither a list nor a map", kindOf(in))
		}
		v = elem(v)
	}
	if !v.IsValid() {
		return nil, nil
	}
	return v.Interface(), nil
}

// slice returns a part of a list or a text: from the first bound to the second one, with
// the capacity up to the third one.
func slice(of any, bounds ...int) (any, error) {
	v := indirect(reflect.ValueOf(of))
	if v.Kind() != reflect.Slice && v.Kind() != reflect.String {
		return nil, fmt.Errorf("%s is neither a list nor a text", kindOf(of))
	}
	most := v.Len()
	if v.Kind() == reflect.Slice {
		most = v.Cap()
	}
	b := []int{0, v.Len(), most}
	if len(bounds) > len(b) || len(bounds) == len(b) && v.Kind() == reflect.String {
		return nil, fmt.Errorf("%s cannot be cut at %d bounds", kindOf(of), len(bounds))
	}
	copy(b, bounds)
	if b[0] < 0 || b[0] > b[1] || b[1] > b[2] || b[2] > most {
		return nil, fmt.Errorf("there is no part %v of %d elements", bounds, v.Len())
	}
	if v.Kind() == reflect.String {
		return v.Slice(b[0], b[1]).Interface(), nil
	}
	return v.Slice3(b[0], b[1], b[2]).Interface(), nil
}

// elem returns what an interface contains, or the value itself.
func elem(v reflect.Value) reflect.Value {
	if v.Kind() == reflect.Interface {
		return v.Elem()
	}
	return v
}

// equalToAny reports whether a value equals one of the others.
func equalToAny(a any, others ...any) (bool, error) {
	if len(others) == 0 {
		return false, fmt.Errorf("there is nothing to compare with")
	}
	for _, b := range others {
		if same, err := equal(a, b); err != nil || same {
			return same, err
		}
	}
	return false, nil
}

// equal compares texts, numbers and booleans of any named types, and other values of one type by
// ==.
func equal(a, b any) (bool, error) {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	switch {
	case isNil(x) || isNil(y):
		return isNil(x) == isNil(y), nil
	case x.Kind() == reflect.Bool && y.Kind() == reflect.Bool:
		return x.Bool() == y.Bool(), nil
	}
	if order, ok := compare(x, y); ok {
		return order == 0, nil
	}
	if x.Type() == y.Type() && x.Comparable() {
		return a == b, nil
	}
	return false, fmt.Errorf("%s and %s cannot be compared", kindOf(a), kindOf(b))
}

// isNil reports whether a value is nil.
func isNil(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Chan, reflect.Func, reflect.Map, reflect.Pointer, reflect.Slice:
		return v.IsNil()
	}
	return false
}

// compare orders two texts or two numbers.
func compare(x, y reflect.Value) (order int, ok bool) {
	switch {
	case x.Kind() == reflect.String && y.Kind() == reflect.String:
		return cmp.Compare(x.String(), y.String()), true
	case x.CanInt() && y.CanInt():
		return cmp.Compare(x.Int(), y.Int()), true
	case x.CanUint() && y.CanUint():
		return cmp.Compare(x.Uint(), y.Uint()), true
	case x.CanInt() && y.CanUint():
		if x.Int() < 0 {
			return -1, true
		}
		return cmp.Compare(uint64(x.Int()), y.Uint()), true
	case x.CanUint() && y.CanInt():
		order, ok := compare(y, x)
		return -order, ok
	case isNumber(x) && isNumber(y):
		return cmp.Compare(float(x), float(y)), true
	}
	return 0, false
}

// float returns a number as a float64.
func float(v reflect.Value) float64 { return v.Convert(reflect.TypeFor[float64]()).Float() }

// ordered returns a function that compares two values, and reports whether their order satisfies a
// condition.
func ordered(holds func(order int) bool) func(a, b any) (bool, error) {
	return func(a, b any) (bool, error) {
		order, ok := compare(reflect.ValueOf(a), reflect.ValueOf(b))
		if !ok {
			return false, fmt.Errorf("%s and %s cannot be compared", kindOf(a), kindOf(b))
		}
		return holds(order), nil
	}
}
