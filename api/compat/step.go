package compat

import (
	"strings"

	"kops.local/kops/api"
)

// step is one difference between v1alpha2 and v1alpha3: a field is at another path,
// and perhaps in another form. Steps are applied in order from v1alpha2 to v1alpha3, and
// undone in reverse order on the way back.
type step struct {
	// path is the path, in v1alpha3, of the maps to which the step applies; [] is
	// every item of a list: spec.etcdClusters[].etcdMembers[].
	path string
	// old and new are the paths of the field below at, in v1alpha2 and in v1alpha3.
	old, new string
	// cloud is the cloud that the field belongs to: the step applies to documents of
	// that cloud, whose map identifies the cloud and is therefore kept when it becomes empty.
	cloud api.CloudProviderID
	// change converts the value; nil if both versions write it the same way.
	change *change
}

// change is a value that the two versions write differently.
type change struct {
	// up converts a value of v1alpha2 to v1alpha3; nil omits the field.
	up func(any) any
	// down converts it back; nil if the new form is also valid in v1alpha2.
	down func(any) any
	// older returns the path below old and the value in v1alpha2 of one value at a path
	// below new; nil if both are the same.
	older func(below, value string) (string, string)
	// schema converts the schema of v1alpha3 to v1alpha2; nil if it is the same.
	schema func(*schema) *schema
}

// up converts a document from v1alpha2 to v1alpha3. An existing value at the new path is
// kept: a map with arbitrary keys may have both.
func (s step) up(doc map[string]any) {
	if s.cloud != "" && len(mapsAt(doc, "spec.cloudProvider."+memberOf(s.cloud))) == 0 {
		return
	}
	for _, m := range mapsAt(doc, s.path) {
		if s.change == nil && hasValue(m, s.new) {
			continue
		}
		v, ok := take(m, s.old, 0)
		if ok && s.change != nil {
			v = s.change.up(v)
		}
		if ok && v != nil {
			setValue(m, s.new, v)
		}
	}
}

// down converts a document from v1alpha3 to v1alpha2.
func (s step) down(doc map[string]any) {
	if s.change != nil && s.change.down == nil {
		return
	}
	for _, m := range mapsAt(doc, s.path) {
		if s.change == nil && hasValue(m, s.old) {
			continue
		}
		v, ok := take(m, s.new, s.keep())
		if ok && s.change != nil {
			v = s.change.down(v)
		}
		if ok && v != nil {
			setValue(m, s.old, v)
		}
		if s.cloud == "" {
			dropEmpty(m, parent(s.new))
		}
	}
}

// parent returns the path of the map that contains the last element of a path, or "".
func parent(path string) string { return path[:max(0, strings.LastIndexByte(path, '.'))] }

// dropEmpty removes the map at a path if it is empty: v1alpha2 has no equivalent of an
// empty block whose fields are all elsewhere.
func dropEmpty(m map[string]any, path string) {
	if inner := mapsAt(m, path); len(inner) == 1 && len(inner[0]) == 0 {
		take(m, path, 0)
	}
}

// downSchema converts the schema of v1alpha3 to v1alpha2.
func (s step) downSchema(root *schema) {
	for _, o := range objectsAt(root, s.path) {
		var f *schema
		if s.change != nil && s.change.down == nil {
			f = o.fields[s.new]
		} else {
			f = takeField(o, s.new, s.keep())
		}
		if s.change != nil && s.change.schema != nil {
			f = s.change.schema(f)
		}
		f.cloud = s.cloud
		putField(o, s.old, f)
	}
}

// keep is the number of leading keys of new that are kept when the map under them
// becomes empty: cloudProvider, and the cloud's own map.
func (s step) keep() int {
	if s.cloud != "" {
		return 2
	}
	return 0
}

// mapsAt returns the maps at a path.
func mapsAt(doc map[string]any, path string) []map[string]any {
	at := []map[string]any{doc}
	for key := range strings.SplitSeq(path, ".") {
		name, isList := strings.CutSuffix(key, "[]")
		var next []map[string]any
		for _, m := range at {
			children := []any{m[name]}
			if isList {
				children, _ = m[name].([]any) // missing: no children
			}
			for _, c := range children {
				if c, ok := c.(map[string]any); ok {
					next = append(next, c)
				}
			}
		}
		at = next
	}
	return at
}

// hasValue reports whether there is a value at a path.
func hasValue(m map[string]any, path string) bool {
	key, rest, deeper := strings.Cut(path, ".")
	v, ok := m[key]
	if !deeper {
		return ok
	}
	inner, _ := v.(map[string]any) // not a map: it is empty
	return hasValue(inner, rest)
}

// take removes the value at a path and returns it. It also removes maps that become empty, unless
// they belong to one of the first keep keys.
func take(m map[string]any, path string, keep int) (any, bool) {
	key, rest, deeper := strings.Cut(path, ".")
	v, ok := m[key]
	if !deeper {
		delete(m, key)
		return v, ok
	}
	inner, isMap := v.(map[string]any)
	if !isMap {
		return nil, false
	}
	v, ok = take(inner, rest, keep-1)
	if ok && len(inner) == 0 && keep <= 0 {
		delete(m, key)
	}
	return v, ok
}

// setValue sets the value at a path and creates the maps on the way.
func setValue(m map[string]any, path string, v any) {
	key, rest, deeper := strings.Cut(path, ".")
	if !deeper {
		m[key] = v
		return
	}
	inner, ok := m[key].(map[string]any)
	if !ok {
		inner = map[string]any{}
		m[key] = inner
	}
	setValue(inner, rest, v)
}

// objectsAt returns the object schemas at a path: one, or none if the path leads to a
// map with arbitrary keys.
func objectsAt(root *schema, path string) []*schema {
	for key := range strings.SplitSeq(path, ".") {
		name, isList := strings.CutSuffix(key, "[]")
		root = root.fields[name]
		if isList {
			root = root.elem
		}
	}
	if root.sort != sortObject {
		return nil
	}
	return []*schema{root}
}

// takeField is take for schemas.
func takeField(s *schema, path string, keep int) *schema {
	key, rest, deeper := strings.Cut(path, ".")
	f := s.fields[key]
	if !deeper {
		delete(s.fields, key)
		return f
	}
	inner := f
	f = takeField(inner, rest, keep-1)
	if len(inner.fields) == 0 && keep <= 0 {
		delete(s.fields, key)
	}
	return f
}

// putField is put for schemas. A field that two clouds have belongs to neither.
func putField(s *schema, path string, f *schema) {
	key, rest, deeper := strings.Cut(path, ".")
	if !deeper {
		if other := s.fields[key]; other != nil && other.cloud != f.cloud {
			f.cloud = ""
		}
		s.fields[key] = f
		return
	}
	inner := s.fields[key]
	if inner == nil {
		inner = &schema{sort: sortObject, fields: map[string]*schema{}}
		s.fields[key] = inner
	}
	putField(inner, rest, f)
}
