// Package gs reads objects of Google's storage: as anybody, or else as the account of
// the machine. Nothing is listed or written there.
//
// It must not know what the objects mean, nor read the environment.
package gs

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/web"
)

// Config says who asks, and where.
type Config struct {
	// HTTP asks the storage; nil: the client of net/http.
	HTTP *http.Client
	// Metadata asks the machine for its account, past any proxy; nil: there is no machine to ask.
	Metadata *http.Client
	// Storage is where the objects are, and Server where machines are told who they are;
	// empty: Google's own.
	Storage, Server string
}

// Backend reads gs://bucket/object.
func Backend(c Config) store.Backend {
	if c.HTTP == nil {
		c.HTTP = http.DefaultClient
	}
	if c.Storage == "" {
		c.Storage = "https://storage.googleapis.com"
	}
	if c.Server == "" {
		c.Server = "http://metadata.google.internal"
	}
	return store.Backend{Schemes: []string{"gs"}, Read: c.read}
}

func (c Config) read(ctx context.Context, _, name string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Storage+"/"+name, nil)
	if err != nil {
		return nil, fault.Wrap(fault.Permanent, err, "")
	}
	body, err := web.Send(c.HTTP, req)
	if c.Metadata == nil || !fault.Is(err, fault.Denied) {
		return body, err
	}
	token, terr := c.token(ctx)
	if terr != nil {
		return nil, fault.Wrap(fault.Denied, fmt.Errorf("%w to anybody, and the machine has no account: %w", err, terr), "")
	}
	req.Header.Set("Authorization", "Bearer "+token)
	return web.Send(c.HTTP, req)
}

// token is that of the machine's account (Google Compute Engine, "Authenticate
// workloads to Google Cloud APIs").
func (c Config) token(ctx context.Context) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Server+"/computeMetadata/v1/instance/service-accounts/default/token", nil)
	if err != nil {
		return "", fault.Wrap(fault.Permanent, err, "")
	}
	req.Header.Set("Metadata-Flavor", "Google")
	answer, err := web.Send(c.Metadata, req)
	if err != nil {
		return "", err
	}
	defer answer.Close() //nolint:errcheck // it was only read
	var token struct {
		Access string `json:"access_token"`
	}
	if err := json.NewDecoder(answer).Decode(&token); err != nil {
		return "", fmt.Errorf("read its token: %w", err)
	}
	return token.Access, nil
}
