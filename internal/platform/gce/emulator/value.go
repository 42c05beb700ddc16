package emulator

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"reflect"
	"regexp"
	"strings"
	"sync"
)

// pattern returns a function that compiles a regular expression on first use.
func pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// object and list are JSON values, with int64 and float64 for numbers.
type (
	object = map[string]any
	list   = []any
)

// clone returns a deep copy of a value. Nil becomes an empty value.
func clone[V any](v V) V {
	c, _ := deepCopy(v).(V) // a copy has the type of the original
	return c
}

func deepCopy(v any) any {
	switch x := v.(type) {
	case object:
		out := make(object, len(x))
		for k, sub := range x {
			out[k] = deepCopy(sub)
		}
		return out
	case list:
		out := make(list, len(x))
		for i, sub := range x {
			out[i] = deepCopy(sub)
		}
		return out
	}
	return v
}

func isEqual(a, b any) bool { return reflect.DeepEqual(a, b) }

// text returns a string field, or "".
func text(o object, field string) string {
	s, _ := o[field].(string)
	return s
}

func flag(o object, field string) bool {
	b, _ := o[field].(bool)
	return b
}

func number(o object, field string) int64 {
	n, _ := o[field].(int64)
	return n
}

func sub(o object, field string) object {
	m, _ := o[field].(object)
	return m
}

// subs returns the objects in a list field.
func subs(o object, field string) []object {
	items, _ := o[field].(list)
	var out []object
	for _, item := range items {
		if m, ok := item.(object); ok {
			out = append(out, m)
		}
	}
	return out
}

// texts returns the strings in a list field.
func texts(o object, field string) []string {
	items, _ := o[field].(list)
	var out []string
	for _, item := range items {
		if s, ok := item.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

func listOf[V any](items []V) list {
	out := list{}
	for _, item := range items {
		out = append(out, item)
	}
	return out
}

// setDefault sets a field if it is missing.
func setDefault(o object, field string, v any) {
	if _, there := o[field]; !there {
		o[field] = v
	}
}

// setDefaults sets the missing fields.
func setDefaults(o, usual object) {
	for field, v := range usual {
		setDefault(o, field, v)
	}
}

// visit calls f for each existing field that matches a path, such as
// networkInterfaces[].subnetwork, with the object that contains it, its name, and its location for
// messages.
func visit(o object, path, at string, f func(parent object, field, at string) error) error {
	name, rest, deeper := strings.Cut(path, ".")
	name, many := strings.CutSuffix(name, "[]")
	if many && !deeper {
		items, _ := o[name].(list)
		for i := range items {
			held := object{"": items[i]}
			if err := f(held, "", fmt.Sprintf("%s.%s[%d]", at, name, i)); err != nil {
				return err
			}
			items[i] = held[""]
		}
		return nil
	}
	if !deeper {
		if _, there := o[name]; !there {
			return nil
		}
		return f(o, name, at+"."+name)
	}
	if !many {
		if inner := sub(o, name); inner != nil {
			return visit(inner, rest, at+"."+name, f)
		}
		return nil
	}
	for i, item := range subs(o, name) {
		if err := visit(item, rest, fmt.Sprintf("%s.%s[%d]", at, name, i), f); err != nil {
			return err
		}
	}
	return nil
}

// mergePatch applies a patch to an object: objects are merged, null removes a field, and everything
// else, including lists, is replaced.
func mergePatch(o, patch object) object {
	out := clone(o)
	for k, v := range patch {
		inner, isObject := v.(object)
		switch held := sub(out, k); {
		case v == nil:
			delete(out, k)
		case isObject:
			out[k] = mergePatch(held, inner)
		default:
			out[k] = withoutNulls(v)
		}
	}
	return out
}

// withoutNulls returns a copy of a value without null fields.
func withoutNulls(v any) any {
	switch x := v.(type) {
	case object:
		return mergePatch(nil, x)
	case list:
		out := list{}
		for _, item := range x {
			out = append(out, withoutNulls(item))
		}
		return out
	}
	return v
}

// fingerprint returns a digest of values in Google's format: eight bytes in base64.
func fingerprint(values ...any) string {
	sum := fnv.New64a()
	_ = json.NewEncoder(sum).Encode(values) // JSON values can be encoded, and a hash never fails
	text, _ := json.Marshal(sum.Sum(nil))   // base64, as for bytes in JSON
	return strings.Trim(string(text), `"`)
}

// lastPart returns what follows the last separator.
func lastPart(s, separator string) string { return s[strings.LastIndex(s, separator)+1:] }
