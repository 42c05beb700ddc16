package labels_test

import (
	"reflect"
	"testing"

	"kops.local/kops/internal/contract/labels"
)

func TestWithoutLiveKeys(t *testing.T) {
	object := func(annotations, data map[string]any) map[string]any {
		metadata := map[string]any{"name": "x"}
		if annotations != nil {
			metadata["annotations"] = annotations
		}
		return map[string]any{"kind": "ConfigMap", "metadata": metadata, "data": data}
	}
	type m = map[string]any
	for _, c := range []struct {
		name      string
		got, want m
	}{
		{"no annotation", object(nil, m{"a": "1"}), object(nil, m{"a": "1"})},
		{"another annotation", object(m{"b": "c"}, m{"a": "1"}), object(m{"b": "c"}, m{"a": "1"})},
		{"two live keys", object(m{labels.LiveKeys: "a,b"}, m{"a": "1", "b": "2", "c": "3"}), object(nil, m{"c": "3"})},
		{"beside another annotation", object(m{labels.LiveKeys: "a", "b": "c"}, m{"a": "1"}), object(m{"b": "c"}, m{})},
		{"no data", m{"metadata": m{"annotations": m{labels.LiveKeys: "a"}}}, m{"metadata": m{}}},
	} {
		before := len(c.got)
		if got := labels.WithoutLiveKeys(c.got); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, not %v", c.name, got, c.want)
		}
		if data, _ := c.got["data"].(m); len(c.got) != before || c.name == "two live keys" && len(data) != 3 {
			t.Errorf("%s: the object is changed: %v", c.name, c.got)
		}
	}
}
