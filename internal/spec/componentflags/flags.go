// Package componentflags turns a component's configuration into the flags of its command line,
// according to the `flag` tags of the fields.
//
// It must not know any component: the tags name the flags.
package componentflags

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// tag is a field's `flag` tag: a name, then ",repeat" for lists with one flag per element, then "
// (empty=V)" for the value that means "not set".
type tag struct {
	name   string
	repeat bool
	empty  string
}

func parseTag(text string) tag {
	var t tag
	if head, rest, ok := strings.Cut(text, " (empty="); ok {
		text, t.empty = head, strings.TrimSuffix(rest, ")")
	}
	t.name, t.repeat = strings.CutSuffix(text, ",repeat")
	return t
}

// Flags returns the flags, sorted, of a struct or of a pointer to one.
//
// Nil values and empty texts, lists and maps yield no flag. Numbers and booleans that are not
// pointers always yield one, unless they have the tag's empty value. Lists are joined by commas, or
// repeated; maps are written as k=v, sorted and joined by commas; durations are written as in Go,
// quantities as decimal numbers. Fields without a tag yield the flags of the struct that they hold,
// if any; "-" yields none.
func Flags(config any) []string {
	var out []string
	collect(reflect.ValueOf(config), &out)
	slices.Sort(out)
	return out
}

func collect(v reflect.Value, out *[]string) {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return
		}
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct || isScalar(v) {
		return
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		text, tagged := f.Tag.Lookup("flag")
		switch {
		case !f.IsExported() || text == "-":
		case !tagged:
			collect(v.Field(i), out)
		default:
			*out = append(*out, field(parseTag(text), v.Field(i))...)
		}
	}
}

// field returns the flags of one field.
func field(t tag, v reflect.Value) []string {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	switch {
	case isScalar(v):
	case v.Kind() == reflect.Slice && t.repeat:
		var flags []string
		for i := range v.Len() {
			flags = append(flags, "--"+t.name+"="+scalar(v.Index(i)))
		}
		return flags
	case v.Kind() == reflect.Slice:
		return one(t, join(v))
	case v.Kind() == reflect.Map:
		return one(t, pairs(v))
	}
	if s := scalar(v); s != "" {
		return one(t, s)
	}
	return nil
}

func one(t tag, value string) []string {
	if value == "" || value == t.empty {
		return nil
	}
	return []string{"--" + t.name + "=" + value}
}

func join(v reflect.Value) string {
	items := make([]string, v.Len())
	for i := range items {
		items[i] = scalar(v.Index(i))
	}
	return strings.Join(items, ",")
}

func pairs(v reflect.Value) string {
	var items []string
	for _, k := range v.MapKeys() {
		items = append(items, fmt.Sprint(k.Interface())+"="+scalar(v.MapIndex(k)))
	}
	slices.Sort(items)
	return strings.Join(items, ",")
}

func isScalar(v reflect.Value) bool {
	switch v.Interface().(type) {
	case metav1.Duration, resource.Quantity:
		return true
	}
	return false
}

func scalar(v reflect.Value) string {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	switch x := v.Interface().(type) {
	case metav1.Duration:
		return x.Duration.String()
	case resource.Quantity:
		return strconv.FormatFloat(x.AsApproximateFloat64(), 'f', -1, 64)
	default:
		return fmt.Sprint(x)
	}
}
