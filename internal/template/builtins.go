package template

import (
	"cmp"
	"fmt"
	"reflect"
)

// builtins are the functions that every template has. And and or, which do not evaluate
// all arguments, are the executor's own.
func builtins() Funcs {
	return Funcs{
		"and": true, "or": true,
		"not":    func(v any) bool { return !truth(reflect.ValueOf(v)) },
		"len":    length,
		"index":  index,
		"printf": fmt.Sprintf,
		"eq":     equalToAny,
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

// length is the number of elements of a list or a map, or of bytes in a text.
func length(of any) (int, error) {
	switch v := indirect(reflect.ValueOf(of)); v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len(), nil
	}
	return 0, fmt.Errorf("a %T has no length", of)
}

// index follows keys into lists and maps. A map without the key gives its zero value.
func index(in any, keys ...any) (any, error) {
	v := indirect(reflect.ValueOf(in))
	for _, key := range keys {
		k := indirect(reflect.ValueOf(key))
		switch v.Kind() {
		case reflect.Array, reflect.Slice, reflect.String:
			if !k.CanInt() || k.Int() < 0 || k.Int() >= int64(v.Len()) {
				return nil, fmt.Errorf("there is no element %v of %d", key, v.Len())
			}
			v = v.Index(int(k.Int()))
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
			return nil, fmt.Errorf("a %T is neither a list nor a map", in)
		}
		v = elem(v)
	}
	if !v.IsValid() {
		return nil, nil
	}
	return v.Interface(), nil
}

// elem is what an interface holds, or the value itself.
func elem(v reflect.Value) reflect.Value {
	if v.Kind() == reflect.Interface {
		return v.Elem()
	}
	return v
}

// equalToAny reports whether a value equals one of others.
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
	case !x.IsValid() || !y.IsValid():
		return x.IsValid() == y.IsValid(), nil
	case x.Kind() == reflect.Bool && y.Kind() == reflect.Bool:
		return x.Bool() == y.Bool(), nil
	}
	if order, ok := compare(x, y); ok {
		return order == 0, nil
	}
	if x.Type() == y.Type() && x.Comparable() {
		return a == b, nil
	}
	return false, fmt.Errorf("a %T and a %T cannot be compared", a, b)
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
	case x.CanFloat() && y.CanFloat():
		return cmp.Compare(x.Float(), y.Float()), true
	}
	return 0, false
}

// ordered returns a function that compares two values.
func ordered(holds func(order int) bool) func(a, b any) (bool, error) {
	return func(a, b any) (bool, error) {
		order, ok := compare(reflect.ValueOf(a), reflect.ValueOf(b))
		if !ok {
			return false, fmt.Errorf("a %T and a %T cannot be compared", a, b)
		}
		return holds(order), nil
	}
}
