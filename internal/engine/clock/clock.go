// Package clock provides real time, for callers without a fake clock.
//
// It must not know its callers, nor what they wait for.
package clock

import (
	"context"
	"time"
)

// Sleep waits for d, or until ctx ends; it then returns ctx's error.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
