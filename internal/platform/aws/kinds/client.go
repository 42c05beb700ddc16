package kinds

import (
	"sync"

	"kops.local/kops/internal/engine/once"
	"kops.local/kops/internal/engine/past"
	"kops.local/kops/internal/platform/aws/awsapi"
)

// Client is what the kinds call. A Client made by Snapshot asks each question
// once, so that kinds which read the same description share one request.
type Client struct {
	awsapi.Clients
	// Past, when not nil, remembers between commands what must be asked of one object at a time.
	Past     past.Memo
	snapshot *once.Answers // nil: every question is asked
	// turns are taken by writes that must not overlap, by what they change: *sync.Mutex.
	turns *sync.Map
}

// NewClient returns a client that remembers nothing.
func NewClient(c awsapi.Clients) *Client { return &Client{Clients: c, turns: &sync.Map{}} }
