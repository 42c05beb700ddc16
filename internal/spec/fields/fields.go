// Package fields visits the fields of a spec.
//
// It must not know any field.
package fields

import (
	"fmt"
	"reflect"
	"strings"
)

// Each visits the fields of a struct and of nested structs, including items of lists; path is
// v's path. It does not enter a field for which visit returns false.
func Each(path string, v reflect.Value, visit func(path string, f reflect.StructField, v reflect.Value) bool) {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return
		}
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			Each(fmt.Sprintf("%s[%d]", path, i), v.Index(i), visit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.IsExported() && name != "" && name != "-" && visit(path+"."+name, f, v.Field(i)) {
				Each(path+"."+name, v.Field(i), visit)
			}
		}
	}
}
