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

// handler passes questions about health on to the API server at an address.
func handler(address string, a *asker) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.kube-apiserver-healthcheck/healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok") // who asked is gone if it fails
	})
	for _, path := range []string{"/livez", "/readyz", "/healthz"} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			a.pass(w, r, url.URL{Scheme: "https", Host: address, Path: path, RawQuery: passed(r.URL.Query())})
		})
	}
	return mux
}

// passed are the parameters that the API server is asked with.
func passed(q url.Values) string {
	out := url.Values{}
	for _, name := range []string{"exclude", "verbose"} {
		if q.Has(name) {
			out[name] = q[name]
		}
	}
	return out.Encode()
}

// addresses reads a list of addresses.
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

// only answers requests from this machine and from the addresses; without any, all requests.
func only(allowed []netip.Addr, h http.Handler) http.Handler {
	if len(allowed) == 0 {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, err := netip.ParseAddrPort(r.RemoteAddr)
		if a := from.Addr().Unmap(); err != nil || !a.IsLoopback() && !slices.Contains(allowed, a) {
			w.Header().Set("Connection", "close")
			http.Error(w, "only load balancers of the cluster may ask", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// credentials are files: authorities, a client certificate and its key.
type credentials struct{ ca, cert, key string }

// asker asks with credentials that it reads again when their files change.
type asker struct {
	files credentials
	// asking are the questions that the API server has not answered.
	asking atomic.Int32

	mu     sync.Mutex
	client *http.Client
	read   [3]stamp // of the files that client was made from
}

const (
	// answerTime is twice what the kubelet's probes wait for an answer.
	answerTime = 30 * time.Second
	// mostAsking is far above what probes and balancers ask at once.
	mostAsking = 32
)

// stamp tells whether a file changed.
type stamp struct{ modified, size int64 }

// pass asks the API server and gives its answer back.
func (a *asker) pass(w http.ResponseWriter, r *http.Request, to url.URL) {
	defer a.asking.Add(-1)
	if a.asking.Add(1) > mostAsking {
		http.Error(w, fmt.Sprintf("%d others wait for the API server's answer; ask again later", mostAsking), http.StatusTooManyRequests)
		return
	}
	c, err := a.current()
	if err != nil {
		http.Error(w, "the credentials to ask the API server with cannot be read: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	q, err := http.NewRequestWithContext(r.Context(), r.Method, to.String(), nil)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer, err := c.Do(q)
	if err != nil {
		http.Error(w, "the API server did not answer: "+err.Error(), http.StatusBadGateway)
		return
	}
	defer answer.Body.Close() //nolint:errcheck // only read
	for _, h := range []string{"Content-Type", "X-Content-Type-Options", "Audit-Id"} {
		if v := answer.Header.Get(h); v != "" {
			w.Header().Set(h, v)
		}
	}
	w.WriteHeader(answer.StatusCode)
	_, _ = io.Copy(w, answer.Body) // who asked notices that the answer is cut
}

// current is a client with the credentials as they are now. While files do not
// fit together, as between the writing of a certificate and of its key, it is
// the client that was before.
func (a *asker) current() (*http.Client, error) {
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

// client makes a client from the files.
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
		Transport: &http.Transport{ // which asks no proxy
			TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
			IdleConnTimeout: time.Minute,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}
