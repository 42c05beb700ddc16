package kinds

import (
	"sync"

	"kops.local/kops/internal/engine/once"
	"kops.local/kops/internal/engine/past"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/gceapi"
)

// Client is what the kinds call. A Client made by Snapshot asks each question
// once, so that kinds which read the same list share one request.
type Client struct {
	gceapi.Clients
	// Buckets are the additional buckets in which the cluster's accounts may have roles.
	Buckets []string
	// Past, when not nil, remembers between commands what hardly ever changes.
	Past past.Memo

	answers *once.Answers // nil: every question is asked
	// turns are taken by writes that must not overlap, by what they change: *sync.Mutex.
	turns *sync.Map
}

// NewClient returns a client that remembers nothing.
func NewClient(c gceapi.Clients) *Client { return &Client{Clients: c, turns: &sync.Map{}} }

// Snapshot returns a client for one observation of the world: lists that several kinds
// share are asked for once in its life. It must not be used to observe what happened
// after it was made.
func (c *Client) Snapshot() *Client {
	return &Client{Clients: c.Clients, Buckets: c.Buckets, Past: c.Past, turns: c.turns, answers: once.New()}
}

// turn waits until no other write changes what key names. The caller calls what it returns.
func (c *Client) turn(key string) (end func()) {
	mu, _ := c.turns.LoadOrStore(key, &sync.Mutex{})
	mu.(*sync.Mutex).Lock()
	return mu.(*sync.Mutex).Unlock
}

// link is a reference to an object by its URL, in the form in which outputs are.
func link(url string) resource.Value { return resource.Lit(gceapi.Link(url)) }

func links(urls []string) []resource.Value {
	out := make([]resource.Value, len(urls))
	for i, u := range urls {
		out[i] = link(u)
	}
	return out
}

// url is a reference as requests have it.
func url(v resource.Value) string { return gceapi.URL(v.Text()) }

func urls(vs []resource.Value) []string {
	out := make([]string, len(vs))
	for i, v := range vs {
		out[i] = url(v)
	}
	return out
}
