// Package tree reads and changes decoded JSON: objects whose fields are known only from the
// description of an API.
//
// It must not know what the fields mean.
package tree

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Object and List are JSON values, with int64 and float64 for numbers.
type (
	Object = map[string]any
	List   = []any
)

// Plain replaces json.Number in a value by int64, or else by float64.
func Plain(v any) any {
	switch x := v.(type) {
	case Object:
		for k, sub := range x {
			x[k] = Plain(sub)
		}
	case List:
		for i, sub := range x {
			x[i] = Plain(sub)
		}
	case json.Number:
		if n, err := x.Int64(); err == nil {
			return n
		}
		f, _ := x.Float64() // a number in JSON is one
		return f
	}
	return v
}

// Decode decodes one JSON value, with json.Number for numbers. No text is nil.
func Decode(raw []byte) (any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one value")
	}
	return v, nil
}

// Clone returns a deep copy of a value. Nil becomes an empty value.
func Clone[V any](v V) V {
	c, _ := deepCopy(v).(V) // a copy has the type of the original
	return c
}

func deepCopy(v any) any {
	switch x := v.(type) {
	case Object:
		out := make(Object, len(x))
		for k, sub := range x {
			out[k] = deepCopy(sub)
		}
		return out
	case List:
		out := make(List, len(x))
		for i, sub := range x {
			out[i] = deepCopy(sub)
		}
		return out
	}
	return v
}

// Equal reports whether two values are the same.
func Equal(a, b any) bool { return reflect.DeepEqual(a, b) }

// Text returns a string field, or "".
func Text(o Object, field string) string {
	s, _ := o[field].(string)
	return s
}

// Bool returns a boolean field, or false.
func Bool(o Object, field string) bool {
	b, _ := o[field].(bool)
	return b
}

// Number returns an integer field, or 0.
func Number(o Object, field string) int64 {
	n, _ := o[field].(int64)
	return n
}

// Sub returns an object field, or nil.
func Sub(o Object, field string) Object {
	m, _ := o[field].(Object)
	return m
}

// Items returns a list field, or nil.
func Items(o Object, field string) List {
	items, _ := o[field].(List)
	return items
}

// Subs returns the objects in a list field.
func Subs(o Object, field string) []Object {
	var out []Object
	for _, item := range Items(o, field) {
		if m, ok := item.(Object); ok {
			out = append(out, m)
		}
	}
	return out
}

// Texts returns the strings in a list field.
func Texts(o Object, field string) []string {
	var out []string
	for _, item := range Items(o, field) {
		if s, ok := item.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// ListOf returns values as a list.
func ListOf[V any](items []V) List {
	out := List{}
	for _, item := range items {
		out = append(out, item)
	}
	return out
}

// SetTexts sets a list, or removes the field if the list is empty.
func SetTexts(o Object, field string, items []string) {
	if len(items) == 0 {
		delete(o, field)
		return
	}
	o[field] = ListOf(items)
}

// SetDefault sets a field if it is missing.
func SetDefault(o Object, field string, v any) {
	if _, there := o[field]; !there {
		o[field] = v
	}
}

// SetDefaults sets the missing fields.
func SetDefaults(o, usual Object) {
	for field, v := range usual {
		SetDefault(o, field, v)
	}
}

// Visit calls f for each existing field that matches a path, such as
// networkInterfaces[].subnetwork, with the object that contains it, its name, and its location for
// messages.
func Visit(o Object, path, at string, f func(parent Object, field, at string) error) error {
	name, rest, deeper := strings.Cut(path, ".")
	name, many := strings.CutSuffix(name, "[]")
	if many && !deeper {
		items := Items(o, name)
		for i := range items {
			held := Object{"": items[i]}
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
		if inner := Sub(o, name); inner != nil {
			return Visit(inner, rest, at+"."+name, f)
		}
		return nil
	}
	for i, item := range Subs(o, name) {
		if err := Visit(item, rest, fmt.Sprintf("%s.%s[%d]", at, name, i), f); err != nil {
			return err
		}
	}
	return nil
}

// Has reports whether a field that matches a path has that value.
func Has(o Object, path string, value any) bool {
	found := false
	_ = Visit(o, path, "", func(parent Object, field, _ string) error { // the callback returns no error
		found = found || Equal(parent[field], value)
		return nil
	})
	return found
}

// MergePatch applies a patch to an object: objects are merged, null removes a field, and everything
// else, including lists, is replaced.
func MergePatch(o, patch Object) Object {
	out := Clone(o)
	for k, v := range patch {
		inner, isObject := v.(Object)
		switch held := Sub(out, k); {
		case v == nil:
			delete(out, k)
		case isObject:
			out[k] = MergePatch(held, inner)
		default:
			out[k] = withoutNulls(v)
		}
	}
	return out
}

// withoutNulls returns a copy of a value without null fields.
func withoutNulls(v any) any {
	switch x := v.(type) {
	case Object:
		return MergePatch(nil, x)
	case List:
		out := List{}
		for _, item := range x {
			out = append(out, withoutNulls(item))
		}
		return out
	}
	return v
}
