// Package gcerest is a minimal client for Google Cloud's JSON APIs, with a token of the machine's
// own service account. It is for the programs on machines, each of which needs a few calls, while
// Google's Compute Engine client alone adds 80,000 lines.
//
// It must not know what the responses are for, nor link an SDK.
package gcerest

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/rest"
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

// usualTimeout limits a call, including the request for a token.
const usualTimeout = 20 * time.Second

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

// at returns the client of a service.
func (c Client) at(s Service) rest.Client {
	return rest.Client{
		Base: cmp.Or(c.Endpoint, "https://"+string(s)+".googleapis.com") + "/" + string(s) + "/v1", HTTP: c.HTTP,
		Auth: rest.Bearer(c.Token), Classify: c.classify, Next: rest.NextValue("pageToken", "nextPageToken"),
		Timeout: usualTimeout, Patience: patienceForOperations, Unanswered: fault.NotYet,
	}
}

func (c Client) classify(a rest.Answer) error {
	e := newError(a.Status, a.Body)
	if e.Status == http.StatusUnauthorized && c.OnUnauthorized != nil {
		c.OnUnauthorized()
	}
	return fault.Wrap(e.faultClass(), e, e.remedy())
}

// Get reads the object at a path, such as projects/P/zones/Z/instances/I, into out.
func (c Client) Get(ctx context.Context, s Service, path string, query url.Values, out any) error {
	return c.at(s).Get(ctx, path, query, out)
}

// Do calls a method and decodes the response into out. An error response from Google is an *Error,
// whose class depends on its reason. Other errors have the class of Token's error, or else
// fault.NotYet: if a change got no response, the caller must check whether it was made before
// retrying.
func (c Client) Do(ctx context.Context, s Service, r rest.Request, out any) error {
	return c.at(s).Do(ctx, r, out)
}

// List calls a list method until there are no more pages. The items are in the response's field
// key, such as items.
func List[T any](ctx context.Context, c Client, s Service, r rest.Request, key string) ([]T, error) {
	return rest.List[T](ctx, c.at(s), r, key)
}
