package diag_test

import (
	"errors"
	"fmt"
	"testing"

	"kops.local/kops/internal/spec/diag"
)

func TestFindingsAreOneLine(t *testing.T) {
	for want, f := range map[string]diag.Finding{
		`f.yaml:3: Cluster/a: spec.channel: unknown field, got "x"; remove it`: {
			File: "f.yaml", Line: 3, Object: "Cluster/a", Path: "spec.channel", Message: "unknown field", Value: "x", Remedy: "remove it",
		},
		"line:3: unknown field":       {Line: 3, Message: "unknown field"},
		"f.yaml: is not YAML":         {File: "f.yaml", Message: "is not YAML"},
		"--zones: is needed; name it": {Path: "--zones", Message: "is needed", Remedy: "name it"},
	} {
		if got := f.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestOnlyErrorsAreAnError(t *testing.T) {
	warning := diag.Finding{Message: "is old", Warning: true}
	if err := (diag.List{warning}).Err(); err != nil {
		t.Errorf("a warning is the error %v", err)
	}
	l := diag.List{{Message: "is wrong"}, warning, {Message: "is bad"}}
	err := fmt.Errorf("check: %w", l.Err())
	if got, want := err.Error(), "check: is wrong\nis bad"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	var found diag.List
	if !errors.As(err, &found) || len(found) != 3 {
		t.Errorf("the findings in the error are %v", found)
	}
}

func TestNearest(t *testing.T) {
	names := []string{"kubelet", "kubeDNS", "channel", "subnets"}
	for name, want := range map[string]string{
		"kublet": "kubelet", "Kubelet": "kubelet", "kubeDSN": "kubeDNS", "chanel": "channel", "subnet": "subnets",
		"x": "", "": "", "networking": "", "channel": "channel",
	} {
		if got := diag.Nearest(name, names); got != want {
			t.Errorf("nearest to %q is %q, want %q", name, got, want)
		}
	}
}

// Findings with one cause, which only differ in their objects, are one line.
func TestOneCauseIsOneLine(t *testing.T) {
	image := func(group string) diag.Finding {
		return diag.Finding{Object: "InstanceGroup/" + group, Path: "spec.image", Value: "x", Rule: "image-exists", Message: "was not found", Remedy: "check the name"}
	}
	etcd := func(i string) diag.Finding {
		return diag.Finding{Object: "Cluster/a", Path: "spec.etcdClusters[" + i + "]", Rule: "etcd", Message: "is empty"}
	}
	lines := diag.Finding{File: "a.yaml", Line: 3, Object: "Cluster/a", Path: "spec.x", Rule: "unknown", Message: "unknown field"}
	list := diag.List{image("a"), etcd("0"), image("b"), lines, etcd("1"), lines, image("c"), image("d"), image("e"), image("f"), image("g"), {Rule: "r", Message: "alone"}, {Rule: "r", Message: "alone"}}
	want := `InstanceGroup/a, InstanceGroup/b, InstanceGroup/c, InstanceGroup/d, InstanceGroup/e and 2 more: spec.image: was not found, got "x"; check the name
Cluster/a: spec.etcdClusters[0], spec.etcdClusters[1]: is empty
a.yaml:3: Cluster/a: spec.x: unknown field
a.yaml:3: Cluster/a: spec.x: unknown field
alone
alone`
	if got := list.Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
