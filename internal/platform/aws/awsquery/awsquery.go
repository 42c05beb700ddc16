// Package awsquery asks AWS in its query protocol: a signed form goes out, XML
// comes back. It is for the programs of a machine, each of which needs two or three
// actions, where a client of AWS' SDK may bring all the hundreds of a service.
//
// It must not know a service, an action or an answer, nor link the SDK: it has the
// standard library and the classes of errors only.
package awsquery

import (
	"cmp"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"kops.local/kops/internal/engine/fault"
)

const (
	// usualTimeout is the usual Timeout of a Client.
	usualTimeout = 10 * time.Second
	// longest is the longest answer that is read, in bytes; a page of EC2's has
	// 1000 things at most.
	longest = 16 << 20
)

// Client calls actions of services of one region.
type Client struct {
	// Credentials are asked for at every call.
	Credentials func(context.Context) (Credentials, error)
	// HTTP sends what is signed.
	HTTP interface {
		Do(*http.Request) (*http.Response, error)
	}
	Region string
	// Endpoint is a URL that replaces every service's; empty means the region's endpoints.
	Endpoint string
	Now      func() time.Time
	// Timeout bounds a call, with the question for credentials; 0 means 10 seconds.
	Timeout time.Duration
}

// Call calls an action of a version of a service's API, and decodes the XML of the answer into
// answer; values are the action's parameters. A refusal by AWS is an *Error. Other errors have the
// class of the error of Credentials, fault.Permanent if Endpoint is not a URL, and otherwise
// fault.NotYet.
func (c Client) Call(ctx context.Context, service, version, action string, values url.Values, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.Timeout, usualTimeout))
	defer cancel()
	form := url.Values{"Action": {action}, "Version": {version}}
	maps.Copy(form, values)
	res, err := c.post(ctx, service, form.Encode(), "Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	if err != nil {
		return err
	}
	return Read(res, answer)
}

// post sends a signed request with headers, of which each name is followed by its value.
func (c Client) post(ctx context.Context, service, body string, headers ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, cmp.Or(c.Endpoint, Endpoint(service, c.Region)), strings.NewReader(body))
	if err != nil {
		return nil, fault.Wrap(fault.Permanent, err, "")
	}
	key, err := c.Credentials(ctx)
	if err != nil {
		return nil, fmt.Errorf("find credentials: %w", err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	Sign(req.Header, req.URL, body, Scope{c.Region, service}, key, c.Now())
	res, err := c.HTTP.Do(req)
	if err != nil {
		return nil, fault.Wrap(fault.NotYet, err, "")
	}
	return res, nil
}

// Read decodes the XML of an answer into answer, and closes the response. Its errors are as for
// Client.Call.
func Read(res *http.Response, answer any) error {
	return read(res, answer, xml.Unmarshal, func(res *http.Response, text []byte) *Error { return refusal(res.StatusCode, text) })
}

// read reads an answer of either protocol, and closes it.
func read(res *http.Response, answer any, decode func([]byte, any) error, refused func(*http.Response, []byte) *Error) error {
	defer res.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(res.Body, longest))
	switch {
	case err != nil:
		return fault.Wrap(fault.NotYet, err, "")
	case res.StatusCode != http.StatusOK:
		e := refused(res, text)
		return fault.Wrap(e.class(), e, "")
	}
	if err := decode(text, answer); err != nil {
		return fault.New(fault.NotYet, "the answer is not understood: %w", err)
	}
	return nil
}

// Error is an answer of AWS' that is an error.
type Error struct {
	// Status is the HTTP status.
	Status int
	// Code is what AWS calls the error; the status, as 503 Service Unavailable, where AWS gives none.
	Code    string
	Message string
	// Request is the identifier of the request; "" where AWS gives none.
	Request string
}

func (e *Error) Error() string {
	text := e.Code
	if status := statusText(e.Status); status != text {
		text = status + ": " + text
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	if e.Request != "" {
		text += " (request " + e.Request + ")"
	}
	return text
}

func statusText(status int) string { return strconv.Itoa(status) + " " + http.StatusText(status) }

// refusal reads an answer other than 200.
func refusal(status int, text []byte) *Error {
	type reason struct{ Code, Message string }
	var x struct {
		Plain   reason `xml:"Error"`        // as most services answer
		Listed  reason `xml:"Errors>Error"` // as EC2 does
		Request string `xml:"RequestId"`
		OfEC2   string `xml:"RequestID"`
	}
	if err := xml.Unmarshal(text, &x); err != nil || x.Plain.Code == "" && x.Listed.Code == "" {
		return &Error{Status: status, Code: statusText(status), Message: "no reason given"}
	}
	said := x.Plain
	if said.Code == "" {
		said = x.Listed
	}
	return &Error{status, said.Code, said.Message, cmp.Or(x.Request, x.OfEC2)}
}

// class returns the class of an error that has the same meaning for every action (AWS' "Common
// Errors" and EC2's "Error codes"). Services have codes of their own for the rest, which the
// caller of the action knows.
func (e *Error) class() fault.Class {
	switch {
	case e.Status == http.StatusTooManyRequests || e.Code == "RequestLimitExceeded" || strings.Contains(e.Code, "Throttl"):
		return fault.Throttled
	case e.Status >= http.StatusInternalServerError:
		return fault.NotYet
	case slices.Contains([]string{"UnauthorizedOperation", "AccessDenied", "AccessDeniedException"}, e.Code):
		return fault.Denied
	}
	return fault.Permanent
}
