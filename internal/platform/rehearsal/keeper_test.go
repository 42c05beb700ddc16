package rehearsal

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"kops.local/kops/internal/engine/fault"
)

// TestAnErrorOfTheMomentIsNotReported: one object is removed while it is looked at, another
// does not come, and something is wrong for good.
func TestAnErrorOfTheMomentIsNotReported(t *testing.T) {
	removed, missing, broken := fault.New(fault.Gone, "load balancer removed"), fault.New(fault.Gone, "volume missing"), errors.New("broken")
	passes := []error{removed, nil, removed, nil, missing, missing, missing, nil, broken, broken, nil}
	var out bytes.Buffer
	ctx, stop := context.WithCancel(t.Context())
	k := NewKeeper(slog.New(slog.NewTextHandler(&out, nil)), nil)
	k.Pass = func(context.Context) error {
		if len(passes) == 0 {
			stop()
			return nil
		}
		err := passes[0]
		passes = passes[1:]
		k.Changed()
		return err
	}
	if err := k.Keep(ctx); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]int{removed.Error(): 0, missing.Error(): 1, broken.Error(): 1} {
		if got := strings.Count(out.String(), text); got != want {
			t.Errorf("%q is reported %d times, want %d:\n%s", text, got, want, out.String())
		}
	}
}
