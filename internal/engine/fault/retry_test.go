package fault_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"kops.local/kops/internal/engine/fault"
)

func TestRetry(t *testing.T) {
	for _, c := range []struct {
		class fault.Class
		fails int // how many times it fails before it succeeds
		asked int
		err   fault.Class
		slept time.Duration
	}{
		{fault.Throttled, 0, 1, "", 0},
		{fault.Throttled, 3, 4, "", 1400 * time.Millisecond},
		{fault.NotYet, 1, 2, "", 200 * time.Millisecond},
		{fault.Conflict, 1, 2, "", 200 * time.Millisecond},
		{fault.Lost, 2, 3, "", 600 * time.Millisecond},
		{fault.Lost, 100, 8, fault.Lost, 25400 * time.Millisecond},
		{fault.Denied, 1, 1, fault.Denied, 0},
		{fault.Gone, 1, 1, fault.Gone, 0},
	} {
		asked, slept := 0, time.Duration(0)
		err := fault.Retry(t.Context(), func(_ context.Context, d time.Duration) error { slept += d; return nil }, func() error {
			if asked++; asked <= c.fails {
				return fault.New(c.class, "no")
			}
			return nil
		})
		if fault.Of(err) != c.err || asked != c.asked || slept != c.slept {
			t.Errorf("%s %d times: asked %d times, slept %v, %v", c.class, c.fails, asked, slept, err)
		}
	}
}

func TestASilentServerIsAskedThreeTimes(t *testing.T) {
	asked := 0
	err := fault.Retry(t.Context(), func(context.Context, time.Duration) error { return nil }, func() error {
		asked++
		return fault.Wrap(fault.Lost, os.ErrDeadlineExceeded, "")
	})
	if asked != fault.MostTimeouts || !fault.Is(err, fault.Lost) {
		t.Errorf("asked %d times: %v", asked, err)
	}
}

func TestRetryEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	err := fault.Retry(ctx, func(ctx context.Context, _ time.Duration) error { cancel(); return ctx.Err() }, func() error {
		asked++
		return fault.New(fault.Throttled, "slower")
	})
	if asked != 1 || !errors.Is(err, context.Canceled) {
		t.Errorf("asked %d times: %v", asked, err)
	}
}

func TestRetryWaitsAsLongAsTheServerAsks(t *testing.T) {
	var slept []time.Duration
	asks := []time.Duration{time.Second, 0, time.Millisecond}
	err := fault.Retry(t.Context(), func(_ context.Context, d time.Duration) error { slept = append(slept, d); return nil }, func() error {
		if len(slept) == len(asks) {
			return nil
		}
		return fmt.Errorf("list: %w", &fault.Error{Class: fault.Throttled, After: asks[len(slept)], Err: errors.New("slower")})
	})
	if want := []time.Duration{time.Second, 400 * time.Millisecond, 800 * time.Millisecond}; err != nil || !slices.Equal(slept, want) {
		t.Errorf("slept %v, %v", slept, err)
	}
}
