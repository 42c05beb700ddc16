package kinds

import (
	"sync"

	"kops.local/kops/internal/engine/once"
	"kops.local/kops/internal/engine/past"
	"kops.local/kops/internal/platform/aws/awsapi"
)

// Client is the client that the kinds use. A Client returned by Snapshot sends each request once,
// so that kinds that read the same description share one request.
type Client struct {
	awsapi.Clients
	// Past, when not nil, stores between commands what AWS returns for only one object at a time.
	Past     past.Memo
	snapshot *once.Answers // nil: every request is sent
	// turns maps resources to the *sync.Mutex that serializes writes to them.
	turns *sync.Map
}

// NewClient returns a client without a memo.
func NewClient(c awsapi.Clients) *Client { return &Client{Clients: c, turns: &sync.Map{}} }
