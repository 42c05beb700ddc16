// Package leasetest provides the clock for tests in which leases are held.
//
// It must not know what else a test does.
package leasetest

import (
	"context"
	"sync"
	"time"

	"kops.local/kops/internal/store/clusterstore"
)

// Clock advances only by sleeping, without delay. Holders of leases that sleep by it
// do not renew them, as if they had died.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// New returns a clock that shows the given time.
func New(now time.Time) *Clock { return &Clock{now: now} }

// Now returns the time that the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Pass advances the clock.
func (c *Clock) Pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Sleep advances the clock, except for the wait before a lease's renewal: that one
// only returns when ctx is done.
func (c *Clock) Sleep(ctx context.Context, d time.Duration) error {
	if d == clusterstore.LeaseRenewal {
		<-ctx.Done()
		return ctx.Err()
	}
	c.Pass(d)
	return ctx.Err()
}
