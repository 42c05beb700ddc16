package host_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"kops.local/kops/internal/host"
)

// broken is a systemd that starts nothing.
type broken struct{ host.Offline }

func (broken) Restart(context.Context, string) error { return errors.New("it failed") }

func TestAnOptionalUnitThatDoesNotStartIsAWarning(t *testing.T) {
	k := host.Units.Erase()
	for _, optional := range []bool{false, true} {
		m := machine(t)
		m.Systemd = broken{host.Offline{Root: m.Root}}
		var warned []string
		m.Warn = func(text string) { warned = append(warned, text) }
		u := host.Unit{Name: "x.service", Content: content("[Unit]\n"), On: true, Current: true, Optional: optional}
		_, err := k.Create(t.Context(), m, &u)
		if (err == nil) != optional {
			t.Errorf("optional %t: %v", optional, err)
		}
		if told := strings.Join(warned, "\n"); optional != (told == "the unit x.service did not start: it failed") {
			t.Errorf("optional %t: warned %q", optional, told)
		}
	}
}
