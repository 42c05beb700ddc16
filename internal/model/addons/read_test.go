package addons_test

import (
	"encoding/json"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/internal/model/addons"
)

// channelOf returns the entries of a channel.
func channelOf(t *testing.T, r *addons.Result) *api.Addons {
	t.Helper()
	out := &api.Addons{}
	if err := yaml.UnmarshalStrict(r.Channel, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// fileOf returns an add-on's file.
func fileOf(t *testing.T, r *addons.Result, addon string) addons.File {
	t.Helper()
	i := slices.IndexFunc(r.Files, func(f addons.File) bool { return f.Name == addon })
	if i < 0 {
		t.Fatalf("there is no add-on %s", addon)
	}
	return r.Files[i]
}

// objectsOf returns the objects in an add-on's file.
func objectsOf(t *testing.T, f addons.File) []map[string]any {
	t.Helper()
	objects, err := addons.Decode(f.Content)
	if err != nil {
		t.Fatalf("%s: %v", f.Path, err)
	}
	return objects
}

// into returns an object as a typed value.
func into[T any](t *testing.T, o map[string]any) T {
	t.Helper()
	text, err := json.Marshal(o)
	var out T
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// object finds an object in an add-on's file, and returns it as a typed value.
func object[T any](t *testing.T, r *addons.Result, addon, kind, name string) *T {
	t.Helper()
	for _, o := range objectsOf(t, fileOf(t, r, addon)) {
		if meta, _ := o["metadata"].(map[string]any); o["kind"] == kind && meta["name"] == name {
			typed := into[T](t, o)
			return &typed
		}
	}
	t.Fatalf("the add-on %s has no %s %s", addon, kind, name)
	return nil
}
