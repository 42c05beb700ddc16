package bootstrap

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"
)

// placeholder is the address that a DNS name has before the control plane has
// published its own; it is one of TEST-NET-3 (RFC 5737), where nobody answers.
const placeholder = "203.0.113.123"

// requestTimeout bounds one attempt.
const requestTimeout = 15 * time.Second

// Transport connects a machine with servers.
type Transport interface {
	// Connect makes a connection, which the caller must close.
	Connect(ctx context.Context, server string) (Connection, error)
}

// Connection carries one request.
type Connection struct {
	HTTP *http.Client
	// Binding is what Request.ChannelBinding is on this connection; empty: nothing binds a request to it.
	Binding string
	Close   func()
}

// TLS is a Transport that trusts only given authorities.
type TLS struct {
	// Now is the machine's clock; nil: time.Now.
	Now func() time.Time

	dialer net.Dialer
	config tls.Config
}

var _ Transport = (*TLS)(nil)

// NewTLS returns a transport that trusts only the authorities of a PEM bundle. serverName is the
// name that the server must show; empty means the URL's. own returns the certificate that the
// machine shows, or nil when it has none; own itself may be nil. No proxy is used: the control
// plane is near.
func NewTLS(authorities, serverName string, own func() *tls.Certificate) (*TLS, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(authorities)) {
		return nil, errors.New("reach kops-controller: the bundle of its authorities holds no certificate")
	}
	t := &TLS{dialer: net.Dialer{Timeout: requestTimeout, Control: refusePlaceholder},
		config: tls.Config{RootCAs: pool, ServerName: serverName, MinVersion: tls.VersionTLS12}}
	t.config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if own != nil {
			if c := own(); c != nil {
				return c, nil
			}
		}
		return &tls.Certificate{}, nil // shows none
	}
	return t, nil
}

// Connect shakes hands with the server.
func (t *TLS) Connect(ctx context.Context, server string) (Connection, error) {
	u, err := url.Parse(server)
	if err != nil {
		return Connection{}, err
	}
	config := t.config.Clone()
	config.Time = t.Now
	if config.ServerName == "" {
		config.ServerName = u.Hostname()
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	raw, err := t.dialer.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443")))
	if err != nil {
		return Connection{}, err
	}
	conn := tls.Client(raw, config)
	out := Connection{Close: func() { _ = raw.Close() }} // the answer was read, or there is none
	if err := conn.HandshakeContext(ctx); err != nil {
		out.Close()
		return Connection{}, err
	}
	if out.Binding, err = ChannelBinding(conn.ConnectionState()); err != nil {
		out.Close()
		return Connection{}, err
	}
	out.HTTP = &http.Client{
		Timeout:       requestTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // a proof is for one receiver
		Transport: &http.Transport{
			DialTLSContext:         once(conn),
			DisableKeepAlives:      true, // a name may get another address between two attempts
			MaxResponseHeaderBytes: 64 << 10,
		},
	}
	return out, nil
}

// once returns a connection the first time that one is asked for.
func once(conn net.Conn) func(context.Context, string, string) (net.Conn, error) {
	left := make(chan net.Conn, 1)
	left <- conn
	return func(context.Context, string, string) (net.Conn, error) {
		select {
		case c := <-left:
			return c, nil
		default:
			return nil, errors.New("a proof is for one connection alone")
		}
	}
}

// ChannelBinding returns a text that both ends of a TLS connection know, and that differs for
// every connection (RFC 9266, tls-exporter): to another server, and to the same server after a
// restart.
func ChannelBinding(s tls.ConnectionState) (string, error) {
	key, err := s.ExportKeyingMaterial("EXPORTER-Channel-Binding", nil, 32)
	if err != nil {
		return "", fmt.Errorf("bind the request to the connection: %w", err)
	}
	return base64.StdEncoding.EncodeToString(key), nil
}

// refusePlaceholder fails at once where waiting for a connection would be in vain.
func refusePlaceholder(_, address string, _ syscall.RawConn) error {
	if a, err := netip.ParseAddrPort(address); err == nil && a.Addr() == netip.MustParseAddr(placeholder) {
		return fmt.Errorf("the name still has the placeholder address %s; the control plane has not published its own yet", placeholder)
	}
	return nil
}
