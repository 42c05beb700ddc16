package addons_test

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
	"kops.local/kops/internal/spec/catalogue"
)

// TestEffectsOfAllFieldsAreKnown: testdata/effects has every field of an add-on's settings, and of the
// pod networks that have an add-on.
func TestEffectsOfAllFieldsAreKnown(t *testing.T) {
	known := map[string]bool{}
	for _, list := range effects(t) {
		for _, e := range list {
			known[e.Field] = true
		}
	}
	var c *catalogue.Catalogue
	roots := map[string]bool{"networking.calico": true, "networking.cilium": true, "networking.amazonVPC": true, "networking.flannel": true, "networking.kindnet": true, "networking.kubeRouter": true}
	for _, a := range c.Or().Addons() {
		if tmpl, err := a.Template("manifest.yaml"); err == nil && tmpl != nil && a.Spec != "" {
			roots[a.Spec] = true
		}
	}
	for _, root := range slices.Sorted(maps.Keys(roots)) {
		at := reflect.TypeFor[api.ClusterSpec]()
		for key := range strings.SplitSeq(root, ".") {
			f, ok := jsonField(at, key)
			if !ok {
				t.Fatalf("a spec has no %s", root)
			}
			at = f
		}
		for _, field := range leavesOf(at, "spec."+root) {
			if older := compat.OlderPath(api.KindCluster, field); !known[older] {
				t.Errorf("testdata/effects does not have %s", older)
			}
		}
	}
}

func jsonField(t reflect.Type, name string) (reflect.Type, bool) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil, false
	}
	for f := range t.Fields() {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name {
			return f.Type, true
		}
	}
	return nil, false
}

// leavesOf lists the paths of the fields in a type; lists and maps are fields.
func leavesOf(t reflect.Type, path string) []string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || !strings.HasPrefix(t.PkgPath(), "kops.local/kops/api") {
		return []string{path}
	}
	var out []string
	for f := range t.Fields() {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag != "" && tag != "-" {
			out = append(out, leavesOf(f.Type, path+"."+tag)...)
		}
	}
	return out
}
