package bootstrap

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// placeholder is the address that a DNS name has before the control plane has
// published its own; it is one of TEST-NET-3 (RFC 5737), where nobody answers.
const placeholder = "203.0.113.123"

// requestTimeout bounds one attempt.
const requestTimeout = 15 * time.Second

// NewHTTP returns a client that believes only the authorities of a PEM bundle.
// serverName is the name that the server must show; empty means that of the URL.
// No proxy is used: the control plane is near.
func NewHTTP(authorities, serverName string) (*http.Client, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(authorities)) {
		return nil, errors.New("reach kops-controller: the bundle of its authorities holds no certificate")
	}
	d := &net.Dialer{Timeout: requestTimeout, Control: refusePlaceholder}
	return &http.Client{
		Timeout:       requestTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // a proof is for one receiver
		Transport: &http.Transport{
			DialContext:            d.DialContext,
			TLSClientConfig:        &tls.Config{RootCAs: pool, ServerName: serverName, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    requestTimeout,
			DisableKeepAlives:      true, // a name may get another address between two attempts
			ForceAttemptHTTP2:      true,
			MaxResponseHeaderBytes: 64 << 10,
		},
	}, nil
}

// refusePlaceholder fails at once where waiting for a connection would be in vain.
func refusePlaceholder(_, address string, _ syscall.RawConn) error {
	if a, err := netip.ParseAddrPort(address); err == nil && a.Addr() == netip.MustParseAddr(placeholder) {
		return fmt.Errorf("the name still has the placeholder address %s; the control plane has not published its own yet", placeholder)
	}
	return nil
}
