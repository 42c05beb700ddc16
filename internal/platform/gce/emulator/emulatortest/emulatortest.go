// Package emulatortest provides tests with an emulated Google Cloud, on a clock that advances only
// in Sleep.
package emulatortest

import (
	"net/http"
	"testing"
	"time"

	"kops.local/kops/internal/platform/gce/emulator"
	"kops.local/kops/internal/platform/gce/gceapi"
	"kops.local/kops/internal/standin/standintest"
)

// The project and the region of an emulated cloud.
const (
	Project = "testproject"
	Region  = "us-test1"
	Zone    = "us-test1-a"
)

// Cloud is an emulated cloud with a URL.
type Cloud struct {
	*emulator.Emulator
	*standintest.Clock
	URL string

	t testing.TB
}

// Start runs an emulated cloud until the test ends. By default, its operations take two seconds and
// its machines boot for nine.
func Start(t testing.TB, o emulator.Options) *Cloud {
	t.Helper()
	c := &Cloud{t: t, Clock: standintest.NewClock()}
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
	o.OnBug = standintest.OnBug(t)
	e, err := emulator.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return e, standintest.Serve(t, e)
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
