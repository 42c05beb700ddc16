// Package gcerest is a minimal client for Google Cloud's JSON APIs, with a token of the machine's
// own service account. It is for the programs on machines, each of which needs a few calls, while
// Google's Compute Engine client alone adds 80,000 lines.
//
// It must not know what the responses are for, nor link an SDK: it uses only the standard library
// and the error classes.
package gcerest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"kops.local/kops/internal/engine/fault"
)

// Environment variables.
const (
	// EndpointVariable holds a URL that replaces every service's URL: Compute Engine is below it at
	// /compute/v1, DNS at /dns/v1.
	EndpointVariable = "KOPS_GCE_ENDPOINT"
	// MetadataVariable holds HOST or HOST:PORT of the metadata server, as for Google's own
	// programs.
	MetadataVariable = "GCE_METADATA_HOST"
)

// Service is one of Google's APIs.
type Service string

// Services. Their names determine Google's host, and the path below EndpointVariable.
const (
	Compute Service = "compute"
	DNS     Service = "dns"
)

const (
	// usualTimeout limits a call, including the request for a token.
	usualTimeout = 20 * time.Second
	// maxResponse is the maximum size of a response, in bytes: in a page of 500 instances, each
	// includes its user data.
	maxResponse = 128 << 20
)

// Client calls the APIs' methods.
type Client struct {
	// Token returns a token for a call, and OnUnauthorized is called when Google rejects one; it may be
	// nil.
	Token          func(context.Context) (string, error)
	OnUnauthorized func()
	HTTP           *http.Client
	// Endpoint replaces the URLs of all services; empty: Google's own.
	Endpoint string
}

// New returns a client for this machine: env reads environment variables, direct is the HTTP client
// for the metadata server.
func New(env func(string) string, client, direct *http.Client, now func() time.Time) Client {
	tokens := &Tokens{Metadata: NewMetadata(env, direct), Now: now}
	return Client{Token: tokens.Token, OnUnauthorized: tokens.Forget, HTTP: client, Endpoint: strings.TrimSuffix(env(EndpointVariable), "/")}
}

// Get reads the object at a path, such as projects/P/zones/Z/instances/I, into out.
func (c Client) Get(ctx context.Context, s Service, path string, query url.Values, out any) error {
	return c.Do(ctx, http.MethodGet, s, path, query, nil, out)
}

// Do calls a method: it sends in as JSON, unless it is nil, and decodes the response into out. An
// error response from Google is an *Error, whose class depends on its reason. Other errors have the
// class of Token's error, or else fault.NotYet: if a change got no response, the caller must check
// whether it was made before retrying.
func (c Client) Do(ctx context.Context, method string, s Service, path string, query url.Values, in, out any) error {
	return c.doWithin(ctx, usualTimeout, method, s, path, query, in, out)
}

func (c Client) doWithin(ctx context.Context, limit time.Duration, method string, s Service, path string, query url.Values, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := c.request(ctx, method, s, path, query, in)
	if err != nil {
		return err
	}
	res, err := c.HTTP.Do(req)
	if err != nil {
		return fault.Wrap(fault.NotYet, err, "")
	}
	defer res.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(res.Body, maxResponse))
	switch {
	case err != nil:
		return fault.Wrap(fault.NotYet, err, "")
	case res.StatusCode/100 != 2:
		e := newError(res.StatusCode, text)
		if e.Status == http.StatusUnauthorized && c.OnUnauthorized != nil {
			c.OnUnauthorized()
		}
		return fault.Wrap(e.faultClass(), e, e.remedy())
	case out == nil || len(text) == 0: // a 204 has no content
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fault.New(fault.NotYet, "cannot parse the response: %w", err)
	}
	return nil
}

func (c Client) request(ctx context.Context, method string, s Service, path string, query url.Values, in any) (*http.Request, error) {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, fault.Wrap(fault.Permanent, err, "")
		}
		body = bytes.NewReader(text)
	}
	at := cmp.Or(c.Endpoint, "https://"+string(s)+".googleapis.com") + "/" + string(s) + "/v1/" + path
	if len(query) > 0 {
		at += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, at, body)
	if err != nil {
		return nil, fault.Wrap(fault.Permanent, err, "")
	}
	token, err := c.Token(ctx)
	if err != nil {
		return nil, fmt.Errorf("find credentials: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

// List calls a list method until there are no more pages. The items are in the response's field
// key, such as items.
func List[T any](ctx context.Context, c Client, method string, s Service, path, key string, query url.Values) ([]T, error) {
	var out []T
	next := ""
	for {
		q := url.Values{}
		for k, v := range query {
			q[k] = v
		}
		if next != "" {
			q.Set("pageToken", next)
		}
		page := map[string]json.RawMessage{}
		if err := c.Do(ctx, method, s, path, q, nil, &page); err != nil {
			return nil, err
		}
		var things []T
		before := next
		err := errors.Join(decodeField(page, key, &things), decodeField(page, "nextPageToken", &next))
		switch {
		case err != nil:
			return nil, fault.New(fault.NotYet, "cannot parse the response: %w", err)
		case page["nextPageToken"] == nil || next == "":
			return append(out, things...), nil
		case next == before:
			return nil, fault.New(fault.NotYet, "the same page was returned twice")
		}
		out = append(out, things...)
	}
}

// decodeField reads a field that may be missing.
func decodeField(page map[string]json.RawMessage, key string, into any) error {
	text, there := page[key]
	if !there {
		return nil
	}
	return json.Unmarshal(text, into)
}
