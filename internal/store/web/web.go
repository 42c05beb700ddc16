// Package web holds what every client of web servers here has in common: a request
// that begins with TLS keeps it, one that meets trouble which passes is sent again, and
// what a spec names never leads to the services of the machine that reads it.
//
// It must not know what is fetched, nor from whom.
package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	"kops.local/kops/internal/engine/fault"
)

// mostRedirects is how many places a request is led on to.
const mostRedirects = 10

// KeepTLS is an http.Client.CheckRedirect: what begins with TLS is not redirected to
// a place without, nor anything further than ten times.
func KeepTLS(next *http.Request, before []*http.Request) error {
	switch {
	case before[0].URL.Scheme == "https" && next.URL.Scheme != "https":
		return fault.New(fault.Permanent, "the server redirects from TLS to %s", next.URL.Redacted())
	case len(before) >= mostRedirects:
		return fault.New(fault.Permanent, "the server redirects %d times", mostRedirects)
	}
	return Allowed(next.Context(), next.URL)
}

// named marks a context whose requests a spec asks for.
type named struct{}

// Named marks requests to places that a spec names. Dialer and Allowed refuse
// link-local addresses to them, where clouds give a machine its secrets: a program that
// reads a foreign spec, such as a preview in CI, must not be made to ask there.
func Named(ctx context.Context) context.Context { return context.WithValue(ctx, named{}, true) }

// Get reads a file of at most so many bytes that a spec names, as Named says.
// Errors are of class fault.NotYet where a later try may help. They do not name the URL.
func Get(ctx context.Context, client *http.Client, place string, most int64) ([]byte, error) {
	ctx = Named(ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, place, nil)
	if err == nil {
		err = Allowed(ctx, req.URL)
	}
	if err != nil {
		return nil, fault.Wrap(fault.Permanent, err, "")
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, unsent(err)
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	if resp.StatusCode != http.StatusOK {
		return nil, fault.New(ClassOf(resp.StatusCode), "the server answers %s", resp.Status)
	}
	return Read(resp.Body, most)
}

// unsent is the error of a request without an answer.
func unsent(err error) error {
	var e *url.Error
	if errors.As(err, &e) {
		err = e.Err // the caller names the place
	}
	var dns *net.DNSError
	if errors.As(err, new(*fault.Error)) || errors.As(err, &dns) && dns.IsNotFound {
		return err
	}
	return fault.Wrap(fault.NotYet, err, "")
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
		if errors.As(err, new(*fault.Error)) { // of KeepTLS
			return nil, err
		}
		return nil, fault.Wrap(fault.NotYet, err, "")
	}
	if res.StatusCode/100 == 2 {
		return res.Body, nil
	}
	_ = res.Body.Close() // nothing of it is read
	return nil, fault.Wrap(ClassOf(res.StatusCode), fmt.Errorf("the server answers %s", res.Status), "")
}

// ClassOf returns the class of an unsuccessful answer: fault.NotYet where a later
// try may help, fault.Denied where the server requires authentication, and fault.Gone where
// there is nothing.
func ClassOf(status int) fault.Class {
	switch {
	case status/100 == 5, status == http.StatusTooManyRequests, status == http.StatusRequestTimeout:
		return fault.NotYet
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return fault.Denied
	case status == http.StatusNotFound, status == http.StatusGone:
		return fault.Gone
	}
	return fault.Permanent
}

// Read reads all, and refuses what is longer than so many bytes.
func Read(r io.Reader, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, fault.Wrap(fault.NotYet, fmt.Errorf("the file broke off: %w", err), "")
	}
	if int64(len(data)) > most {
		return nil, fault.New(fault.Permanent, "it is longer than %d bytes", most)
	}
	return data, nil
}

// Allowed refuses a URL whose host is a forbidden address as it is written.
func Allowed(ctx context.Context, u *url.URL) error {
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
		return allowed(ctx, ip)
	}
	return nil
}

func allowed(ctx context.Context, ip netip.Addr) error {
	if ctx.Value(named{}) == nil || !forbidden(ip) {
		return nil
	}
	return fault.New(fault.Permanent, "%s is an address of this machine's own services, which a spec cannot name", ip)
}

// forbidden reports whether only this machine is reached there: link-local addresses,
// and the metadata services of AWS and GCE in IPv6 (Amazon EC2 User Guide,
// "Access instance metadata"; Google Compute Engine, "View and query VM metadata").
func forbidden(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	return ip.IsLinkLocalUnicast() || ip == netip.MustParseAddr("fd00:ec2::254") || ip == netip.MustParseAddr("fd20:ce::254")
}

// Dialer connects clients. It looks at the address that a name has come to, so
// that no name leads a request of Named astray.
func Dialer() *net.Dialer {
	return &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second,
		ControlContext: func(ctx context.Context, _, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil {
				return fmt.Errorf("connect to %s: %w", address, err)
			}
			return allowed(ctx, at.Addr())
		}}
}
