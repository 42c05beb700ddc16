package gceapi

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"kops.local/kops/internal/engine/fault"
)

// Error is an error response of a service, or the error of an operation.
type Error struct {
	Status int // HTTP status; of an operation's error, the status that the operation contains, which may be 0
	// Reason is the service's reason: "alreadyExists" or, in operations and newer services,
	// "QUOTA_EXCEEDED".
	Reason  string
	Message string
	// Details are additional details from the service: service, permission, metricName, …
	Details map[string]string
}

func (e *Error) Error() string { return e.Reason + ": " + e.Message }

// Reason returns the reason of a service's error in a uniform spelling, "alreadyexists", or "" if
// err is not a service's error.
func Reason(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return normalizeReason(e.Reason)
	}
	return ""
}

// normalizeReason converts both spellings of reasons to a uniform one.
func normalizeReason(reason string) string {
	return strings.ToLower(strings.ReplaceAll(reason, "_", ""))
}

// Result returns the result of an SDK call, its error without the SDK's text.
func Result[T any](v T, err error) (T, error) { return v, PlainError(err) }

// PlainError returns an error of the SDK as classer created it. Any other error means that the response
// could not be read.
func PlainError(err error) error {
	var classed *fault.Error
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, &classed):
		var wrapped *url.Error
		if errors.As(err, &wrapped) && errors.As(wrapped.Err, &classed) {
			return wrapped.Err
		}
		return err
	}
	return fault.Wrap(fault.Lost, fmt.Errorf("read Google's response: %w", err), "")
}

// classifier gives the error of every request its class, and makes creations retryable.
type classifier struct {
	base    http.RoundTripper
	project string

	mu sync.Mutex
	// pending are the creations whose responses were lost, with their request IDs: a retry of
	// the same creation sends the same ID, and Google responds as it would have to the first
	// request.
	pending map[creation]string
}

// creation identifies what a request creates: the path of an object, and a digest of its content.
type creation struct {
	path   string
	digest [sha256.Size]byte
}

// RoundTrip implements http.RoundTripper.
func (c *classifier) RoundTrip(q *http.Request) (*http.Response, error) {
	if !isCreation(q) {
		if q.Method == http.MethodDelete {
			c.forget(func(of creation) bool { return of.path == q.URL.Path })
		}
		return c.send(q)
	}
	made, err := creationOf(q)
	if err != nil {
		return nil, err
	}
	id := c.id(made)
	q = q.Clone(q.Context())
	query := q.URL.Query()
	query.Set("requestId", id)
	q.URL.RawQuery = query.Encode()
	answer, err := c.send(q)
	if fault.Is(err, fault.Lost) {
		c.remember(made, id)
	} else {
		c.forget(func(of creation) bool { return of == made })
	}
	return answer, err
}

// send sends a request, and reads the whole response, because an incomplete one counts as lost.
func (c *classifier) send(q *http.Request) (*http.Response, error) {
	answer, err := c.base.RoundTrip(q)
	if err != nil {
		return nil, classifyTransport(q, err)
	}
	body, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close() // it was read, or cannot be read
	if err != nil {
		return nil, classifyTransport(q, err)
	}
	if answer.StatusCode >= http.StatusMultipleChoices {
		return nil, classifyError(request{q.Method, q.URL.Host, q.URL.Path, c.project}, errorOf(answer.StatusCode, body))
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	return answer, nil
}

// isCreation reports whether a request creates a Compute Engine object: it is a POST to a collection,
// rather than to a verb of an object.
func isCreation(q *http.Request) bool {
	_, path, ok := strings.Cut(q.URL.Path, "/compute/v1/projects/")
	parts := strings.Split(path, "/")
	return ok && q.Method == http.MethodPost && (len(parts) == 3 && parts[1] == "global" ||
		len(parts) == 4 && (parts[1] == "regions" || parts[1] == "zones"))
}

// creationOf returns what a request creates.
func creationOf(q *http.Request) (creation, error) {
	if q.GetBody == nil {
		return creation{path: q.URL.Path}, nil
	}
	body, err := q.GetBody()
	var text []byte
	if err == nil {
		text, err = io.ReadAll(body)
	}
	if err != nil {
		return creation{}, fmt.Errorf("read a request: %w", err)
	}
	var object struct{ Name string }
	_ = json.Unmarshal(text, &object) // Google rejects an object without a name
	return creation{q.URL.Path + "/" + object.Name, sha256.Sum256(text)}, nil
}

// id returns the ID of the previous attempt at a creation, if its response was lost, or a new ID
// (Compute Engine, parameter requestId).
func (c *classifier) id(of creation) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id, again := c.pending[of]; again {
		return id
	}
	b := make([]byte, 16)
	_, _ = rand.Read(b)                         // it never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80 // RFC 9562, version 4
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// remember keeps the ID of a creation whose response was lost.
func (c *classifier) remember(of creation, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending == nil {
		c.pending = map[creation]string{}
	}
	c.pending[of] = id
}

// forget drops the IDs of creations that got a response, or whose objects are being deleted:
// creating such an object again is a new creation.
func (c *classifier) forget(which func(creation) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.pending, func(of creation, _ string) bool { return which(of) })
}

// classifyTransport gives a connection error its class. A request that was sent may have taken
// effect, even without a response.
func classifyTransport(q *http.Request, err error) error {
	var already *fault.Error
	if q.Context().Err() != nil || errors.As(err, &already) {
		return err
	}
	err = fmt.Errorf("connect to Google Cloud: %w", err)
	var name *net.DNSError
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &name) && name.IsNotFound:
		return fault.Wrap(fault.Permanent, err, "check the network and its name servers")
	case errors.As(err, &untrusted):
		return fault.Wrap(fault.Permanent, err, "check the proxy, or set SSL_CERT_FILE to its certificate authorities")
	case noCredentials(err):
		return fault.Wrap(fault.Denied, err, remedyCredentials)
	}
	return fault.Wrap(fault.Lost, err, "")
}

// errorBody is an error response; which fields are set depends on the service.
type errorBody struct {
	Error struct {
		Message string
		Status  string
		Errors  []struct{ Reason, Message string }
		Details []struct {
			Reason   string
			Metadata map[string]string
		}
	}
}

// errorOf parses an error response. A response that is not JSON, such as a proxy's, is described by
// its status.
func errorOf(status int, body []byte) *Error {
	out := &Error{Status: status, Details: map[string]string{}}
	var b errorBody
	if json.Unmarshal(body, &b) == nil {
		out.Reason, out.Message = b.Error.Status, b.Error.Message
		if len(b.Error.Errors) > 0 && b.Error.Errors[0].Reason != "" {
			out.Reason = b.Error.Errors[0].Reason
		}
		for _, d := range b.Error.Details {
			for k, v := range d.Metadata {
				out.Details[k] = v
			}
			if d.Reason != "" {
				out.Details["reason"] = d.Reason
			}
		}
	}
	if out.Reason == "" {
		out.Reason = http.StatusText(status)
	}
	if out.Message == "" {
		out.Message = fmt.Sprintf("the service returned %d", status)
	}
	return out
}
