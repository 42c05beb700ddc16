// Package web contains what all web clients here have in common: a request that starts
// with TLS keeps it, one that fails temporarily is sent again, and URLs from a spec
// never reach the services of the machine that reads it.
//
// It must not know what is downloaded, nor from where.
package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"kops.local/kops/internal/engine/fault"
)

// maxRedirects is the maximum number of redirects of a request.
const maxRedirects = 10

// KeepTLS is an http.Client.CheckRedirect: a request that starts with TLS is not
// redirected to a URL without, and no request more than ten times. Another host gets no header that may
// have credentials; net/http itself knows only Authorization and cookies.
func KeepTLS(next *http.Request, before []*http.Request) error {
	switch {
	case before[0].URL.Scheme == "https" && next.URL.Scheme != "https":
		return fault.New(fault.Permanent, "the server redirects from TLS to %s", next.URL.Redacted())
	case len(before) >= maxRedirects:
		return fault.New(fault.Permanent, "the server redirects %d times", maxRedirects)
	}
	if next.URL.Host != before[0].URL.Host {
		maps.DeleteFunc(next.Header, func(name string, _ []string) bool { return !isPublic(name) })
	}
	return CheckURL(next.Context(), next.URL)
}

// isPublic reports whether a header only describes what is sent or requested.
func isPublic(header string) bool {
	for _, prefix := range []string{"Accept", "Content-", "If-", "Range", "Referer", "User-Agent"} {
		if strings.HasPrefix(header, prefix) {
			return true
		}
	}
	return false
}

// specURLKey is the key of contexts returned by WithSpecURL.
type specURLKey struct{}

// WithSpecURL marks requests to URLs that come from a spec. For them, Dialer and CheckURL reject
// link-local addresses, where clouds provide a machine with its secrets: a program that reads
// another party's spec, such as a preview in CI, must not be tricked into requests to these.
func WithSpecURL(ctx context.Context) context.Context {
	return context.WithValue(ctx, specURLKey{}, true)
}

// longPollKey is the key of contexts returned by WithLongPoll.
type longPollKey struct{}

// WithLongPoll marks requests that a server answers only once something has happened, or after some
// minutes.
func WithLongPoll(ctx context.Context) context.Context {
	return context.WithValue(ctx, longPollKey{}, true)
}

// IsLongPoll reports whether WithLongPoll marked a request.
func IsLongPoll(ctx context.Context) bool { return ctx.Value(longPollKey{}) != nil }

// Get reads a file of at most most bytes at a URL that comes from a spec, see WithSpecURL. Errors have
// class fault.NotYet if a later attempt may help. They do not contain the URL.
func Get(ctx context.Context, client *http.Client, place string, most int64) ([]byte, error) {
	ctx = WithSpecURL(ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, place, nil)
	if err == nil {
		err = CheckURL(ctx, req.URL)
	}
	if err != nil {
		return nil, fault.Wrap(fault.Permanent, err, "")
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, requestError(err)
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	if resp.StatusCode != http.StatusOK {
		return nil, fault.New(ClassOf(resp.StatusCode), "the server answers %s", resp.Status)
	}
	return Read(resp.Body, most)
}

// requestError returns the error for a request without an answer.
func requestError(err error) error {
	var e *url.Error
	if errors.As(err, &e) {
		err = e.Err // the caller adds the place
	}
	var dns *net.DNSError
	if errors.As(err, new(*fault.Error)) || errors.As(err, &dns) && dns.IsNotFound {
		return err
	}
	return fault.Wrap(fault.NotYet, err, "")
}

// Send sends a request for a file and returns the body of a successful answer. Errors have class
// fault.NotYet if a later attempt may help, and fault.Denied if the server requires authentication.
func Send(client *http.Client, req *http.Request) (io.ReadCloser, error) {
	res, err := client.Do(req)
	if err != nil {
		var e *url.Error
		if errors.As(err, &e) {
			err = e.Err // the caller adds the place
		}
		if errors.As(err, new(*fault.Error)) { // from KeepTLS
			return nil, err
		}
		return nil, fault.Wrap(fault.NotYet, err, "")
	}
	if res.StatusCode/100 == 2 {
		return res.Body, nil
	}
	_ = res.Body.Close() // the body is not needed
	return nil, fault.Wrap(ClassOf(res.StatusCode), fmt.Errorf("the server answers %s", res.Status), "")
}

// ClassOf returns the class of an unsuccessful answer: fault.NotYet if a later attempt may help,
// fault.Denied if the server requires authentication, and fault.Gone if the file does not exist.
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

// Read reads everything, and fails if it is longer than most bytes.
func Read(r io.Reader, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, fault.Wrap(fault.NotYet, fmt.Errorf("the download ended early: %w", err), "")
	}
	if int64(len(data)) > most {
		return nil, fault.New(fault.Permanent, "it is longer than %d bytes", most)
	}
	return data, nil
}

// CheckURL rejects a URL whose host is literally a forbidden address.
func CheckURL(ctx context.Context, u *url.URL) error {
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
		return checkAddress(ctx, ip)
	}
	return nil
}

func checkAddress(ctx context.Context, ip netip.Addr) error {
	if ctx.Value(specURLKey{}) == nil || !isForbidden(ip) {
		return nil
	}
	return fault.New(fault.Permanent, "%s is an address of this machine's own services, which a spec cannot use", ip)
}

// isForbidden reports whether an address only reaches this machine: link-local
// addresses, and the IPv6 metadata services of AWS and GCE (Amazon EC2 User Guide,
// "Access instance metadata"; Google Compute Engine, "View and query VM metadata").
func isForbidden(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	return ip.IsLinkLocalUnicast() || ip == netip.MustParseAddr("fd00:ec2::254") || ip == netip.MustParseAddr("fd20:ce::254")
}

// Dialer returns a dialer that checks the address to which a name resolves, so that
// no name can lead a request marked by WithSpecURL to a forbidden one.
func Dialer() *net.Dialer {
	return &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second,
		ControlContext: func(ctx context.Context, _, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil {
				return fmt.Errorf("connect to %s: %w", address, err)
			}
			return checkAddress(ctx, at.Addr())
		}}
}
