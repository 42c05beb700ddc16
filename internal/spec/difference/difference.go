// Package difference finds the fields in which two sets of objects differ. It must not
// know what the fields mean.
package difference

import (
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
)

// Field is a field that differs.
type Field struct {
	// Object is "Cluster" for the cluster, and otherwise a kind and name: InstanceGroup/nodes.
	Object string
	// Path is the field's path in v1alpha2; "" if the whole object was added or removed.
	Path string
	// Old and New are the values; "" if the field is not set. For a whole object they are Absent
	// and Present.
	Old, New string
}

// Values for a whole object that was added or removed.
const (
	Absent  = "absent"
	Present = "present"
)

// Between lists the fields in which two sets of objects differ, by object and path. Metadata that
// the store itself writes is not compared.
func Between(was, now []api.Object) ([]Field, error) {
	old, err := fields(was)
	if err != nil {
		return nil, err
	}
	next, err := fields(now)
	if err != nil {
		return nil, err
	}
	var out []Field
	for _, object := range union(old, next) {
		a, b := old[object], next[object]
		if a == nil || b == nil {
			out = append(out, Field{Object: object, Old: presence(a), New: presence(b)})
			continue
		}
		for _, path := range union(a, b) {
			if a[path] != b[path] {
				out = append(out, Field{object, path, a[path], b[path]})
			}
		}
	}
	return out, nil
}

func presence(fields map[string]string) string {
	if fields == nil {
		return Absent
	}
	return Present
}

// union returns the keys of both maps, sorted.
func union[V any](a, b map[string]V) []string {
	both := maps.Clone(a)
	maps.Copy(both, b)
	return slices.Sorted(maps.Keys(both))
}

// fields returns the values of objects by object and path.
func fields(objs []api.Object) (map[string]map[string]string, error) {
	out := map[string]map[string]string{}
	for _, o := range objs {
		data, err := compat.Encode(api.V1Alpha2, o)
		var tree map[string]any
		if err == nil {
			err = yaml.Unmarshal(data, &tree)
		}
		if err != nil {
			return nil, fmt.Errorf("compare %s: %w", api.Name(o), err)
		}
		tree["metadata"] = chosen(tree["metadata"])
		leaves := map[string]string{}
		flatten(leaves, "", tree)
		out[name(o)] = leaves
	}
	return out, nil
}

// name returns an object's name in a Field.
func name(o api.Object) string {
	if _, ok := o.(*api.Cluster); ok {
		return api.KindCluster
	}
	if ns := o.GetNamespace(); ns != "" {
		return api.Kind(o) + "/" + ns + "/" + o.GetName()
	}
	return api.Name(o)
}

// chosen returns the part of an object's metadata that users write.
func chosen(metadata any) map[string]any {
	all, _ := metadata.(map[string]any)
	out := map[string]any{}
	for _, k := range []string{"labels", "annotations"} {
		if of, ok := all[k].(map[string]any); ok {
			of = maps.Clone(of)
			delete(of, api.LabelCluster)
			out[k] = of
		}
	}
	return out
}

func flatten(to map[string]string, path string, v any) {
	switch x := v.(type) {
	case map[string]any:
		for k, e := range x {
			below := k
			if path != "" {
				below = path + "." + k
			}
			flatten(to, below, e)
		}
	case []any:
		for i, e := range x {
			flatten(to, fmt.Sprintf("%s[%d]", path, i), e)
		}
	default:
		to[path] = fmt.Sprint(x)
	}
}
