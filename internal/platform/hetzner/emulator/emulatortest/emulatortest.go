// Package emulatortest provides tests with an emulated Hetzner Cloud, on a clock that advances only in
// Sleep, and judges everything that they send and receive.
package emulatortest

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/platform/hetzner/emulator"
	"kops.local/kops/internal/standin/openapi"
	"kops.local/kops/internal/standin/standintest"
	"kops.local/kops/internal/standin/tree"
)

// Cloud is an emulated project with a URL.
type Cloud struct {
	*emulator.Emulator
	*standintest.Clock
	// URL is the API's URL.
	URL string
	// HTTP sends requests to it, and fails the test if the API's description forbids a request that is
	// accepted, or a response.
	HTTP *http.Client
}

// Start runs an emulated project until the test ends. By default, its actions take two seconds and its
// servers boot for nine.
func Start(t testing.TB, o emulator.Options) *Cloud {
	t.Helper()
	c := &Cloud{Clock: standintest.NewClock()}
	o.Now, o.Sleep = c.Clock.Now, c.Sleep
	if o.Latency == 0 {
		o.Latency, o.Boot = 2*time.Second, 9*time.Second
	}
	if o.OnBug == nil {
		o.OnBug = standintest.OnBug(t)
	}
	e, err := emulator.New(o)
	if err != nil {
		t.Fatal(err)
	}
	api, err := emulator.Describe()
	if err != nil {
		t.Fatal(err)
	}
	c.Emulator, c.URL = e, standintest.Serve(t, e)+emulator.Base
	c.HTTP = &http.Client{Transport: judge{t, api}}
	return c
}

// judge checks what passes through it.
type judge struct {
	t   testing.TB
	api *openapi.Document
}

// RoundTrip implements http.RoundTripper.
func (j judge) RoundTrip(q *http.Request) (*http.Response, error) {
	sent, err := readAll(&q.Body)
	if err != nil {
		return nil, err
	}
	a, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		return nil, err
	}
	got, err := readAll(&a.Body)
	if err != nil {
		return nil, err
	}
	o, variables, _ := j.api.Find(q.Method, strings.TrimPrefix(q.URL.EscapedPath(), emulator.Base))
	if o == nil {
		return a, nil
	}
	if a.StatusCode < http.StatusBadRequest {
		if err := o.Query(variables, q.URL.Query()); err != nil {
			j.t.Errorf("%s %s: %v", q.Method, q.URL, err)
		}
		if body, err := tree.Decode(sent); err != nil || o.Body(body) != nil {
			j.t.Errorf("%s %s %s: %v, %v", q.Method, q.URL, sent, err, o.Body(body))
		}
	}
	if body, err := tree.Decode(got); err != nil || o.Answer(a.StatusCode, body) != nil {
		j.t.Errorf("%s %s returns %s: %v, %v", q.Method, q.URL, got, err, o.Answer(a.StatusCode, body))
	}
	return a, nil
}

// readAll reads a body, and puts it back.
func readAll(body *io.ReadCloser) ([]byte, error) {
	if *body == nil {
		return nil, nil
	}
	text, err := io.ReadAll(*body)
	_ = (*body).Close() // it was read, or cannot be read
	*body = io.NopCloser(bytes.NewReader(text))
	return text, err
}
