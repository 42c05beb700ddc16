// Package gcerest asks Google's cloud: JSON goes out and comes back, with a token of the
// machine's own service account. It is for the programs of machines, each of which needs a
// few calls, where Google's client of Compute alone brings 80,000 lines.
//
// It must not know what the answers are for, nor link an SDK: it has the standard library
// and the classes of errors only.
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

// Variables of the environment.
const (
	// EndpointVariable holds a URL that replaces every service's: Compute is below it at
	// /compute/v1, DNS at /dns/v1.
	EndpointVariable = "KOPS_GCE_ENDPOINT"
	// MetadataVariable holds HOST or HOST:PORT of the metadata server, as in Google's own programs.
	MetadataVariable = "GCE_METADATA_HOST"
)

// Service is an API of Google's.
type Service string

// Services, of which Google's address and that below EndpointVariable follow from their names.
const (
	Compute Service = "compute"
	DNS     Service = "dns"
)

const (
	// usualTimeout bounds a call, with the question for a token.
	usualTimeout = 20 * time.Second
	// longest is the longest answer that is read, in bytes: a page of 500 instances has each
	// one's user data.
	longest = 128 << 20
)

// Client calls methods of services.
type Client struct {
	// Token returns the token of a call, and Refused is called when Google did not take one; it
	// may be nil.
	Token   func(context.Context) (string, error)
	Refused func()
	HTTP    *http.Client
	// Endpoint stands for every service; empty: Google's own.
	Endpoint string
}

// New is a client of this machine: env reads variables, direct asks the metadata server.
func New(env func(string) string, client, direct *http.Client, now func() time.Time) Client {
	tokens := &Tokens{Metadata: NewMetadata(env, direct), Now: now}
	return Client{Token: tokens.Token, Refused: tokens.Forget, HTTP: client, Endpoint: strings.TrimSuffix(env(EndpointVariable), "/")}
}

// Get reads what is at a path, such as projects/P/zones/Z/instances/I, into out.
func (c Client) Get(ctx context.Context, s Service, path string, query url.Values, out any) error {
	return c.Do(ctx, http.MethodGet, s, path, query, nil, out)
}

// Do calls a method: it sends in as JSON, unless it is nil, and decodes the answer into out. A
// refusal by Google is an *Error, whose class says what it means. Other errors have the class of
// Token's error, and otherwise fault.NotYet: if a change was not answered, the caller must look
// before the next try whether it was made.
func (c Client) Do(ctx context.Context, method string, s Service, path string, query url.Values, in, out any) error {
	return c.within(ctx, usualTimeout, method, s, path, query, in, out)
}

func (c Client) within(ctx context.Context, limit time.Duration, method string, s Service, path string, query url.Values, in, out any) error {
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
	text, err := io.ReadAll(io.LimitReader(res.Body, longest))
	switch {
	case err != nil:
		return fault.Wrap(fault.NotYet, err, "")
	case res.StatusCode/100 != 2:
		e := refusal(res.StatusCode, text)
		if e.Status == http.StatusUnauthorized && c.Refused != nil {
			c.Refused()
		}
		return fault.Wrap(e.class(), e, e.remedy())
	case out == nil || len(text) == 0: // as 204 has no content
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fault.New(fault.NotYet, "the answer is not understood: %w", err)
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

// List calls a method that lists until there are no more pages. The things are in the
// answer's field key, such as items.
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
		err := errors.Join(field(page, key, &things), field(page, "nextPageToken", &next))
		switch {
		case err != nil:
			return nil, fault.New(fault.NotYet, "the answer is not understood: %w", err)
		case page["nextPageToken"] == nil || next == "":
			return append(out, things...), nil
		case next == before:
			return nil, fault.New(fault.NotYet, "the answer has the same page again")
		}
		out = append(out, things...)
	}
}

// field reads a field that may not be there.
func field(page map[string]json.RawMessage, key string, into any) error {
	text, there := page[key]
	if !there {
		return nil
	}
	return json.Unmarshal(text, into)
}
