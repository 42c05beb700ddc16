// Package token has the access tokens by which Google's APIs know who asks: kept until
// they end, and for machines got from their metadata server. No SDK is linked.
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
	"sync"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store/web"
)

// Token is an OAuth 2 access token.
type Token struct {
	Access  string
	Expires time.Time
}

// Source returns a token. Errors are of class fault.Denied where there is none to be had.
type Source func(context.Context) (Token, error)

// early is how long before its end a token is no longer used. The metadata server issues
// a new one from five minutes before the end on (Compute Engine, "Authenticate
// workloads to Google Cloud APIs").
const early = 225 * time.Second

// Keep asks for a token when it is first needed, and again before it ends.
func Keep(from Source) Source {
	var mu sync.Mutex
	var kept Token
	return func(ctx context.Context) (Token, error) {
		mu.Lock()
		defer mu.Unlock()
		if time.Until(kept.Expires) > early {
			return kept, nil
		}
		t, err := from(ctx)
		if err == nil {
			kept = t
		}
		return t, err
	}
}

// Server is the metadata server of machines. No name service is needed for it.
const Server = "http://169.254.169.254"

// Machine asks the metadata server for tokens of the machine's own account. client goes
// past any proxy; server is a URL, or a host as GCE_METADATA_HOST has it, or "" for Server.
func Machine(client *http.Client, server string) Source {
	switch {
	case server == "":
		server = Server
	case !strings.Contains(server, "://"):
		server = "http://" + server
	}
	return func(ctx context.Context) (Token, error) {
		a, err := web.Ask(ctx, client, func() (*http.Request, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/computeMetadata/v1/instance/service-accounts/default/token", nil)
			if err == nil {
				req.Header.Set("Metadata-Flavor", "Google")
			}
			return req, err
		}, nil)
		switch {
		case err != nil:
			return Token{}, denied(err)
		case !a.OK():
			return Token{}, denied(fmt.Errorf("the metadata server answers %d", a.Status))
		}
		var t struct {
			Access  string `json:"access_token"`
			Seconds int    `json:"expires_in"`
		}
		if err := json.Unmarshal(a.Body, &t); err != nil || t.Access == "" {
			return Token{}, denied(errors.New("the metadata server's answer is not a token"))
		}
		return Token{t.Access, time.Now().Add(time.Duration(t.Seconds) * time.Second)}, nil
	}
}

// denied hides the class of a cause: a metadata server without a token says nothing about the
// store.
func denied(err error) error {
	return fault.Wrap(fault.Denied, fmt.Errorf("the machine has no account: %v", err), //nolint:errorlint // see above
		"give the instance a service account, with the required scope")
}

// Client is a client whose requests bear a token; base sends them. It is what clients of
// Google's SDK take in place of credentials.
func Client(base *http.Client, from Source) *http.Client {
	signed := *base
	signed.Transport = signer{base.Transport, Keep(from)}
	return &signed
}

type signer struct {
	by   http.RoundTripper // nil: net/http's
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
	by := s.by
	if by == nil {
		by = http.DefaultTransport
	}
	return by.RoundTrip(r)
}
