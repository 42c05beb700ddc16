package takeover_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"kops.local/kops/internal/test/takeover"
)

// TestObjectsHaveTheTypesOfTheirFields: every object of a kind of Kubernetes is decoded strictly.
func TestObjectsHaveTheTypesOfTheirFields(t *testing.T) {
	rows := takeover.Rows(t)
	addons := map[string]bool{}
	for _, r := range rows {
		addons[r.Addon] = true
	}
	n := 0
	for addon := range addons {
		for _, o := range takeover.Objects(t, rows, addon, "many-addons", "c.example.com") {
			gv, err := schema.ParseGroupVersion(fmt.Sprint(o["apiVersion"]))
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			into, err := scheme.Scheme.New(gv.WithKind(fmt.Sprint(o["kind"])))
			if err != nil {
				continue // a custom resource
			}
			n++
			if err := json.Unmarshal(text, into); err != nil {
				t.Errorf("%s: %.300s: %v", addon, text, err)
			}
		}
	}
	if n < 200 {
		t.Errorf("only %d objects", n)
	}
}
