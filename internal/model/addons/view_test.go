package addons_test

import (
	"reflect"
	"testing"

	"kops.local/kops/internal/model/addons"
	"kops.local/kops/internal/spec/catalogue"
)

// TestManifestsCallEveryMethodOfAView looks up each method in the way templates do.
func TestManifestsCallEveryMethodOfAView(t *testing.T) {
	v := &addons.View{View: &catalogue.View{}}
	for m := range reflect.TypeFor[*addons.View]().Methods() {
		if m.Name != "TemplateFunc" && v.TemplateFunc(m.Name) == nil {
			t.Errorf("manifests cannot call %s: list it in TemplateFunc", m.Name)
		}
	}
}
