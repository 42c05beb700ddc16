package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// handler forwards health checks to the API server at an address.
func handler(address string, a *apiClient) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.kube-apiserver-healthcheck/healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok") // the client is gone if it fails
	})
	for _, path := range []string{"/livez", "/readyz", "/healthz"} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			a.forward(w, r, url.URL{Scheme: "https", Host: address, Path: path, RawQuery: forwarded(r.URL.Query())})
		})
	}
	return mux
}

// forwarded returns the parameters that are forwarded to the API server.
func forwarded(q url.Values) string {
	out := url.Values{}
	for _, name := range []string{"exclude", "verbose"} {
		if q.Has(name) {
			out[name] = q[name]
		}
	}
	return out.Encode()
}

// addresses parses a list of addresses.
func addresses(list string) ([]netip.Addr, error) {
	var out []netip.Addr
	for s := range strings.SplitSeq(list, ",") {
		if s == "" {
			continue
		}
		a, err := netip.ParseAddr(s)
		if err != nil {
			return nil, fmt.Errorf("--clients: got %q, which is not an address such as 10.0.0.1", s)
		}
		out = append(out, a.Unmap())
	}
	return out, nil
}

// allowOnly accepts requests from this machine and from the addresses; without any, all requests.
func allowOnly(allowed []netip.Addr, h http.Handler) http.Handler {
	if len(allowed) == 0 {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, err := netip.ParseAddrPort(r.RemoteAddr)
		if a := from.Addr().Unmap(); err != nil || !a.IsLoopback() && !slices.Contains(allowed, a) {
			w.Header().Set("Connection", "close")
			http.Error(w, "only load balancers of the cluster are served", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// credentials are files: authorities, a client certificate and its key.
type credentials struct{ ca, cert, key string }

// apiClient sends requests with credentials that it reloads when their files change.
type apiClient struct {
	files credentials
	// request counts the pending requests to the API server.
	request atomic.Int32

	mu     sync.Mutex
	client *http.Client
	read   [3]stamp // of the files that client was created from
}

const (
	// answerTime is twice the timeout of the kubelet's probes.
	answerTime = 30 * time.Second
	// maxRequests is far above the concurrency of probes and load balancers.
	maxRequests = 32
)

// stamp identifies a version of a file.
type stamp struct{ modified, size int64 }

// forward sends the request to the API server and returns its response.
func (a *apiClient) forward(w http.ResponseWriter, r *http.Request, to url.URL) {
	defer a.request.Add(-1)
	if a.request.Add(1) > maxRequests {
		http.Error(w, fmt.Sprintf("%d other requests are waiting for the API server; try again later", maxRequests), http.StatusTooManyRequests)
		return
	}
	c, err := a.current()
	if err != nil {
		http.Error(w, "cannot read the client credentials: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	q, err := http.NewRequestWithContext(r.Context(), r.Method, to.String(), nil)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer, err := c.Do(q)
	if err != nil {
		http.Error(w, "the API server did not respond: "+err.Error(), http.StatusBadGateway)
		return
	}
	defer answer.Body.Close() //nolint:errcheck // only read
	for _, h := range []string{"Content-Type", "X-Content-Type-Options", "Audit-Id"} {
		if v := answer.Header.Get(h); v != "" {
			w.Header().Set(h, v)
		}
	}
	w.WriteHeader(answer.StatusCode)
	_, _ = io.Copy(w, answer.Body) // the client notices that the response is cut off
}

// current returns a client with the current credentials. While files do not match, as
// between the writing of a certificate and of its key, it returns the previous
// client.
func (a *apiClient) current() (*http.Client, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now, err := a.files.stamps()
	if err == nil && now == a.read {
		return a.client, nil
	}
	var c *http.Client
	if err == nil {
		c, err = a.files.client()
	}
	if err != nil {
		if a.client != nil {
			return a.client, nil
		}
		return nil, err
	}
	if a.client != nil {
		a.client.CloseIdleConnections()
	}
	a.client, a.read = c, now
	return c, nil
}

func (c credentials) stamps() ([3]stamp, error) {
	var out [3]stamp
	for i, f := range []string{c.ca, c.cert, c.key} {
		info, err := os.Stat(f)
		if err != nil {
			return out, err
		}
		out[i] = stamp{info.ModTime().UnixNano(), info.Size()}
	}
	return out, nil
}

// client creates a client from the files.
func (c credentials) client() (*http.Client, error) {
	authorities, err := os.ReadFile(c.ca)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authorities) {
		return nil, fmt.Errorf("%s holds no certificate", c.ca)
	}
	cert, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", c.cert, c.key, err)
	}
	return &http.Client{
		Timeout: answerTime,
		Transport: &http.Transport{ // which uses no proxy
			TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
			IdleConnTimeout: time.Minute,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}
