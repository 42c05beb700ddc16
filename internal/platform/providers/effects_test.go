package providers_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/providers"
	"kops.local/kops/internal/spec/effects"
)

// specs returns the kinds whose fields affect machines.
func specs() map[string]reflect.Type {
	return map[string]reflect.Type{api.KindCluster: reflect.TypeFor[api.ClusterSpec](), api.KindInstanceGroup: reflect.TypeFor[api.InstanceGroupSpec]()}
}

// TestEffectsAreComplete checks that the effects of the platforms together are complete: every field
// has an effect on running machines, and every entry belongs to a field.
func TestEffectsAreComplete(t *testing.T) {
	var all effects.Table
	for _, p := range providers.All(platform.World{}) {
		all.Cluster, all.Group = append(all.Cluster, p.Effects.Cluster...), append(all.Group, p.Effects.Group...)
	}
	for kind, spec := range specs() {
		var paths []string
		walkLeaves(spec, "spec", func(path string) {
			paths = append(paths, path)
			if _, ok := all.Of(kind, path); !ok {
				t.Errorf("%s %s: what its change takes is not in the table", kind, path)
			}
		})
		if len(paths) < 100 {
			t.Errorf("%s has only %d fields", kind, len(paths))
		}
		seen := map[string]bool{}
		for _, e := range all.Entries(kind) {
			if !slices.ContainsFunc(paths, func(path string) bool { return all.Why(kind, path) == e }) {
				t.Errorf("%s has no field that goes by %s", kind, e.Path)
			}
			if seen[e.Path] {
				t.Errorf("%s: %s is said twice", kind, e.Path)
			}
			seen[e.Path] = true
		}
	}
}

// walkLeaves visits the leaves of a spec.
func walkLeaves(t reflect.Type, path string, visit func(string)) {
	switch {
	case t.Kind() == reflect.Pointer:
		walkLeaves(t.Elem(), path, visit)
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		walkLeaves(t.Elem(), path+"[0]", visit)
	case t.Kind() == reflect.Struct && t != reflect.TypeFor[resource.Quantity]() && t != reflect.TypeFor[metav1.Duration]() && t != reflect.TypeFor[intstr.IntOrString]() && t != reflect.TypeFor[time.Time]():
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			walkLeaves(t.Field(i).Type, path+"."+name, visit)
		}
		if t.NumField() == 0 {
			visit(path)
		}
	default:
		visit(strings.TrimSuffix(path, "[0]"))
	}
}
