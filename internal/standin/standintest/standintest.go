// Package standintest provides tests of stand-ins, and tests that use them, with a clock that advances
// only in Sleep.
package standintest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"kops.local/kops/internal/engine/exec"
)

// Clock is a clock that advances only in Sleep.
type Clock struct {
	// Deadline, when not nil, is called with the time after each sleep.
	Deadline func(time.Time)

	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock with a fixed initial time.
func NewClock() *Clock { return &Clock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

// Now returns the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Sleep advances the clock and returns at once.
func (c *Clock) Sleep(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	if c.Deadline != nil {
		c.Deadline(c.now)
	}
	return ctx.Err()
}

// ForEngine returns the clock in the form that the engine takes.
func (c *Clock) ForEngine() exec.Clock {
	return exec.Clock{Now: c.Now, Sleep: c.Sleep, Jitter: func() float64 { return 0.5 }}
}

// OnBug returns a function that fails the test with each bug of a stand-in.
func OnBug(t testing.TB) func(error) {
	return func(err error) { t.Errorf("the stand-in is wrong: %v", err) }
}

// Serve serves a stand-in until the test ends, and returns its URL.
func Serve(t testing.TB, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}
