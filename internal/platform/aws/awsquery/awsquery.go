// Package awsquery calls AWS with its query protocol: the request is a signed form, the response is
// XML. It is for the programs on a machine: each needs two or three actions, and a client of the
// AWS SDK may add a service's hundreds.
//
// It must not know a service, an action or a response, nor link the SDK: it uses only the standard
// library and the error classes.
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
	// usualTimeout is the default Timeout of a Client.
	usualTimeout = 10 * time.Second
	// maxResponse is the longest response that is read, in bytes; a page of
	// EC2's has at most 1000 items.
	maxResponse = 16 << 20
)

// Client calls actions of services of one region.
type Client struct {
	// Credentials is called for every call.
	Credentials func(context.Context) (Credentials, error)
	// HTTP sends the signed requests.
	HTTP interface {
		Do(*http.Request) (*http.Response, error)
	}
	Region string
	// Endpoint is a URL that replaces every service's endpoint; empty means the region's endpoints.
	Endpoint string
	Now      func() time.Time
	// Timeout limits a call, including the call of Credentials; 0 means 10 seconds.
	Timeout time.Duration
}

// Call calls an action in a version of a service's API, and decodes the XML of the response into
// answer; values are the action's parameters. An error response of AWS is an *Error. Other errors
// have the class of the error of Credentials, fault.Permanent if Endpoint is not a URL, and
// otherwise fault.NotYet.
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

// post sends a signed request; headers alternates between names and values.
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

// Read decodes the XML of a response into answer, and closes the
// response. Its errors are as for Client.Call.
func Read(res *http.Response, answer any) error {
	return decodeResponse(res, answer, xml.Unmarshal, func(res *http.Response, text []byte) *Error { return newError(res.StatusCode, text) })
}

// decodeResponse reads a response in either protocol, and closes it.
func decodeResponse(res *http.Response, answer any, decode func([]byte, any) error, refused func(*http.Response, []byte) *Error) error {
	defer res.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(res.Body, maxResponse))
	switch {
	case err != nil:
		return fault.Wrap(fault.NotYet, err, "")
	case res.StatusCode != http.StatusOK:
		e := refused(res, text)
		return fault.Wrap(e.faultClass(), e, "")
	}
	if err := decode(text, answer); err != nil {
		return fault.New(fault.NotYet, "cannot parse the response: %w", err)
	}
	return nil
}

// Error is an error response of AWS.
type Error struct {
	// Status is the HTTP status.
	Status int
	// Code is AWS' error code, or the status, such as 503 Service Unavailable, if AWS returns none.
	Code    string
	Message string
	// Request is the identifier of the request; "" if AWS returns none.
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

// newError reads a response with a status other than 200.
func newError(status int, text []byte) *Error {
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
	reply := x.Plain
	if reply.Code == "" {
		reply = x.Listed
	}
	return &Error{status, reply.Code, reply.Message, cmp.Or(x.Request, x.OfEC2)}
}

// faultClass returns the class of an error that has the same meaning for every action (AWS' "Common
// Errors" and EC2's "Error codes"). Services have their own codes for other errors, which the
// caller of the action knows.
func (e *Error) faultClass() fault.Class {
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
