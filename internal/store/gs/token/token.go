// Package token provides access tokens for Google's APIs: cached until they expire, and
// on machines obtained from the metadata server. It links no SDK.
//
// It must not know what they are for, nor read the environment.
package token

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store/web"
)

// Token is an OAuth 2 access token, and Source returns one.
type (
	Token  = web.Token
	Source = web.TokenSource
)

// early is how long before its expiry a token is no longer used. The metadata server issues a new
// one during the last five minutes (Compute Engine, "Authenticate workloads to Google Cloud APIs").
const early = 225 * time.Second

// Cached returns a source that gets a token when it is first needed, and a new one before it expires.
func Cached(from Source) Source { return web.CachedToken(from, early) }

// Server is the metadata server of machines. It is reached without DNS.
const Server = "http://169.254.169.254"

// MachineSource gets tokens of the machine's own account from the metadata server. client bypasses
// any proxy; server is a URL, or a host as in GCE_METADATA_HOST, or "" for Server.
func MachineSource(client *http.Client, server string) Source {
	switch {
	case server == "":
		server = Server
	case !strings.Contains(server, "://"):
		server = "http://" + server
	}
	return func(ctx context.Context) (Token, error) {
		a, err := web.Do(ctx, client, func() (*http.Request, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/computeMetadata/v1/instance/service-accounts/default/token", nil)
			if err == nil {
				req.Header.Set("Metadata-Flavor", "Google")
			}
			return req, err
		}, nil)
		switch {
		case err != nil:
			return Token{}, deniedError(err)
		case !a.OK():
			return Token{}, deniedError(fmt.Errorf("the metadata server answers %d", a.Status))
		}
		var t struct {
			Access  string `json:"access_token"`
			Seconds int    `json:"expires_in"`
		}
		if err := json.Unmarshal(a.Body, &t); err != nil || t.Access == "" {
			return Token{}, deniedError(errors.New("the metadata server's answer is not a token"))
		}
		return Token{Access: t.Access, Expires: time.Now().Add(time.Duration(t.Seconds) * time.Second)}, nil
	}
}

// deniedError hides the class of a cause: that the metadata server has no token says nothing about
// the store.
func deniedError(err error) error {
	return fault.Wrap(fault.Denied, fmt.Errorf("the machine has no account: %v", err), //nolint:errorlint // see above
		"give the instance a service account, with the required scope")
}

// Client returns a client that adds a token to its requests; base sends them. Clients of
// Google's SDK accept it in place of credentials.
func Client(base *http.Client, from Source) *http.Client {
	signed := *base
	signed.Transport = signer{base.Transport, Cached(from)}
	return &signed
}

type signer struct {
	base http.RoundTripper // nil: net/http's
	from Source
}

// RoundTrip implements http.RoundTripper.
func (s signer) RoundTrip(r *http.Request) (*http.Response, error) {
	t, err := s.from(r.Context())
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // as a RoundTripper must
		}
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+t.Access)
	by := s.base
	if by == nil {
		by = http.DefaultTransport
	}
	return by.RoundTrip(r)
}
