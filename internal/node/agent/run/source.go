package run

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"kops.local/kops/internal/node/host"
	"kops.local/kops/internal/platform/onmachine"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/open"
	"kops.local/kops/internal/store/web"
)

// source reads a cluster's store, and files from wherever they are: over HTTP, and
// from the stores that every program supports.
type source struct {
	stores store.Backends
	client *http.Client
}

// open opens the file at a URL.
func (s source) open(ctx context.Context, url string) (io.ReadCloser, error) {
	if strings.HasPrefix(url, "file://") || !s.stores.Reads(url) {
		return host.Open(s.client)(ctx, url)
	}
	return s.stores.Read(ctx, url)
}

// Read returns the content at a URL.
func (s source) Read(ctx context.Context, url string) ([]byte, error) {
	read := s.stores.Read
	if strings.HasPrefix(url, "http://") || strings.HasPrefix(url, "https://") {
		read = host.Open(s.client)
	}
	body, err := read(ctx, url)
	if err != nil {
		return nil, err
	}
	defer body.Close() //nolint:errcheck // only read
	return web.Read(body, largest)
}

// largest is the maximum size of a configuration, key or manifest, in bytes.
const largest = 64 << 20

// source returns the stores that machines with an API server read. Without other credentials, the
// machine's own account is used.
func (o Options) source(client *http.Client) source {
	return source{onmachine.Stores(o.Platforms, o.world(), open.Options{Env: o.Env, HTTP: client, Account: o.account()}), client}
}

// account returns the credentials of the machine's own account, and refreshes them
// five minutes before they expire; nil if no platform has any.
func (o Options) account() open.Account {
	for _, p := range o.Platforms {
		if p.Credentials != nil {
			return open.RefreshingAccount(4*time.Minute, func(ctx context.Context) (id, secret, token string, err error) {
				c, err := p.Credentials(ctx, o.world())
				return c.ID, c.Secret, c.Token, err
			})
		}
	}
	return nil
}
