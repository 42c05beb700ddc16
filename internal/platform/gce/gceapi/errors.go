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

// Error is an error that a service answered, or with which an operation ended.
type Error struct {
	Status int // of HTTP; of an operation's error as the operation tells it, which may be 0
	// Reason is the service's word: "alreadyExists", or of operations and newer services "QUOTA_EXCEEDED".
	Reason  string
	Message string
	// Details are further details from the service: service, permission, metricName, …
	Details map[string]string
}

func (e *Error) Error() string { return e.Reason + ": " + e.Message }

// Reason returns the reason that a service answered in one spelling, "alreadyexists", or ""
// when err is not an answer of a service.
func Reason(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return plain(e.Reason)
	}
	return ""
}

// plain gives the two spellings of reasons one.
func plain(reason string) string { return strings.ToLower(strings.ReplaceAll(reason, "_", "")) }

// Got returns what a call of the SDK returned, its error without the SDK's words.
func Got[T any](v T, err error) (T, error) { return v, Bare(err) }

// Bare returns an error of the SDK as classer made it. Any other error is an answer that could not
// be read.
func Bare(err error) error {
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
	return fault.Wrap(fault.Lost, fmt.Errorf("read Google's answer: %w", err), "")
}

// classer gives the error of every request its class, and makes creations repeatable.
type classer struct {
	by      http.RoundTripper
	project string

	mu sync.Mutex
	// unanswered are the creations whose answers were lost, with the ids that they bore: the
	// same creation again bears the same id, and Google answers it as it would have the first.
	unanswered map[creation]string
}

// creation is what a request makes: the path of an object, and a digest of its content.
type creation struct {
	path   string
	digest [sha256.Size]byte
}

// RoundTrip implements http.RoundTripper.
func (c *classer) RoundTrip(q *http.Request) (*http.Response, error) {
	if !creates(q) {
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

// send sends a request, and reads the whole answer, as one that breaks off is lost.
func (c *classer) send(q *http.Request) (*http.Response, error) {
	answer, err := c.by.RoundTrip(q)
	if err != nil {
		return nil, classedTransport(q, err)
	}
	body, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close() // it was read, or cannot be
	if err != nil {
		return nil, classedTransport(q, err)
	}
	if answer.StatusCode >= http.StatusMultipleChoices {
		return nil, classed(request{q.Method, q.URL.Host, q.URL.Path, c.project}, errorOf(answer.StatusCode, body))
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	return answer, nil
}

// creates reports whether a request makes an object of Compute Engine: it posts to a
// collection, rather than to an object and one of its verbs.
func creates(q *http.Request) bool {
	_, path, ok := strings.Cut(q.URL.Path, "/compute/v1/projects/")
	parts := strings.Split(path, "/")
	return ok && q.Method == http.MethodPost && (len(parts) == 3 && parts[1] == "global" ||
		len(parts) == 4 && (parts[1] == "regions" || parts[1] == "zones"))
}

// creationOf reads what a request makes.
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
	_ = json.Unmarshal(text, &object) // what has no name is refused by Google
	return creation{q.URL.Path + "/" + object.Name, sha256.Sum256(text)}, nil
}

// id returns the id of the same creation before, if its answer was lost, or a new one (Compute
// Engine, parameter requestId).
func (c *classer) id(of creation) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id, again := c.unanswered[of]; again {
		return id
	}
	b := make([]byte, 16)
	_, _ = rand.Read(b)                         // it never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80 // RFC 9562, version 4
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// remember keeps the id of a creation whose answer was lost.
func (c *classer) remember(of creation, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unanswered == nil {
		c.unanswered = map[creation]string{}
	}
	c.unanswered[of] = id
}

// forget drops the ids of creations that were answered, or whose objects are deleted: to make
// such an object is something new.
func (c *classer) forget(which func(creation) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.unanswered, func(of creation, _ string) bool { return which(of) })
}

// classedTransport classes an error of the connection. A request that was sent may have
// taken effect, even when no answer came.
func classedTransport(q *http.Request, err error) error {
	var already *fault.Error
	if q.Context().Err() != nil || errors.As(err, &already) {
		return err
	}
	err = fmt.Errorf("reach Google: %w", err)
	var name *net.DNSError
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &name) && name.IsNotFound:
		return fault.Wrap(fault.Permanent, err, "check the network and its name servers")
	case errors.As(err, &untrusted):
		return fault.Wrap(fault.Permanent, err, "check the proxy, or set SSL_CERT_FILE to the authorities that it uses")
	case noCredentials(err):
		return fault.Wrap(fault.Denied, err, remedyCredentials)
	}
	return fault.Wrap(fault.Lost, err, "")
}

// errorBody is an error as services answer it; which parts there are depends on the service.
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

// errorOf reads an answer that is an error. An answer that is not JSON, such as a proxy's, is
// described by its status.
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
		out.Message = fmt.Sprintf("the service answered %d", status)
	}
	return out
}
