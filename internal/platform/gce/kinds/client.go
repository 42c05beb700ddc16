package kinds

import (
	"sync"

	"kops.local/kops/internal/engine/once"
	"kops.local/kops/internal/engine/past"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/gceapi"
)

// Client is the client that the kinds use. A Client returned by Snapshot sends each request only
// once, so that kinds that read the same list share one request.
type Client struct {
	gceapi.Clients
	// Buckets are the additional buckets in which the cluster's accounts may have roles.
	Buckets []string
	// Past, when not nil, caches between commands what hardly ever changes.
	Past past.Memo

	answers *once.Answers // nil: every request is sent
	// locks holds a *sync.Mutex per object whose writes must not overlap.
	locks *sync.Map
}

// NewClient returns a client that caches nothing.
func NewClient(c gceapi.Clients) *Client { return &Client{Clients: c, locks: &sync.Map{}} }

// Snapshot returns a client for one observation of the world: it fetches lists that several kinds
// share only once. It must not be used to observe anything that happened after it was created.
func (c *Client) Snapshot() *Client {
	return &Client{Clients: c.Clients, Buckets: c.Buckets, Past: c.Past, locks: c.locks, answers: once.New()}
}

// lock locks what key names against other writes. The caller must call end to unlock it.
func (c *Client) lock(key string) (end func()) {
	mu, _ := c.locks.LoadOrStore(key, &sync.Mutex{})
	mu.(*sync.Mutex).Lock()
	return mu.(*sync.Mutex).Unlock
}

// link returns a reference to an object by its URL, in the form that outputs use.
func link(url string) resource.Value { return resource.Lit(gceapi.Link(url)) }

func links(urls []string) []resource.Value {
	out := make([]resource.Value, len(urls))
	for i, u := range urls {
		out[i] = link(u)
	}
	return out
}

// url returns a reference in the form that requests use.
func url(v resource.Value) string { return gceapi.URL(v.Text()) }

func urls(vs []resource.Value) []string {
	out := make([]string, len(vs))
	for i, v := range vs {
		out[i] = url(v)
	}
	return out
}
