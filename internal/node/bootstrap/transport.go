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

// placeholder is the address of a DNS name before the control plane has published
// its own; it is in TEST-NET-3 (RFC 5737), where nothing answers.
const placeholder = "203.0.113.123"

// requestTimeout limits one attempt.
const requestTimeout = 15 * time.Second

// Transport connects a machine to servers.
type Transport interface {
	// Connect opens a connection, which the caller must close.
	Connect(ctx context.Context, server string) (Connection, error)
}

// Connection carries one request.
type Connection struct {
	HTTP *http.Client
	// Binding is the value of Request.ChannelBinding on this connection; empty if requests are not
	// bound to it.
	Binding string
	Close   func()
}

// TLS is a Transport that trusts only the given authorities.
type TLS struct {
	// Now is the machine's clock; nil means time.Now.
	Now func() time.Time

	dialer net.Dialer
	config tls.Config
}

var _ Transport = (*TLS)(nil)

// NewTLS returns a transport that trusts only the authorities of a PEM bundle. serverName is the
// name that the server's certificate must have; empty means the URL's host. own returns the
// machine's client certificate, or nil if it has none; own itself may be nil. No proxy is used:
// the control plane is near.
func NewTLS(authorities, serverName string, own func() *tls.Certificate) (*TLS, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(authorities)) {
		return nil, errors.New("connect to kops-controller: the bundle of its authorities contains no certificate")
	}
	t := &TLS{dialer: net.Dialer{Timeout: requestTimeout, Control: refusePlaceholder},
		config: tls.Config{RootCAs: pool, ServerName: serverName, MinVersion: tls.VersionTLS12}}
	t.config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if own != nil {
			if c := own(); c != nil {
				return c, nil
			}
		}
		return &tls.Certificate{}, nil // sends no certificate
	}
	return t, nil
}

// Connect performs the TLS handshake with the server.
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
	out := Connection{Close: func() { _ = raw.Close() }} // the response was read, or there is none
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
			DialTLSContext:         dialOnce(conn),
			DisableKeepAlives:      true, // a name may resolve to another address on the next attempt
			MaxResponseHeaderBytes: 64 << 10,
		},
	}
	return out, nil
}

// dialOnce returns a dial function that returns a connection on its first call only.
func dialOnce(conn net.Conn) func(context.Context, string, string) (net.Conn, error) {
	left := make(chan net.Conn, 1)
	left <- conn
	return func(context.Context, string, string) (net.Conn, error) {
		select {
		case c := <-left:
			return c, nil
		default:
			return nil, errors.New("a proof is valid for one connection only")
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

// refusePlaceholder fails at once if waiting for a connection would be in vain.
func refusePlaceholder(_, address string, _ syscall.RawConn) error {
	if a, err := netip.ParseAddrPort(address); err == nil && a.Addr() == netip.MustParseAddr(placeholder) {
		return fmt.Errorf("the name still has the placeholder address %s; the control plane has not published its own address yet", placeholder)
	}
	return nil
}
