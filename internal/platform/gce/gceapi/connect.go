package gceapi

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/api/cloudresourcemanager/v1"
	"google.golang.org/api/compute/v1"
	"google.golang.org/api/dns/v1"
	"google.golang.org/api/iam/v1"
	"google.golang.org/api/option"
	"google.golang.org/api/storage/v1"
	transport "google.golang.org/api/transport/http"

	"kops.local/kops/internal/engine/clock"
	"kops.local/kops/internal/engine/fault"
)

// Config says how to reach Google. Credentials are the default ones of Google's libraries: from
// GOOGLE_APPLICATION_CREDENTIALS, gcloud, or the machine.
type Config struct {
	// Project and Region are the cluster's.
	Project, Region string
	// Endpoint, when not empty, is the URL below which all services are, for an emulator. Requests
	// to it have no credentials.
	Endpoint string
	// HTTPClient, when not nil, sends the requests. Signed reports that it adds the credentials,
	// too.
	HTTPClient *http.Client
	Signed     bool
	// UserAgent is the name and version of this program for the User-Agent header.
	UserAgent string
	// Sleep waits between polls of an operation, or returns the context's error; nil: clock.Sleep.
	Sleep func(context.Context, time.Duration) error
}

// scope allows everything that the account's roles allow (OAuth 2.0 Scopes for Google APIs).
const scope = "https://www.googleapis.com/auth/cloud-platform"

// Connect creates the clients. It sends no request: the first request looks up the credentials.
func Connect(ctx context.Context, c Config) (*Clients, error) {
	out := &Clients{Project: c.Project, Region: c.Region, sleep: c.Sleep}
	if out.sleep == nil {
		out.sleep = clock.Sleep
	}
	client := option.WithHTTPClient(c.client())
	// at returns the options of a service whose paths start with path below an endpoint.
	at := func(path string) []option.ClientOption {
		if c.Endpoint == "" {
			return []option.ClientOption{client}
		}
		return []option.ClientOption{client, option.WithEndpoint(strings.TrimSuffix(c.Endpoint, "/") + path)}
	}
	var err error
	made := func(service string, e error) {
		if e != nil && err == nil {
			err = fault.Wrap(fault.Permanent, fmt.Errorf("create the client of %s: %w", service, e), "")
		}
	}
	var e error
	out.Compute, e = compute.NewService(ctx, at("/compute/v1/")...)
	made("Compute Engine", e)
	out.IAM, e = iam.NewService(ctx, at("/")...)
	made("IAM", e)
	out.Projects, e = cloudresourcemanager.NewService(ctx, at("/")...)
	made("Cloud Resource Manager", e)
	out.DNS, e = dns.NewService(ctx, at("/")...)
	made("Cloud DNS", e)
	out.Storage, e = storage.NewService(ctx, at("/storage/v1/")...)
	made("Cloud Storage", e)
	if err != nil {
		return nil, err
	}
	if agent := c.UserAgent; agent != "" {
		out.Compute.UserAgent, out.IAM.UserAgent, out.Projects.UserAgent, out.DNS.UserAgent, out.Storage.UserAgent = agent, agent, agent, agent, agent
	}
	return out, nil
}

// client returns a client that adds credentials and gives errors their class.
func (c Config) client() *http.Client {
	out := &http.Client{}
	if c.HTTPClient != nil {
		*out = *c.HTTPClient
	}
	by := out.Transport
	if by == nil && c.HTTPClient == nil {
		by = newTransport()
	}
	if by == nil {
		by = http.DefaultTransport
	}
	if c.Endpoint == "" && !c.Signed {
		by = &signer{base: by}
	}
	out.Transport = &classifier{base: by, project: c.Project}
	return out
}

// newTransport returns a transport that keeps enough connections open for all concurrent calls.
func newTransport() http.RoundTripper {
	const connections = 128
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = connections, connections
	t.ResponseHeaderTimeout = cmp.Or(t.ResponseHeaderTimeout, 150*time.Second) // waiting for an operation takes up to two minutes
	t.DialContext = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	return t
}

// signer adds the credentials, which the first request looks up.
type signer struct {
	base http.RoundTripper

	mu            sync.Mutex
	authenticated http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (s *signer) RoundTrip(q *http.Request) (*http.Response, error) {
	by, err := s.transport()
	if err != nil {
		if q.Body != nil {
			_ = q.Body.Close() // as a RoundTripper must
		}
		return nil, err
	}
	return by.RoundTrip(q)
}

// transport looks up the credentials once. Their tokens outlive that request.
func (s *signer) transport() (http.RoundTripper, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.authenticated != nil {
		return s.authenticated, nil
	}
	by, err := transport.NewTransport(context.Background(), s.base, option.WithScopes(scope))
	if err != nil {
		return nil, fault.Wrap(fault.Denied, fmt.Errorf("find Google Cloud credentials: %w", err), remedyCredentials)
	}
	s.authenticated = by
	return by, nil
}
