package host

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store/web"
)

// NewHTTPClient returns the client that files are fetched with: 30 seconds to
// connect and to get a response, 10 for TLS, and the proxy that proxy returns, as
// in http.Transport. It does not follow redirects from TLS to plain HTTP: not every
// file has a digest.
func NewHTTPClient(proxy func(*http.Request) (*url.URL, error)) *http.Client {
	return &http.Client{CheckRedirect: web.KeepTLS, Transport: &http.Transport{
		Proxy:                 proxy,
		DialContext:           (&net.Dialer{Timeout: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: 30 * time.Second,
		ForceAttemptHTTP2:     true,
	}}
}

// Open returns a Machine.Fetch for http, https and file URLs. The class of its
// errors tells whether a retry may help.
func Open(client *http.Client) func(context.Context, string) (io.ReadCloser, error) {
	return func(ctx context.Context, place string) (io.ReadCloser, error) {
		u, err := url.Parse(place)
		if err != nil {
			return nil, fault.Wrap(fault.Permanent, err, "")
		}
		switch u.Scheme {
		case "http", "https":
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, place, nil)
			if err != nil {
				return nil, fault.Wrap(fault.Permanent, err, "")
			}
			return web.Send(client, req)
		case "file":
			f, err := os.Open(u.Path)
			if err != nil {
				return nil, err
			}
			return f, nil
		}
		return nil, fault.New(fault.Permanent, "files cannot be fetched with the scheme %q", u.Scheme)
	}
}
