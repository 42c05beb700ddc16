package complete

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"kops.local/kops/api/compat"
)

// Origin says which rule filled a value, and why.
type Origin struct {
	Rule string `json:"rule"`
	Why  string `json:"why"`
}

// Provenance records, for every value that a rule filled, which rule it was. All other values are
// the user's.
type Provenance struct {
	// Cluster is by path in the shape of v1alpha3, such as spec.kubeDNS.serverIP.
	Cluster map[string]Origin `json:"cluster,omitempty"`
	// Groups is by the group's name, then by path.
	Groups map[string]map[string]Origin `json:"groups,omitempty"`
}

// leaves maps the path of every set value of a spec to its text. An empty struct
// that is present counts as a value, "{}".
type leaves map[string]string

func leavesOf(spec any) leaves {
	out := leaves{}
	walk(out, "spec", reflect.ValueOf(spec))
	return out
}

func walk(out leaves, path string, v reflect.Value) {
	if !v.IsValid() || v.IsZero() {
		return
	}
	if v.Kind() == reflect.Pointer {
		before := len(out)
		if text, ok := marshalled(v); ok {
			out[path] = text
			return
		}
		walk(out, path, v.Elem())
		if len(out) == before { // a pointer to an empty struct, such as api.dns: {}, or to a zero value, such as enabled: false
			out[path] = zeroText(v.Elem())
		}
		return
	}
	if text, ok := marshalled(v); ok {
		out[path] = text
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).IsZero() {
				continue // as most are
			}
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			if name != "-" && name != "" {
				walk(out, path+"."+name, v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			item := fmt.Sprintf("%s[%d]", path, i)
			walk(out, item, v.Index(i))
			if v.Index(i).IsZero() {
				out[item] = zeroText(v.Index(i))
			}
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			item := fmt.Sprintf("%s[%v]", path, k.Interface())
			walk(out, item, v.MapIndex(k))
			if v.MapIndex(k).IsZero() {
				out[item] = zeroText(v.MapIndex(k))
			}
		}
	default:
		out[path] = fmt.Sprint(v.Interface())
	}
}

// marshalled returns the text of a value whose type marshals itself, such as a quantity or a
// duration.
func marshalled(v reflect.Value) (string, bool) {
	m, ok := v.Interface().(json.Marshaler)
	if !ok {
		return "", false
	}
	data, err := m.MarshalJSON()
	return strings.Trim(string(data), `"`), err == nil
}

func zeroText(v reflect.Value) string {
	if v.Kind() == reflect.Struct {
		return "{}"
	}
	return fmt.Sprint(v.Interface())
}

// record sets the origin of every path at which after differs from before.
func record(into map[string]Origin, before, after leaves, by Origin) {
	for path, text := range after {
		if old, ok := before[path]; !ok || old != text {
			into[path] = by
		}
	}
}

// Explanation says who set a value of a completed object.
type Explanation struct {
	Object string `json:"object"` // Cluster/name or InstanceGroup/name
	// Path and Value are as users write them, in v1alpha2.
	Path  string `json:"path"`
	Value string `json:"value"`
	// Rule is "user" for the user's own values.
	Rule string `json:"rule"`
	Why  string `json:"why,omitempty"`
}

// Explain lists every value of the cluster and its groups, by object and path.
func (c *Cluster) Explain() []Explanation {
	out := explain("Cluster/"+c.Spec.Name, leavesOf(c.Spec.Spec), c.Provenance.Cluster)
	for _, g := range c.Groups {
		out = append(out, explain("InstanceGroup/"+g.Name, leavesOf(g.Spec), c.Provenance.Groups[g.Name])...)
	}
	return out
}

// digits matches a number in a path.
var digits = regexp.MustCompile(`[0-9]+`)

func explain(object string, values leaves, origins map[string]Origin) []Explanation {
	var out []Explanation
	order := make(map[string]string, len(values)) // so that index 10 sorts after index 2
	for path := range values {
		order[path] = digits.ReplaceAllStringFunc(path, func(d string) string { return fmt.Sprintf("%10s", d) })
	}
	for _, path := range slices.SortedFunc(maps.Keys(values), func(a, b string) int { return strings.Compare(order[a], order[b]) }) {
		o, inferred := origins[path]
		if !inferred {
			o.Rule = "user"
		}
		kind, _, _ := strings.Cut(object, "/")
		name, value := compat.Older(kind, path, values[path])
		out = append(out, Explanation{object, name, value, o.Rule, o.Why})
	}
	return out
}
