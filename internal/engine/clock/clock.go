// Package clock is the real passing of time, for those who are handed no other.
//
// It must not know who waits, nor for what.
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
