package platform

import (
	"context"

	"golang.org/x/sync/errgroup"

	"kops.local/kops/internal/engine/clock"
	"kops.local/kops/internal/engine/fault"
)

// AskAll asks questions concurrently, and repeats each that fails temporarily.
func AskAll(ctx context.Context, questions []func(context.Context) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, question := range questions {
		g.Go(func() error { return fault.Retry(ctx, clock.Sleep, func() error { return question(ctx) }) })
	}
	return g.Wait()
}
