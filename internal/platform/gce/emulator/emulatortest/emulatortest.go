// Package emulatortest plays Google's cloud to a test, on a clock that goes on when somebody sleeps.
package emulatortest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"kops.local/kops/internal/engine/exec"
	"kops.local/kops/internal/platform/gce/emulator"
	"kops.local/kops/internal/platform/gce/gceapi"
)

// The project and the region of a played cloud.
const (
	Project = "testproject"
	Region  = "us-test1"
	Zone    = "us-test1-a"
)

// Clock goes on when somebody sleeps, and not otherwise.
type Clock struct {
	// Ends, when not nil, receives the time after each sleep.
	Ends func(time.Time)

	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that shows a time of its own.
func NewClock() *Clock { return &Clock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

// Now is what the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Sleep lets the time pass at once.
func (c *Clock) Sleep(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	if c.Ends != nil {
		c.Ends(c.now)
	}
	return ctx.Err()
}

// ForEngine is the clock as the engine has it.
func (c *Clock) ForEngine() exec.Clock {
	return exec.Clock{Now: c.Now, Sleep: c.Sleep, Jitter: func() float64 { return 0.5 }}
}

// Cloud is a played cloud at an address.
type Cloud struct {
	*emulator.Emulator
	*Clock
	URL string

	t testing.TB
}

// Play plays a cloud until the test ends, whose operations take two seconds and whose machines boot
// for nine unless the options say how long they take.
func Play(t testing.TB, o emulator.Options) *Cloud {
	t.Helper()
	c := &Cloud{t: t, Clock: NewClock()}
	o.Now, o.Sleep = c.Now, c.Sleep
	if o.Latency == 0 {
		o.Latency, o.Boot = 2*time.Second, 9*time.Second
	}
	c.Emulator, c.URL = Serve(t, o)
	return c
}

// Serve plays a cloud on the clock of the options.
func Serve(t testing.TB, o emulator.Options) (e *emulator.Emulator, url string) {
	t.Helper()
	o.OnWrong = func(err error) { t.Errorf("the emulator is wrong: %v", err) }
	e, err := emulator.New(o)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	return e, server.URL
}

// Clients returns the clients of the project and the region.
func (c *Cloud) Clients() *gceapi.Clients {
	c.t.Helper()
	clients, err := gceapi.Connect(c.t.Context(), gceapi.Config{Project: Project, Region: Region, Endpoint: c.URL,
		HTTPClient: http.DefaultClient, UserAgent: "test", Sleep: c.Sleep})
	if err != nil {
		c.t.Fatal(err)
	}
	return clients
}
