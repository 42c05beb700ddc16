package compat

import (
	"encoding/json"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"kops.local/kops/api"
)

// sort is the required type of a value.
type sort int

const (
	sortAny    sort = iota
	sortObject      // a map with the fields of the schema
	sortMap         // a map with any keys
	sortList
	sortString
	sortBool
	sortInt
	sortFloat
	sortIntOrString
	sortQuantity
	sortDuration
	sortTime
	sortBytes
)

// String returns what a user has to write.
func (s sort) String() string {
	return [...]string{
		"anything", "a map", "a map", "a list", "a string", "true or false", "a whole number", "a number",
		"a number or a string", "a quantity such as 100m or 64Mi", "a duration such as 30s or 1h30m",
		"a time such as 2026-01-02T03:04:05Z", "base64",
	}[s]
}

// schema defines which values are allowed at one place of a document.
type schema struct {
	sort     sort
	path     string             // the path in v1alpha3: spec.networking.subnets[].cidr; "" if it does not exist there
	fields   map[string]*schema // of an object
	elem     *schema            // of a list or a map
	bits     int                // of a whole number
	unsigned bool               // whether a whole number must not be negative
	enum     []string           // the allowed values of a string; any when empty

	// The rest is set in the schema of v1alpha2 only.

	cloud   api.CloudProviderID      // the field belongs to this cloud
	retired *retirement              // the field no longer exists
	check   func(text string) string // returns what is wrong with a string
}

// typeSorts are the sorts of types that have a textual form.
var typeSorts = map[reflect.Type]sort{
	reflect.TypeFor[resource.Quantity]():  sortQuantity,
	reflect.TypeFor[metav1.Duration]():    sortDuration,
	reflect.TypeFor[metav1.Time]():        sortTime,
	reflect.TypeFor[metav1.MicroTime]():   sortTime,
	reflect.TypeFor[intstr.IntOrString](): sortIntOrString,
	reflect.TypeFor[[]byte]():             sortBytes,
}

// schemaOf derives the schema of v1alpha3 from a Go type.
func schemaOf(t reflect.Type, path string) *schema {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	s := &schema{path: path}
	if known, ok := typeSorts[t]; ok {
		s.sort = known
		return s
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return s
	}
	switch t.Kind() {
	case reflect.Struct:
		s.sort, s.fields = sortObject, map[string]*schema{}
		s.addFields(t)
	case reflect.Map:
		s.sort, s.elem = sortMap, schemaOf(t.Elem(), path+"[]")
	case reflect.Slice:
		s.sort, s.elem = sortList, schemaOf(t.Elem(), path+"[]")
	case reflect.String:
		s.sort = sortString
	case reflect.Bool:
		s.sort = sortBool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		s.sort, s.bits = sortInt, t.Bits()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		s.sort, s.bits, s.unsigned = sortInt, t.Bits(), true
	case reflect.Float32, reflect.Float64:
		s.sort = sortFloat
	}
	return s
}

// addFields adds the fields of a struct, and of its embedded structs.
func (s *schema) addFields(t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			s.addFields(f.Type)
			continue
		}
		field := schemaOf(f.Type, join(s.path, name))
		if enum := f.Tag.Get("enum"); enum != "" {
			leaf := field
			if leaf.elem != nil {
				leaf = leaf.elem
			}
			leaf.enum = strings.Split(enum, "|")
		}
		s.fields[name] = field
	}
}

// walk calls visit for s and every schema below it, with the path of each in this schema.
func (s *schema) walk(path string, visit func(path string, s *schema)) {
	visit(path, s)
	for name, f := range s.fields {
		f.walk(join(path, name), visit)
	}
	if s.elem != nil {
		s.elem.walk(path+"[]", visit)
	}
}
