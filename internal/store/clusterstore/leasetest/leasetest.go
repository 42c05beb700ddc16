// Package leasetest has the clock of tests in which leases are held.
//
// It must not know what else a test does.
package leasetest

import (
	"context"
	"sync"
	"time"

	"kops.local/kops/internal/store/clusterstore"
)

// Clock advances only by sleeping, and then at once. Holders of leases that sleep
// by it do not renew them, as if they had died.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// New returns a clock that shows a time.
func New(now time.Time) *Clock { return &Clock{now: now} }

// Now is what the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Pass lets the time pass.
func (c *Clock) Pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Sleep lets the time pass, but for that until a lease is renewed, which others do
// not wait for: it ends with ctx only.
func (c *Clock) Sleep(ctx context.Context, d time.Duration) error {
	if d == clusterstore.LeaseRenewal {
		<-ctx.Done()
		return ctx.Err()
	}
	c.Pass(d)
	return ctx.Err()
}
