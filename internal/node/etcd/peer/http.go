package peer

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/node/etcd/certs"
)

const (
	// serverName and clientName are prefixes of the names in the managers' certificates; the
	// peer's name follows.
	serverName, clientName = "etcd-manager-server-", "etcd-manager-client-"
	// maxBody is the maximum size of a message, in bytes.
	maxBody = 1 << 20
	// dialTimeout is how long a machine may take to accept a connection.
	dialTimeout = 3 * time.Second
)

// failure is an error in transit.
type failure struct {
	Class   fault.Class `json:"class"`
	Message string      `json:"error"`
}

// TLS holds a manager's certificates, and what it requires of others.
type TLS struct{ server, client *tls.Config }

// NewTLS issues a manager's certificates.
func NewTLS(a *certs.Authorities, id string) TLS {
	server := a.Present(a.Manager, pki.Server, serverName+id, serverName+id)
	client := a.Present(a.Manager, pki.Client, clientName+id)
	pool := certs.Pool(a.Manager)
	return TLS{
		server: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: server.ToClients, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool},
		// The name of the peer at an address is not known before it responds; that it is
		// some manager of this cluster is verified nevertheless.
		client: &tls.Config{MinVersion: tls.VersionTLS12, GetClientCertificate: client.ToServers, InsecureSkipVerify: true,
			VerifyConnection: func(s tls.ConnectionState) error { return verifyServer(s, pool) }},
	}
}

func verifyServer(s tls.ConnectionState, pool *x509.CertPool) error {
	c := s.PeerCertificates[0]
	if !strings.HasPrefix(c.Subject.CommonName, serverName) {
		return fmt.Errorf("%q is not an etcd-manager", c.Subject.CommonName)
	}
	o := x509.VerifyOptions{Roots: pool, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	for _, i := range s.PeerCertificates[1:] {
		o.Intermediates.AddCert(i)
	}
	_, err := c.Verify(o)
	return err
}

// Serve answers other managers until ctx ends, then lets open requests finish. shared, which may
// be nil, is the store that they reach through this manager.
func Serve(ctx context.Context, l net.Listener, t TLS, s Service, shared *Shared, log *slog.Logger) error {
	mux := http.NewServeMux()
	handle(mux, "/v1/hello", func(ctx context.Context, from string, h Hello) (Hello, error) {
		if h.Peer.ID != from {
			return Hello{}, fault.New(fault.Denied, "%s says that it is %s", from, h.Peer.ID)
		}
		return s.Hello(ctx, h)
	})
	handle(mux, "/v1/claim", func(ctx context.Context, from string, c etcd.Claim) (etcd.Peer, error) {
		if c.Leader != from {
			return etcd.Peer{}, fault.New(fault.Denied, "%s claims to be %s", from, c.Leader)
		}
		return s.Claim(ctx, c)
	})
	handle(mux, "/v1/order", func(ctx context.Context, _ string, o Order) (struct{}, error) {
		return struct{}{}, s.Order(ctx, o)
	})
	if shared != nil {
		shared.serve(mux)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: dialTimeout, IdleTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(tls.NewListener(l, t.server)) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve other managers: %w", err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), dialTimeout)
	defer cancel()
	err := server.Shutdown(last)
	<-ended //nolint:errcheck // Shutdown returns the error
	if err != nil {
		return errors.Join(fmt.Errorf("stop serving other managers: %w", err), server.Close())
	}
	return nil
}

// handle serves one method; do gets the name of the calling peer from its certificate.
func handle[Q, A any](mux *http.ServeMux, path string, do func(ctx context.Context, from string, q Q) (A, error)) {
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		a, err := func() (a A, err error) {
			from, ok := strings.CutPrefix(r.TLS.PeerCertificates[0].Subject.CommonName, clientName)
			if !ok {
				return a, fault.New(fault.Denied, "%q is not an etcd-manager", r.TLS.PeerCertificates[0].Subject.CommonName)
			}
			var q Q
			if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&q); err != nil {
				return a, fmt.Errorf("read the request: %w", err)
			}
			return do(r.Context(), from, q)
		}()
		w.Header().Set("Content-Type", "application/json")
		if err != nil {
			refuse(w, err)
			return
		}
		_ = json.NewEncoder(w).Encode(a) // if this fails, the caller is gone
	})
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusConflict)
	_ = json.NewEncoder(w).Encode(failure{fault.Of(err), err.Error()}) // if this fails, the caller is gone
}

// client is a Link over HTTPS.
type client struct{ http *http.Client }

// Dial returns a Link to other managers.
func Dial(t TLS) Link {
	return client{httpClient(t)}
}

func httpClient(t TLS) *http.Client {
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: t.client, DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, TLSHandshakeTimeout: dialTimeout,
		IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 2,
	}}
}

// Service implements Link.
func (c client) Service(endpoint string) Service { return remote{c.http, endpoint} }

type remote struct {
	http     *http.Client
	endpoint string
}

func (r remote) Hello(ctx context.Context, from Hello) (Hello, error) {
	return call[Hello](ctx, r, "/v1/hello", from, func(name string, h Hello) error {
		if h.Peer.ID != name {
			return fault.New(fault.Denied, "%s says that it is %s", name, h.Peer.ID)
		}
		return nil
	})
}

func (r remote) Claim(ctx context.Context, c etcd.Claim) (etcd.Peer, error) {
	return call[etcd.Peer](ctx, r, "/v1/claim", c, func(name string, p etcd.Peer) error {
		if p.ID != name {
			return fault.New(fault.Denied, "%s says that it is %s", name, p.ID)
		}
		return nil
	})
}

func (r remote) Order(ctx context.Context, o Order) error {
	_, err := call[struct{}](ctx, r, "/v1/order", o, nil)
	return err
}

// call sends a request; check gets the name of the answering peer from its certificate.
func call[A any](ctx context.Context, r remote, path string, q any, check func(name string, a A) error) (a A, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("ask the manager at %s: %w", r.endpoint, err)
		}
	}()
	body, err := json.Marshal(q)
	if err != nil {
		return a, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+r.endpoint+path, bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	answer, err := r.http.Do(request)
	if err != nil {
		return a, fault.Wrap(fault.Lost, err, "")
	}
	defer answer.Body.Close() // it was read, or does not matter
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxBody))
	if err != nil {
		return a, fault.Wrap(fault.Lost, err, "")
	}
	if answer.StatusCode != http.StatusOK {
		return a, failed(answer.Status, text)
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return a, fmt.Errorf("read the response: %w", err)
	}
	if check != nil {
		return a, check(strings.TrimPrefix(answer.TLS.PeerCertificates[0].Subject.CommonName, serverName), a)
	}
	return a, nil
}
