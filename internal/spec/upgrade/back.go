package upgrade

import (
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
)

// Differences lists the fields in which objects differ, by their paths in v1alpha2. An
// object that is among one of them only differs as a whole.
func Differences(was, now []api.Object) ([]Change, error) {
	old, err := fields(was)
	if err != nil {
		return nil, err
	}
	next, err := fields(now)
	if err != nil {
		return nil, err
	}
	var out []Change
	for _, item := range slices.Sorted(maps.Keys(merged(old, next))) {
		a, b := old[item], next[item]
		if a == nil || b == nil {
			out = append(out, Change{Item: item, Old: there(a), New: there(b)})
			continue
		}
		for _, path := range slices.Sorted(maps.Keys(merged(a, b))) {
			if a[path] != b[path] {
				out = append(out, Change{item, path, a[path], b[path]})
			}
		}
	}
	return out, nil
}

// there says whether an object is there.
func there(fields map[string]string) string {
	if fields == nil {
		return "absent"
	}
	return "present"
}

func merged[V any](a, b map[string]V) map[string]V {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// fields are the values of objects by object and path.
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
		delete(tree, "metadata")
		leaves := map[string]string{}
		flatten(leaves, "", tree)
		item := api.Name(o)
		if _, ok := o.(*api.Cluster); ok {
			item = itemCluster
		}
		out[item] = leaves
	}
	return out, nil
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
