// Package rest is a client for the JSON APIs of clouds: requests with credentials, errors with their
// classes, lists in pages, and operations that continue after the response. A cloud adds its URL,
// the form of its errors and the types that it uses.
//
// It limits neither rates nor concurrency, and repeats nothing by itself: the engine does, which knows
// the limits of each API. A program without the engine sets Repeat, or tries again later.
//
// It must not know any cloud, nor link an SDK: it uses only the standard library, the clock and the
// classes of errors.
package rest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"kops.local/kops/internal/engine/clock"
	"kops.local/kops/internal/engine/fault"
)

// maxAnswer is the maximum size of a response, in bytes: in a page of 500 machines, each may include
// its user data.
const maxAnswer = 128 << 20

// Client calls the methods of one API.
type Client struct {
	// Base is the URL before the path of each request, without the slash between them.
	Base string
	HTTP *http.Client
	// Auth adds the credentials to a request, and other headers that each needs; nil: none.
	Auth func(*http.Request) error
	// Classify returns the error for a response whose status is not 2xx, with its class. Redirects are
	// errors, too, but never passed to it.
	Classify func(Answer) error
	// Next finds the next page of a list; nil: lists have one page.
	Next Paging
	// Timeout limits a request, including Auth; 0: only the context does.
	Timeout time.Duration
	// Unanswered is the class of an error without a response. Empty: fault.Lost, or fault.Permanent
	// if another attempt would fail for the same reason, such as an unknown certificate.
	Unanswered fault.Class
	// Repeat makes Do repeat requests that only read, see fault.Retry. It is for programs without the
	// engine, which repeats whole lists and steps.
	Repeat bool
	// Patience limits Await; 0: only the context does.
	Patience time.Duration
	// Pause waits, or returns the context's error; nil: clock.Sleep.
	Pause func(context.Context, time.Duration) error
}

// Config says how a program reaches an API that takes a token.
type Config struct {
	// Endpoint is the API's URL; empty: the cloud's.
	Endpoint string
	Token    string
	HTTP     *http.Client // nil: http.DefaultClient
	// UserAgent is the name and version of the program; may be empty.
	UserAgent string
	// Repeat and Pause are a Client's.
	Repeat bool
	Pause  func(context.Context, time.Duration) error
}

// Client returns a client of the API at c.Endpoint, or else at endpoint. check returns an error for a token
// that cannot be sent.
func (c Config) Client(endpoint string, check func(token string) error) Client {
	out := Client{Base: strings.TrimSuffix(cmp.Or(c.Endpoint, endpoint), "/"), HTTP: cmp.Or(c.HTTP, http.DefaultClient), Repeat: c.Repeat, Pause: c.Pause}
	bearer := Bearer(func(context.Context) (string, error) { return c.Token, check(c.Token) })
	out.Auth = func(r *http.Request) error {
		if c.UserAgent != "" {
			r.Header.Set("User-Agent", c.UserAgent)
		}
		return bearer(r)
	}
	return out
}

// Request is one call of a method.
type Request struct {
	Method string // empty: GET
	Path   string // below the client's Base
	Query  url.Values
	Body   any // sent as JSON unless nil
	// Timeout replaces the client's; 0: it does not.
	Timeout time.Duration
}

// Answer is a complete response.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Bearer returns an Auth that sends a token (RFC 6750).
func Bearer(token func(context.Context) (string, error)) func(*http.Request) error {
	return func(req *http.Request) error {
		t, err := token(req.Context())
		if err != nil {
			return fmt.Errorf("find credentials: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+t)
		return nil
	}
}

// Do sends a request and decodes the response into out, unless it is nil or the response is empty. An
// error is from Auth or Classify, or has the class Unanswered. A Throttled error knows how long the
// server asks to wait, see fault.After.
func (c Client) Do(ctx context.Context, r Request, out any) error {
	once := func() error { return c.send(ctx, r, out) }
	if !c.Repeat || cmp.Or(r.Method, http.MethodGet) != http.MethodGet {
		return once()
	}
	return fault.Retry(ctx, c.pause, once)
}

// Get reads the object at a path into out.
func (c Client) Get(ctx context.Context, path string, query url.Values, out any) error {
	return c.Do(ctx, Request{Path: path, Query: query}, out)
}

func (c Client) pause(ctx context.Context, d time.Duration) error {
	if c.Pause == nil {
		return clock.Sleep(ctx, d)
	}
	return c.Pause(ctx, d)
}

func (c Client) send(ctx context.Context, r Request, out any) error {
	if limit := cmp.Or(r.Timeout, c.Timeout); limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	req, err := c.request(ctx, r)
	if err != nil {
		return err
	}
	res, err := direct(c.HTTP).Do(req)
	if err != nil {
		return c.connectionError(req.URL.Host, err)
	}
	defer res.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	switch {
	case err != nil:
		return c.connectionError(req.URL.Host, err)
	case res.StatusCode/100 == 3:
		return c.redirectError(req.URL.Host, res)
	case res.StatusCode/100 != 2:
		return c.refusal(Answer{res.StatusCode, res.Header, text})
	case out == nil || len(text) == 0 && req.Method != http.MethodGet: // a 204 has no content, but nothing that is read is empty
		return nil
	}
	return c.parseError(json.Unmarshal(text, out))
}

func (c Client) request(ctx context.Context, r Request) (*http.Request, error) {
	var body io.Reader
	if r.Body != nil {
		text, err := json.Marshal(r.Body)
		if err != nil {
			return nil, fault.Wrap(fault.Permanent, err, "")
		}
		body = bytes.NewReader(text)
	}
	at := c.Base + "/" + r.Path
	if len(r.Query) > 0 {
		at += "?" + r.Query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, at, body)
	if err != nil {
		return nil, fault.Wrap(fault.Permanent, err, "")
	}
	if r.Body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.Auth == nil {
		return req, nil
	}
	return req, c.Auth(req)
}

// direct returns a client that follows no redirects: it would send a header with credentials to any other
// host, and replace a POST by a GET.
func direct(c *http.Client) *http.Client {
	out := *c
	out.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &out
}

// redirectError returns the error for a redirect.
func (c Client) redirectError(host string, res *http.Response) error {
	to := "nowhere"
	if at, err := res.Location(); err == nil {
		to = at.Redacted()
	}
	return fault.Wrap(cmp.Or(c.Unanswered, fault.Permanent), fmt.Errorf("%s redirects to %s (%s), which does not get the credentials", host, to, res.Status), "check the proxy and the endpoint of the API")
}

// refusal returns the error for a response other than 2xx and 3xx.
func (c Client) refusal(a Answer) error {
	err := c.Classify(a)
	if class := fault.Of(err); class.Retryable() && fault.After(err) == 0 {
		return &fault.Error{Class: class, After: retryAfter(a.Header), Err: err}
	}
	return err
}

func (c Client) parseError(err error) error {
	if err == nil {
		return nil
	}
	return fault.New(c.unanswered(), "cannot parse the response: %w", err)
}

// ClassOf returns the class of an error response whose code means nothing else.
func ClassOf(status int) fault.Class {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return fault.Denied
	case status == http.StatusNotFound:
		return fault.Gone
	case status == http.StatusTooManyRequests:
		return fault.Throttled
	case status >= http.StatusInternalServerError:
		return fault.Lost
	}
	return fault.Permanent
}

func (c Client) unanswered() fault.Class { return cmp.Or(c.Unanswered, fault.Lost) }

// connectionError returns the error of a request without a response. It may have taken effect.
func (c Client) connectionError(host string, err error) error {
	if errors.As(err, new(*fault.Error)) { // from the HTTP client, about credentials or a redirect
		return err
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	err = fmt.Errorf("connect to %s: %w", host, err)
	var name *net.DNSError
	switch {
	case c.Unanswered != "":
	case errors.As(err, &name) && name.IsNotFound:
		return fault.Wrap(fault.Permanent, err, "check the network and its name servers")
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return fault.Wrap(fault.Permanent, err, "check the proxy, or set SSL_CERT_FILE to its certificate authorities")
	case errors.Is(err, http.ErrSchemeMismatch):
		return fault.Wrap(fault.Permanent, err, "check the endpoint of the API")
	}
	return fault.Wrap(c.unanswered(), err, "")
}
