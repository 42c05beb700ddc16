package awsquery_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/aws/awsquery"
)

var key = awsquery.Credentials{ID: "id", Secret: "secret", Token: "token"}

// doer sends a request.
type doer func(*http.Request) (*http.Response, error)

func (d doer) Do(r *http.Request) (*http.Response, error) { return d(r) }

// client returns a client whose requests go to a test server with the handler.
func client(t *testing.T, h http.HandlerFunc) awsquery.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return awsquery.Client{Credentials: func(context.Context) (awsquery.Credentials, error) { return key, nil }, HTTP: s.Client(), Region: "eu-west-1", Endpoint: s.URL,
		Now: func() time.Time { return time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC) }}
}

func TestAnActionIsAskedForAndItsAnswerRead(t *testing.T) {
	var form string
	var header http.Header
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		form, header = string(body), r.Header
		_, _ = io.WriteString(w, "<R><a><b>c</b></a></R>")
	})
	var answer struct {
		B string `xml:"a>b"`
	}
	values := url.Values{"X": {"y z"}}
	if err := c.Call(t.Context(), "ec2", "2016-11-15", "Ask", values, &answer); err != nil || answer.B != "c" || len(values) != 1 {
		t.Errorf("got %+v of %v, %v", answer, values, err)
	}
	if form != "Action=Ask&Version=2016-11-15&X=y+z" {
		t.Errorf("sent %s", form)
	}
	want := sdk(t, http.Header{"Content-Type": header["Content-Type"]}, c.Endpoint, form, awsquery.Scope{Region: "eu-west-1", Service: "ec2"}, key, c.Now())
	for name := range want {
		if !reflect.DeepEqual(header[name], want[name]) {
			t.Errorf("%s is %s, want %s", name, header[name], want[name])
		}
	}
	var to string
	c.Endpoint, c.HTTP = "", doer(func(r *http.Request) (*http.Response, error) {
		to = r.URL.String()
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("<R/>"))}, nil
	})
	if err := c.Call(t.Context(), "ec2", "v", "Ask", nil, &answer); err != nil || to != "https://ec2.eu-west-1.amazonaws.com/" {
		t.Errorf("asked %s, %v", to, err)
	}
}

func TestRefusals(t *testing.T) {
	for _, x := range []struct {
		status     int
		body       string
		code, text string
		class      fault.Class
	}{
		{403, "<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message>no</Message></Error></Errors><RequestID>r</RequestID></Response>",
			"UnauthorizedOperation", "403 Forbidden: UnauthorizedOperation: no (request r)", fault.Denied},
		{403, "<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>no</Message></Error><RequestId>r</RequestId></ErrorResponse>",
			"AccessDenied", "403 Forbidden: AccessDenied: no (request r)", fault.Denied},
		{400, "<R><Error><Code>AccessDeniedException</Code></Error></R>", "AccessDeniedException", "400 Bad Request: AccessDeniedException", fault.Denied},
		{400, "<R><Error><Code>Throttling</Code><Message>Rate exceeded</Message></Error></R>", "Throttling", "400 Bad Request: Throttling: Rate exceeded", fault.Throttled},
		{503, "<R><Errors><Error><Code>RequestLimitExceeded</Code></Error></Errors></R>", "RequestLimitExceeded", "503 Service Unavailable: RequestLimitExceeded", fault.Throttled},
		{429, "", "429 Too Many Requests", "429 Too Many Requests: no reason given", fault.Throttled},
		{500, "<R><Errors><Error><Code>InternalError</Code></Error></Errors></R>", "InternalError", "500 Internal Server Error: InternalError", fault.NotYet},
		{502, "<html>bad gateway", "502 Bad Gateway", "502 Bad Gateway: no reason given", fault.NotYet},
		{503, "<R><Error><Code>AccessDenied</Code></Error></R>", "AccessDenied", "503 Service Unavailable: AccessDenied", fault.NotYet},
		{400, "<R><Errors><Error><Code>InvalidVolume.NotFound</Code></Error></Errors></R>", "InvalidVolume.NotFound", "400 Bad Request: InvalidVolume.NotFound", fault.Permanent},
	} {
		c := client(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(x.status)
			_, _ = io.WriteString(w, x.body)
		})
		err := c.Call(t.Context(), "ec2", "v", "Ask", nil, new(struct{}))
		var said *awsquery.Error
		if !errors.As(err, &said) || said.Status != x.status || said.Code != x.code || err.Error() != x.text || fault.Of(err) != x.class {
			t.Errorf("%d %s: %v is %q, want %s, %q", x.status, x.body, err, fault.Of(err), x.text, x.class)
		}
	}
}

func TestAnswersThatDoNotArrive(t *testing.T) {
	denied := fault.New(fault.Denied, "no role")
	for name, x := range map[string]struct {
		change func(*awsquery.Client)
		class  fault.Class
		says   string
	}{
		"not XML":        {func(*awsquery.Client) {}, fault.NotYet, "cannot parse the response"},
		"nobody there":   {func(c *awsquery.Client) { c.Endpoint = "http://127.0.0.1:1" }, fault.NotYet, "refused"},
		"a bad address":  {func(c *awsquery.Client) { c.Endpoint = "http://a b" }, fault.Permanent, "invalid"},
		"no credentials": {func(c *awsquery.Client) { c.Credentials = none(denied) }, fault.Denied, "find credentials: no role"},
		"a time-out": {func(c *awsquery.Client) {
			c.Timeout = time.Nanosecond
			c.HTTP = doer(func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() })
		}, fault.NotYet, "deadline exceeded"},
	} {
		c := client(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "no XML <") })
		x.change(&c)
		if err := c.Call(t.Context(), "ec2", "v", "Ask", nil, new(struct{})); fault.Of(err) != x.class || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: %v is %q", name, err, fault.Of(err))
		}
	}
}

func none(err error) func(context.Context) (awsquery.Credentials, error) {
	return func(context.Context) (awsquery.Credentials, error) { return awsquery.Credentials{}, err }
}
