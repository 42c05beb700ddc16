package model

import (
	"reflect"
	"testing"

	"kops.local/kops/internal/spec/catalogue"
)

// TestPoliciesCallEveryMethodOfAView looks up each method as templates do.
func TestPoliciesCallEveryMethodOfAView(t *testing.T) {
	v := &policyView{View: &catalogue.View{}}
	for m := range reflect.TypeFor[*policyView]().Methods() {
		if m.Name != "TemplateFunc" && v.TemplateFunc(m.Name) == nil {
			t.Errorf("policies cannot call %s: list it in TemplateFunc", m.Name)
		}
	}
}
