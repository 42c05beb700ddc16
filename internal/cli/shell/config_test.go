package shell

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// newApp returns an app with a few variables, whose clock stands still.
func newApp(env map[string]string) *App {
	return &App{System: System{Env: func(name string) string { return env[name] }, Now: func() time.Time { return time.Time{} }, Err: &bytes.Buffer{}}}
}

func TestTheActionOfARequestIsLogged(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err != nil || r.Method == http.MethodPost && len(body) == 0 {
			t.Errorf("it was sent %q, %v", body, err)
		}
	}))
	defer s.Close()
	const form = "application/x-www-form-urlencoded; charset=utf-8"
	for _, c := range []struct{ service, kind, target, body, want string }{
		{"ec2", form, "", "Action=DescribeVpcs&Secret=x", "ec2 DescribeVpcs POST "},
		{"sqs", "application/x-amz-json-1.0", "AmazonSQS.GetQueueUrl", "{}", "sqs GetQueueUrl POST "},
		{"route53", "text/xml", "", "<x/>", "POST "},
		{"", form, "", "Action=x", "POST "},
	} {
		app := newApp(nil)
		app.Verbosity = 2
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/", struct{ io.Reader }{strings.NewReader(c.body)})
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", c.kind)
		r.Header.Set("X-Amz-Target", c.target)
		if c.service != "" {
			r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIA/20261123/us-east-1/"+c.service+"/aws4_request, SignedHeaders=host")
		}
		resp, err := app.httpClient().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		if got := app.Err.(*bytes.Buffer).String(); got != c.want+s.URL+"/: 200 OK (0s)\n" {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestRequestsAreLoggedWithoutTheirContents(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	for verbosity, want := range map[int]string{1: "", 2: "GET " + s.URL + "/bucket: 404 Not Found (0s)\n"} {
		app := newApp(nil)
		app.Verbosity = verbosity
		resp, err := app.httpClient().Get(s.URL + "/bucket?X-Amz-Signature=secret")
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		if got := app.Err.(*bytes.Buffer).String(); got != want {
			t.Errorf("-v %d: %q, want %q", verbosity, got, want)
		}
	}
}

// silentTransport answers once the user was told that it is silent.
type silentTransport struct{ told chan string }

func (s silentTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	s.told <- <-s.told
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
}

func TestASilentServerIsShownOnce(t *testing.T) {
	app, told := newApp(nil), make(chan string, 1)
	client := &http.Client{Transport: noticingTransport{silentTransport{told}, 0, func(host string) {
		app.noteSilence(host)
		told <- host
	}}}
	for range 2 {
		resp, err := client.Get("http://example.com/bucket")
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		<-told
	}
	if got := app.Err.(*bytes.Buffer).String(); got != "waiting for an answer of example.com …\n" {
		t.Errorf("%q", got)
	}
}

func TestPasswordsOfURLsAreNotLogged(t *testing.T) {
	app := newApp(nil)
	app.Verbosity = requests
	app.log().Debug("no digest is published", "place", "https://bob:hunter2@m.example.com/x?sig=hunter2", "error", errors.New("get http://u:hunter2@h"))
	got := app.Err.(*bytes.Buffer).String()
	if strings.Contains(got, "hunter2") || !strings.Contains(got, "https://xxxxx@m.example.com/x?xxxxx") || !strings.Contains(got, "http://xxxxx@h") {
		t.Error(got)
	}
}
