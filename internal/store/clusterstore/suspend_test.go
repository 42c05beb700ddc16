package clusterstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/store/clusterstore"
)

// While a machine sleeps, its timers stop, but its wall clock continues.
func TestLeaseOfAMachineThatSlept(t *testing.T) {
	w := inMemory()
	cut := &cuttableStore{Store: w.open()}
	asleep := func(c *clusterstore.Config) {
		c.State = cut
		c.Sleep = func(ctx context.Context, _ time.Duration) error { <-ctx.Done(); return ctx.Err() }
	}
	s := w.client(t, asleep)
	ctx, l := acquire(t, s, "jane")
	w.Pass(59 * time.Second)
	cut.set(true)
	if err := l.Hold(ctx); err != nil {
		t.Errorf("within the term: %v", err)
	}
	cut.set(false)
	w.Pass(10 * time.Minute)
	if err := l.Hold(ctx); err != nil || ctx.Err() != nil {
		t.Errorf("after the term, when nobody took it: %v, %v", err, ctx.Err())
	}
	if h, err := s.LeaseHolder(t.Context(), name); err != nil || h == nil || h.Idle != 0 {
		t.Errorf("it was not renewed: %v, %v", h, err)
	}
	w.Pass(20 * time.Minute)
	_, second := acquire(t, w.client(t), "joe")
	if err := l.Hold(ctx); !errors.Is(err, clusterstore.ErrLost) || !strings.Contains(err.Error(), "joe") || !errors.Is(context.Cause(ctx), clusterstore.ErrLost) {
		t.Errorf("after another took it: %v; the context has the cause %v", err, context.Cause(ctx))
	}
	if err := second.Check(t.Context()); err != nil {
		t.Errorf("the other's: %v", err)
	}

	if err := second.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, l = acquire(t, s, "jane")
	w.Pass(2 * time.Minute)
	cut.set(true)
	if err := l.Hold(ctx); !errors.Is(err, clusterstore.ErrLost) || !errors.Is(err, errCut) || !errors.Is(context.Cause(ctx), clusterstore.ErrLost) {
		t.Errorf("when it cannot be told whose it is: %v", err)
	}
	cut.set(false)
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Hold(t.Context()); !errors.Is(err, clusterstore.ErrLost) {
		t.Errorf("after it was given back: %v", err)
	}
}
