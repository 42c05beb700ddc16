package staticpod_test

import (
	"strings"
	"testing"

	"kops.local/kops/internal/contract/staticpod"
)

// No part of a manifest is lost, no matter who wrote it.
func TestMerge(t *testing.T) {
	p := staticpod.Pod{Metadata: staticpod.Metadata{Name: "a"}, Spec: staticpod.Spec{Containers: []any{staticpod.Container{Name: "a", Image: "i"}}}}
	if err := p.Merge("spec:\n  containers:\n  - {name: b, image: j, terminationMessagePath: /x}\n  volumes:\n  - {name: v, emptyDir: {}}\n"); err != nil {
		t.Fatal(err)
	}
	text, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"apiVersion: v1\n", "kind: Pod\n", "image: i\n", "terminationMessagePath: /x\n", "emptyDir: {}\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
	if err := p.Merge("{"); err == nil || !strings.Contains(err.Error(), "merge into a") {
		t.Errorf("got %v", err)
	}
}
