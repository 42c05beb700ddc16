package kinds

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/url"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"kops.local/kops/internal/engine/clock"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/aws/awsapi"
	"kops.local/kops/internal/platform/aws/awstest"
)

const testCluster = "k.example.com"

// connect returns a client of the server.
func connect(t *testing.T, s *awstest.Server) *Client {
	t.Helper()
	api, err := awsapi.Connect(t.Context(), awsapi.Config{Region: s.Region, Endpoint: s.URL,
		Credentials: credentials.NewStaticCredentialsProvider(s.AccessKey, s.SecretKey, "")})
	if err == nil {
		err = api.Identify(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return NewClient(*api)
}

// build creates an object that others need, and applies the initial setters.
func build[T any](t *testing.T, c *Client, k *resource.Kind[T, *Client], want T) *T {
	t.Helper()
	e := k.Erase()
	made, err := e.Create(t.Context(), c, &want)
	if err == nil {
		made, err = e.Set(t.Context(), c, made, &want, e.Schema().Diff(&want, made))
	}
	if err != nil {
		t.Fatalf("make %s: %v", k.Name, err)
	}
	return made.(*T)
}

func lit(s string) resource.Value { return resource.Lit(s) }

// observed lists a kind.
func observed[T any](t *testing.T, c *Client, k *resource.Kind[T, *Client], s resource.Scope) []*T {
	t.Helper()
	var list []*T
	err := fault.Retry(t.Context(), clock.Sleep, func() (err error) { // a response may be lost
		list, err = k.List(t.Context(), c, s)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// requests counts a client's requests.
type requests struct {
	aws.HTTPClient
	mu   sync.Mutex
	sent map[string]int
}

func (r *requests) Do(q *http.Request) (*http.Response, error) {
	action := q.URL.Path
	if q.Body != nil {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			return nil, err
		}
		q.Body = io.NopCloser(bytes.NewReader(body))
		if form, err := url.ParseQuery(string(body)); err == nil && form.Has("Action") {
			action = form.Get("Action")
		}
	}
	r.mu.Lock()
	r.sent[action]++
	r.mu.Unlock()
	return r.HTTPClient.Do(q)
}

func (r *requests) byAction() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.sent)
}

func (r *requests) total() int {
	n := 0
	for _, sent := range r.byAction() {
		n += sent
	}
	return n
}

// countingClient returns a client of the server, and the counter of its requests.
func countingClient(t *testing.T, s *awstest.Server) (*Client, *requests) {
	t.Helper()
	r := &requests{HTTPClient: http.DefaultClient, sent: map[string]int{}}
	api, err := awsapi.Connect(t.Context(), awsapi.Config{Region: s.Region, Endpoint: s.URL, HTTPClient: r,
		Credentials: credentials.NewStaticCredentialsProvider(s.AccessKey, s.SecretKey, "")})
	if err != nil {
		t.Fatal(err)
	}
	return NewClient(*api), r
}
