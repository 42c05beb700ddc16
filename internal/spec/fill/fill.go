// Package fill sets or replaces empty values of a spec, and no others.
//
// It must not know what the values mean.
package fill

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

// Value sets a value if it is empty.
func Value[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}

// Ptr sets a pointer if it is nil.
func Ptr[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}

// List sets a list if it is empty.
func List[T any](p *[]T, value ...T) {
	if len(*p) == 0 {
		*p = value
	}
}

// Quantity sets a quantity if it is nil; text is a constant.
func Quantity(p **resource.Quantity, text string) { Ptr(p, resource.MustParse(text)) }

// Path sets the value at a path of JSON names below a struct if it is empty, and creates the
// structs along the path. The value is JSON; if it is empty, the path is only looked up.
func Path(below any, path string, value []byte) error {
	v := reflect.ValueOf(below).Elem()
	for name := range strings.SplitSeq(path, ".") {
		for v.Kind() == reflect.Pointer {
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		i := field(v.Type(), name)
		if i < 0 {
			return fmt.Errorf("%s has no field %s", v.Type(), name)
		}
		v = v.Field(i)
	}
	if len(value) == 0 || !v.IsZero() {
		return nil
	}
	if err := yaml.UnmarshalStrict(value, v.Addr().Interface()); err != nil {
		return fmt.Errorf("read %s: %w", value, err)
	}
	return nil
}

// field returns the index of the field with a JSON name, or -1.
func field(t reflect.Type, name string) int {
	if t.Kind() != reflect.Struct {
		return -1
	}
	for i := range t.NumField() {
		if tag, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); tag == name {
			return i
		}
	}
	return -1
}

// Or returns what p points to, or otherwise if it is nil.
func Or[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

// Ensure returns what p points to, which is created if absent.
func Ensure[T any](p **T) *T {
	if *p == nil {
		*p = new(T)
	}
	return *p
}

// Overlay returns a copy of base with everything that over sets: maps are merged by key, lists are
// replaced.
func Overlay[T any](base, over *T) *T {
	out := new(T)
	for _, layer := range []*T{base, over} {
		if layer == nil {
			continue
		}
		data, err := json.Marshal(layer)
		if err == nil {
			err = json.Unmarshal(data, out)
		}
		if err != nil { // cannot fail for a spec that was read from JSON
			panic(fmt.Sprintf("overlay %T: %v", out, err))
		}
	}
	return out
}
