package resource

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Change is one field of a kind's struct that differs.
type Change struct {
	Field  string `json:"field"`
	Mode   Mode   `json:"mode,omitempty"`
	Leaves []Leaf `json:"leaves"`
}

// Leaf is one value inside a changed field. Path starts with the field's name.
type Leaf struct {
	Path string `json:"path"`
	Have string `json:"have"`
	Want string `json:"want"`
}

// Diff compares a desired object with an observed one. It is pure: it never accesses a cloud. It
// reports changes in field order, leaves in path order.
func (s *Schema) Diff(want, have any) []Change {
	w, h := reflect.ValueOf(want).Elem(), reflect.ValueOf(have).Elem()
	var out []Change
	for _, f := range s.Fields {
		if f.Mode == Output || f.Mode == WriteOnly {
			continue
		}
		var leaves []Leaf
		f.diff(f.Name, w.Field(f.Index), h.Field(f.Index), func(l Leaf) { leaves = append(leaves, l) })
		if len(leaves) > 0 {
			out = append(out, Change{Field: f.Name, Mode: f.Mode, Leaves: leaves})
		}
	}
	return out
}

// OpenMap is a type of maps to which programs other than this one may add keys.
type OpenMap interface {
	// Foreign reports whether an unwanted key was not set by this program.
	Foreign(key string) bool
}

// WithForeign returns the wanted entries and those of have that others added, for APIs that replace all
// entries at once.
func WithForeign[M interface {
	OpenMap
	~map[string]string
}](want, have M) M {
	out := M{}
	maps.Copy(out, have)
	maps.DeleteFunc(out, func(key, _ string) bool { return !want.Foreign(key) })
	maps.Copy(out, want)
	return out
}

// diff reports the leaves below path that differ.
func (f Field) diff(path string, w, h reflect.Value, report func(Leaf)) {
	if f.Mode == Default && isZero(w) {
		return
	}
	for w.Kind() == reflect.Pointer && !w.IsNil() && !h.IsNil() {
		w, h = w.Elem(), h.Elem()
	}
	switch {
	case w.Kind() == reflect.Struct && !isOpaque(w):
		nested, err := SchemaOf(w.Type())
		if err != nil {
			panic(err) // Erase has checked the struct
		}
		for _, n := range nested.Fields {
			n.Ordered = n.Ordered || f.Ordered
			n.diff(path+"."+n.Name, w.Field(n.Index), h.Field(n.Index), report)
		}
	case w.Kind() == reflect.Map:
		open, _ := w.Interface().(OpenMap)
		for _, k := range keys(w, h) {
			key := reflect.ValueOf(k).Convert(w.Type().Key())
			we, he := w.MapIndex(key), h.MapIndex(key)
			if open != nil && !we.IsValid() && open.Foreign(k) {
				continue
			}
			ws, hs := f.text(we), f.text(he)
			if ws != hs || we.IsValid() != he.IsValid() { // a tag without a value counts, too
				report(Leaf{Path: fmt.Sprintf("%s[%q]", path, k), Have: hs, Want: ws})
			}
		}
	default:
		if f.same(w, h) {
			return
		}
		report(Leaf{Path: path, Have: f.text(h), Want: f.text(w)})
	}
}

// same compares two leaves; contents are the same if their digests are.
func (f Field) same(w, h reflect.Value) bool {
	if f.Least && w.CanInt() && h.Int() >= w.Int() || f.Most && w.CanInt() && h.Int() <= w.Int() {
		return true
	}
	wc, ok := w.Interface().(Content)
	if !ok {
		return f.text(w) == f.text(h)
	}
	return wc.Same(h.Interface().(Content))
}

// text returns the same string for equal values: sets are sorted, JSON is normalised, empty and nil
// are the same.
func (f Field) text(v reflect.Value) string {
	if !v.IsValid() || isZero(v) && v.Kind() != reflect.Bool && !v.CanInt() {
		return ""
	}
	switch x := v.Interface().(type) {
	case Content:
		return x.String()
	case Value:
		return f.jsonText(x.String())
	case string:
		return f.jsonText(x)
	}
	switch v.Kind() {
	case reflect.Slice:
		items := f.items(v)
		if !f.Ordered {
			slices.Sort(items)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case reflect.Map:
		items := make([]string, 0, v.Len())
		for _, k := range keys(v) {
			items = append(items, k+"="+f.text(v.MapIndex(reflect.ValueOf(k).Convert(v.Type().Key()))))
		}
		return "{" + strings.Join(items, ", ") + "}"
	case reflect.Struct:
		var items []string
		for i := range v.NumField() {
			if t := f.text(v.Field(i)); t != "" {
				items = append(items, v.Type().Field(i).Name+": "+t)
			}
		}
		return "{" + strings.Join(items, ", ") + "}"
	case reflect.Pointer:
		return f.text(v.Elem())
	}
	return fmt.Sprint(v.Interface())
}

func (f Field) items(list reflect.Value) []string {
	out := make([]string, list.Len())
	for i := range out {
		out[i] = f.text(list.Index(i))
	}
	return out
}

// Items formats the items of a list, in order, as the list's Leaf does. A value that is not a list
// has none.
func Items(v reflect.Value) []string {
	if !v.IsValid() || v.Kind() != reflect.Slice {
		return nil
	}
	return Field{}.items(v)
}

func (f Field) jsonText(s string) string {
	var doc any
	if !f.JSON || json.Unmarshal([]byte(s), &doc) != nil {
		return s
	}
	out, err := json.Marshal(doc)
	if err != nil {
		return s
	}
	return string(out)
}

// isZero is like IsZero, but treats an empty list or map as zero as well.
func isZero(v reflect.Value) bool {
	if x, ok := v.Interface().(Value); ok {
		return x.IsZero()
	}
	if k := v.Kind(); k == reflect.Slice || k == reflect.Map {
		return v.Len() == 0
	}
	return v.IsZero()
}

func isOpaque(v reflect.Value) bool {
	switch v.Interface().(type) {
	case Value, Content:
		return true
	}
	return false
}

// keys returns the sorted union of the keys of maps with string keys.
func keys(maps ...reflect.Value) []string {
	var out []string
	for _, m := range maps {
		for _, k := range m.MapKeys() {
			out = append(out, k.String())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
