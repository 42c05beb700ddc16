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

// pattern returns a regular expression that is compiled when it is first used.
func pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// object and list are values as JSON has them, with int64 and float64 for numbers.
type (
	object = map[string]any
	list   = []any
)

// clone copies a value to its depths. Nil becomes an empty one.
func clone[V any](v V) V {
	c, _ := deep(v).(V) // a copy has the type of what it is of
	return c
}

func deep(v any) any {
	switch x := v.(type) {
	case object:
		out := make(object, len(x))
		for k, sub := range x {
			out[k] = deep(sub)
		}
		return out
	case list:
		out := make(list, len(x))
		for i, sub := range x {
			out[i] = deep(sub)
		}
		return out
	}
	return v
}

func same(a, b any) bool { return reflect.DeepEqual(a, b) }

// text is a field that is a text, or "".
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

// subs are the objects in a field that is a list.
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

// texts are the texts in a field that is a list.
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

// preset sets a field that is not there.
func preset(o object, field string, v any) {
	if _, there := o[field]; !there {
		o[field] = v
	}
}

// presets sets the fields that are not there.
func presets(o, usual object) {
	for field, v := range usual {
		preset(o, field, v)
	}
}

// visit calls f for each place of a path, such as networkInterfaces[].subnetwork, that is
// there, with the object that has it, its last field, and where it is in words.
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

// merged applies a patch to an object: objects are merged, null removes a field, and everything
// else, lists too, is replaced.
func merged(o, patch object) object {
	out := clone(o)
	for k, v := range patch {
		inner, isObject := v.(object)
		switch held := sub(out, k); {
		case v == nil:
			delete(out, k)
		case isObject:
			out[k] = merged(held, inner)
		default:
			out[k] = full(v)
		}
	}
	return out
}

// full is a copy of a value without the fields that are null.
func full(v any) any {
	switch x := v.(type) {
	case object:
		return merged(nil, x)
	case list:
		out := list{}
		for _, item := range x {
			out = append(out, full(item))
		}
		return out
	}
	return v
}

// fingerprint is a digest of values, in the form that Google's have: eight bytes in base64.
func fingerprint(values ...any) string {
	sum := fnv.New64a()
	_ = json.NewEncoder(sum).Encode(values) // values of JSON can be encoded, and a hash takes all
	text, _ := json.Marshal(sum.Sum(nil))   // as bytes are in JSON
	return strings.Trim(string(text), `"`)
}

// last is what is after the last separator.
func last(s, separator string) string { return s[strings.LastIndex(s, separator)+1:] }
