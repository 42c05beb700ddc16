package host

import (
	"context"
	"errors"
	"fmt"
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
// connect and to get an answer, 10 for TLS, and the proxy that proxy names, as
// http.Transport has it. What begins with TLS is not redirected to a place without:
// not every file has a digest.
func NewHTTPClient(proxy func(*http.Request) (*url.URL, error)) *http.Client {
	return &http.Client{CheckRedirect: web.KeepTLS, Transport: &http.Transport{
		Proxy:                 proxy,
		DialContext:           (&net.Dialer{Timeout: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: 30 * time.Second,
		ForceAttemptHTTP2:     true,
	}}
}

// Open returns a Machine.Fetch for http, https and file URLs. Its errors say
// whether a later try may help.
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
			return Send(client, req)
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

// Send sends a request for a file and returns the body of an answer that has
// one. Errors are of class fault.NotYet where a later try may help, and
// fault.Denied where the server wants to know who asks.
func Send(client *http.Client, req *http.Request) (io.ReadCloser, error) {
	res, err := client.Do(req)
	if err != nil {
		var e *url.Error
		if errors.As(err, &e) {
			err = e.Err // the caller names the place
		}
		if errors.As(err, new(*fault.Error)) { // of web.KeepTLS
			return nil, err
		}
		return nil, fault.Wrap(fault.NotYet, err, "")
	}
	if res.StatusCode/100 == 2 {
		return res.Body, nil
	}
	_ = res.Body.Close() // nothing of it is read
	return nil, fault.Wrap(web.ClassOf(res.StatusCode), fmt.Errorf("the server answers %s", res.Status), "")
}
