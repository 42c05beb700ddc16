package process_test

import (
	"runtime"
	"strings"
	"testing"

	"kops.local/kops/internal/store/clusterstore/process"
)

func TestGone(t *testing.T) {
	self := process.Self()
	if runtime.GOOS != "linux" {
		if self != "" || process.HasEnded("x/1/2") {
			t.Errorf("%q", self)
		}
		return
	}
	parts := strings.Split(self, "/") // boot, namespace, PID, start time
	if len(parts) != 4 {
		t.Fatalf("this process is %q", self)
	}
	with := func(i int, s string) string {
		p := append([]string{}, parts...)
		p[i] = s
		return strings.Join(p, "/")
	}
	tests := map[string]struct {
		name string
		gone bool
	}{
		"this one":                            {self, false},
		"one before it of the same number":    {with(3, "1"), true},
		"a number that is not used":           {with(2, "4194305"), true},
		"one of another boot or machine":      {with(0, "00000000-0000-0000-0000-000000000000"), false},
		"one of another container":            {with(1, "pid:[1]"), false},
		"no name":                             {"", false},
		"something else":                      {"nonsense", false},
		"a name whose number is none":         {with(2, "x"), false},
		"a name that lacks the time of start": {strings.Join(parts[:3], "/"), false},
	}
	for what, tt := range tests {
		if got := process.HasEnded(tt.name); got != tt.gone {
			t.Errorf("%s (%q): gone %v", what, tt.name, got)
		}
	}
}
