package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"time"

	"kops.local/kops/internal/engine/clock"
	"kops.local/kops/internal/engine/fault"
)

const (
	// Tries is how often one request is sent. With one answer in ten throttled, a
	// command of 200 requests then fails once in 50,000.
	Tries = 7
	// firstBackoff is the longest wait before the second attempt; it doubles with each, up to MaxBackoff.
	firstBackoff = 100 * time.Millisecond
	// MaxBackoff is the longest wait between two attempts.
	MaxBackoff = 5 * time.Second
	// maxIdle keeps a connection for every request that a program has in flight.
	maxIdle = 64
)

// Backoff is the wait after an attempt, counted from 1: partly by chance, so that many
// clients do not come back at once. The waits of one request together are 3 to 6 s: an
// interruption that is shorter than that is survived.
func Backoff(attempt int) time.Duration {
	longest := min(firstBackoff<<min(attempt-1, 10), MaxBackoff)
	return longest/2 + rand.N(longest/2)
}

// KeepConnections lets a transport keep a connection for every request in flight.
func KeepConnections(t *http.Transport) { t.MaxIdleConns, t.MaxIdleConnsPerHost = maxIdle, maxIdle }

// NewClient returns a client for a server that is asked often. It follows KeepTLS.
func NewClient() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone() //nolint:errcheck // net/http says that it is one
	KeepConnections(t)
	return &http.Client{Transport: t, CheckRedirect: KeepTLS}
}

// Answer is a complete answer, of any status.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	// Tries is how often the request was sent. After more than one, an earlier one may have taken effect.
	Tries int
}

// OK reports success.
func (a Answer) OK() bool { return a.Status/100 == 2 }

// Ask sends the request that each call of next makes, until an answer is complete and not
// a sign of temporary trouble: 408, 429, 5xx, or an answer for which passes returns true; passes
// may be nil. An error means that no answer came: it is from ctx, from next, or one for Lost.
func Ask(ctx context.Context, client *http.Client, next func() (*http.Request, error), passes func(Answer) bool) (Answer, error) {
	for try := 1; ; try++ {
		a, err := ask(client, next)
		a.Tries = try
		again := err != nil && !hopeless(err) && !errors.As(err, new(*fault.Error)) || err == nil && (ClassOf(a.Status) == fault.NotYet || passes != nil && passes(a))
		if ctx.Err() != nil {
			return a, ctx.Err()
		}
		if !again || try == Tries {
			return a, err
		}
		if err := clock.Sleep(ctx, Backoff(try)); err != nil {
			return a, err
		}
	}
}

func ask(client *http.Client, next func() (*http.Request, error)) (Answer, error) {
	req, err := next()
	if err != nil {
		return Answer{}, fault.Wrap(fault.Of(err), err, "")
	}
	resp, err := client.Do(req)
	if err != nil {
		var e *url.Error
		if errors.As(err, &e) {
			err = e.Err // the caller names the place
		}
		return Answer{}, err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(resp.Body)
	return Answer{Status: resp.StatusCode, Header: resp.Header, Body: body}, err
}

// Lost classes what broke a connection to a store, or kept it from being made. A write
// that was sent may have taken effect.
func Lost(what string, err error) error {
	const remedy = "check the network, and the endpoint of the state store"
	err = fmt.Errorf("%s: %w", what, err)
	switch {
	case errors.As(err, new(*fault.Error)): // of what was to give credentials, or of a redirect
		return err
	case untrusted(err):
		return fault.Wrap(fault.Permanent, err, "check the proxy, or install the certificate authority of the state store on this machine")
	case hopeless(err):
		return fault.Wrap(fault.Permanent, err, remedy)
	}
	return fault.Wrap(fault.Lost, err, remedy)
}

// Refused says of what a connection was refused for that another one would be too.
func Refused(err error) bool { return untrusted(err) || noTLS(err) }

func hopeless(err error) bool {
	var name *net.DNSError
	return Refused(err) || errors.As(err, &name) && name.IsNotFound
}

// untrusted says that no authority that this machine knows has signed the server's certificate.
func untrusted(err error) bool { return errors.As(err, new(*tls.CertificateVerificationError)) }

// noTLS says that a server was asked by https that only speaks http.
func noTLS(err error) bool { return errors.Is(err, http.ErrSchemeMismatch) }

// Direct returns a client for the services of this machine alone, past any proxy.
func Direct() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone() //nolint:errcheck // net/http says that it is one
	t.Proxy = nil
	return &http.Client{Transport: t, Timeout: time.Minute}
}
