// Package emulatortest provides tests with an emulated Google Cloud, on a clock that advances only
// in Sleep.
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

// The project and the region of an emulated cloud.
const (
	Project = "testproject"
	Region  = "us-test1"
	Zone    = "us-test1-a"
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

// Cloud is an emulated cloud with a URL.
type Cloud struct {
	*emulator.Emulator
	*Clock
	URL string

	t testing.TB
}

// Start runs an emulated cloud until the test ends. By default, its operations take two seconds and
// its machines boot for nine.
func Start(t testing.TB, o emulator.Options) *Cloud {
	t.Helper()
	c := &Cloud{t: t, Clock: NewClock()}
	o.Now, o.Sleep = c.Now, c.Sleep
	if o.Latency == 0 {
		o.Latency, o.Boot = 2*time.Second, 9*time.Second
	}
	c.Emulator, c.URL = Serve(t, o)
	return c
}

// Serve serves an emulated cloud with the clock in the options.
func Serve(t testing.TB, o emulator.Options) (e *emulator.Emulator, url string) {
	t.Helper()
	o.OnBug = func(err error) { t.Errorf("the emulator is wrong: %v", err) }
	e, err := emulator.New(o)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	return e, server.URL
}

// Clients returns clients for the project and the region.
func (c *Cloud) Clients() *gceapi.Clients {
	c.t.Helper()
	clients, err := gceapi.Connect(c.t.Context(), gceapi.Config{Project: Project, Region: Region, Endpoint: c.URL,
		HTTPClient: http.DefaultClient, UserAgent: "test", Sleep: c.Sleep})
	if err != nil {
		c.t.Fatal(err)
	}
	return clients
}
