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
