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

// TestAnErrorOfTheMomentIsNotReported checks three errors: an object that is removed while it is
// read, one that never appears, and one that is permanent.
func TestAnErrorOfTheMomentIsNotReported(t *testing.T) {
	removed, missing, broken := fault.New(fault.Gone, "load balancer removed"), fault.New(fault.Gone, "volume missing"), errors.New("broken")
	passes := []error{removed, nil, removed, nil, missing, missing, missing, nil, broken, broken, nil}
	var out bytes.Buffer
	ctx, stop := context.WithCancel(t.Context())
	k := NewKeeper(slog.New(slog.NewTextHandler(&out, nil)), nil)
	k.Sync = func(context.Context) error {
		if len(passes) == 0 {
			stop()
			return nil
		}
		err := passes[0]
		passes = passes[1:]
		k.Trigger()
		return err
	}
	if err := k.Run(ctx); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]int{removed.Error(): 0, missing.Error(): 1, broken.Error(): 1} {
		if got := strings.Count(out.String(), text); got != want {
			t.Errorf("%q is reported %d times, want %d:\n%s", text, got, want, out.String())
		}
	}
}
