package catalogue_test

import (
	"reflect"
	"testing"

	"kops.local/kops/internal/spec/catalogue"
)

// TestTemplatesCallEveryMethodOfAView looks up each method in the way templates do.
func TestTemplatesCallEveryMethodOfAView(t *testing.T) {
	v := view("1.36.3")
	for m := range reflect.TypeFor[*catalogue.View]().Methods() {
		if m.Name != "TemplateFunc" && v.TemplateFunc(m.Name) == nil {
			t.Errorf("templates cannot call %s: list it in TemplateFunc", m.Name)
		}
	}
	if v.TemplateFunc("DNSType") == nil || v.TemplateFunc("None") != nil {
		t.Error("DNSType is a function of views, and None is not")
	}
}
