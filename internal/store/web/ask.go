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
	// Tries is how often one request is sent. If one answer in ten is throttled, a
	// command of 200 requests then fails once in 50,000.
	Tries = 7
	// firstBackoff is the longest wait before the second attempt; it doubles with each attempt, up to
	// MaxBackoff.
	firstBackoff = 100 * time.Millisecond
	// MaxBackoff is the longest wait between two attempts.
	MaxBackoff = 5 * time.Second
	// maxIdle allows one connection for every request that a program has in flight.
	maxIdle = 64
)

// Backoff returns the wait after an attempt, counted from 1. It is partly random, so
// that many clients do not retry at the same time. The waits of one request add up to 3
// to 6 s, so that a request survives any shorter interruption.
func Backoff(attempt int) time.Duration {
	longest := min(firstBackoff<<min(attempt-1, 10), MaxBackoff)
	return longest/2 + rand.N(longest/2)
}

// IsLast reports whether a request is not sent again after an attempt, counted from 1, which failed
// temporarily.
func IsLast(attempt int, err error) bool {
	return fault.IsLast(attempt, Tries, err)
}

// PoolConnections lets a transport keep a connection for every request in flight.
func PoolConnections(t *http.Transport) { t.MaxIdleConns, t.MaxIdleConnsPerHost = maxIdle, maxIdle }

// NewClient returns a client for a server that gets many requests. It follows KeepTLS.
func NewClient() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone() //nolint:errcheck // net/http documents the type
	PoolConnections(t)
	return &http.Client{Transport: t, CheckRedirect: KeepTLS}
}

// Answer is a complete response, of any status.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	// Tries is how often the request was sent. If more than once, an earlier one may have taken effect.
	Tries int
}

// OK reports whether the request succeeded.
func (a Answer) OK() bool { return a.Status/100 == 2 }

// Do sends the requests returned by next, until an answer is complete and not a sign of
// temporary trouble: 408, 429, 5xx, or an answer for which passes returns true; passes may be
// nil. An error means that there was no answer: it is from ctx, from next, or one for ConnectionError.
func Do(ctx context.Context, client *http.Client, next func() (*http.Request, error), passes func(Answer) bool) (Answer, error) {
	for try := 1; ; try++ {
		a, err := attempt(client, next)
		a.Tries = try
		retry := err != nil && !isPermanent(err) && !errors.As(err, new(*fault.Error)) || err == nil && (ClassOf(a.Status) == fault.NotYet || passes != nil && passes(a))
		if ctx.Err() != nil {
			return a, ctx.Err()
		}
		if !retry || IsLast(try, err) {
			return a, err
		}
		if err := clock.Sleep(ctx, Backoff(try)); err != nil {
			return a, err
		}
	}
}

func attempt(client *http.Client, next func() (*http.Request, error)) (Answer, error) {
	req, err := next()
	if err != nil {
		return Answer{}, fault.Wrap(fault.Of(err), err, "")
	}
	resp, err := client.Do(req)
	if err != nil {
		var e *url.Error
		if errors.As(err, &e) {
			err = e.Err // the caller adds the place
		}
		return Answer{}, err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(resp.Body)
	return Answer{Status: resp.StatusCode, Header: resp.Header, Body: body}, err
}

// ConnectionError classifies an error that broke a connection to a store, or prevented one. A
// write that was sent may have taken effect.
func ConnectionError(what string, err error) error {
	const remedy = "check the network, and the endpoint of the state store"
	err = fmt.Errorf("%s: %w", what, err)
	switch {
	case errors.As(err, new(*fault.Error)): // from a source of credentials, or a redirect
		return err
	case isUntrusted(err):
		return fault.Wrap(fault.Permanent, err, "check the proxy, or install the certificate authority of the state store on this machine")
	case isPermanent(err):
		return fault.Wrap(fault.Permanent, err, remedy)
	}
	return fault.Wrap(fault.Lost, err, remedy)
}

// IsTLSError reports whether another connection would fail for the same reason.
func IsTLSError(err error) bool { return isUntrusted(err) || isPlainHTTP(err) }

func isPermanent(err error) bool {
	var name *net.DNSError
	return IsTLSError(err) || errors.As(err, &name) && name.IsNotFound
}

// isUntrusted reports whether the server's certificate is not signed by an authority that this
// machine trusts.
func isUntrusted(err error) bool { return errors.As(err, new(*tls.CertificateVerificationError)) }

// isPlainHTTP reports whether an https request was sent to a server that only speaks http.
func isPlainHTTP(err error) bool { return errors.Is(err, http.ErrSchemeMismatch) }

// Direct returns a client for services that belong to this machine, bypassing any proxy.
func Direct() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone() //nolint:errcheck // net/http documents the type
	t.Proxy = nil
	return &http.Client{Transport: t, Timeout: time.Minute}
}
