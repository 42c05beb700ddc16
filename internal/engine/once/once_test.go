package once_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"kops.local/kops/internal/engine/once"
)

func TestAQueryIsSentOnceAndErrorsAreNotCached(t *testing.T) {
	known := once.New()
	var asked atomic.Int32
	answer := func(context.Context) (int, error) {
		if asked.Add(1) == 1 {
			return 0, errors.New("throttled")
		}
		return 42, nil
	}
	if _, err := once.Ask(t.Context(), known, "q", answer); err == nil {
		t.Error("the first answer is an error")
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if got, err := once.Ask(t.Context(), known, "q", answer); got != 42 || err != nil {
				t.Errorf("got %d, %v", got, err)
			}
		})
	}
	wg.Wait()
	if n := asked.Load(); n != 2 {
		t.Errorf("asked %d times", n)
	}
	if got, _ := once.Ask(t.Context(), nil, "q", answer); got != 42 || asked.Load() != 3 {
		t.Error("who remembers nothing did not ask")
	}
}

// A caller that waits for another caller's query makes it itself if the other is cancelled.
func TestACanceledQueryIsRepeatedByTheNextWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := once.New()
		other, callOff := context.WithCancel(t.Context())
		var both sync.WaitGroup
		both.Go(func() {
			_, err := once.Ask(other, known, "q", func(ctx context.Context) (int, error) {
				<-ctx.Done()
				return 0, fmt.Errorf("describe it: %w", ctx.Err())
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("who was called off got %v", err)
			}
		})
		synctest.Wait()
		both.Go(func() {
			got, err := once.Ask(t.Context(), known, "q", func(context.Context) (int, error) { return 42, nil })
			if got != 42 || err != nil {
				t.Errorf("got %d, %v", got, err)
			}
		})
		synctest.Wait()
		callOff()
		both.Wait()
	})
}
