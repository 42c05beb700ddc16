package template

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"sigs.k8s.io/yaml"
)

// Merge merges values with overriding ones: maps are merged, and everything else is replaced.
func Merge(under, over map[string]any) map[string]any {
	out := maps.Clone(under)
	if out == nil {
		out = map[string]any{}
	}
	for k, v := range over {
		below, isMap := out[k].(map[string]any)
		if above, ok := v.(map[string]any); ok && isMap {
			v = Merge(below, above)
		}
		out[k] = v
	}
	return out
}

// Parse reads a file of values, YAML or JSON. Integers have the type int64.
func Parse(data []byte) (map[string]any, error) {
	text, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, fmt.Errorf("it is not valid YAML: %w", err)
	}
	v, err := decode(text)
	values, ok := v.(map[string]any)
	if err == nil && !ok && v != nil {
		err = errors.New("it is not a map")
	}
	return values, err
}

// decode reads JSON with int64 and float64 as its numbers.
func decode(data []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	err = d.Decode(&v)
	return withNumbers(v), err
}

// withNumbers returns a JSON value with int64 and float64 as its numbers.
func withNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = withNumbers(e)
		}
	case []any:
		for i, e := range v {
			v[i] = withNumbers(e)
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		if n, err := v.Float64(); err == nil {
			return n
		}
		return v.String()
	}
	return v
}
