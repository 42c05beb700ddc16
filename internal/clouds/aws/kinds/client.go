package kinds

import (
	"kops.local/kops/internal/clouds/aws/awsapi"
)

// Client is what the kinds call. A Client made by Snapshot asks each question
// once, so that kinds which read the same description share one request.
type Client struct {
	awsapi.Clients
	// Past, when not nil, remembers between commands what must be asked of one object at a time.
	Past Past
	memo *memo // nil: every question is asked
}

// NewClient returns a client that remembers nothing.
func NewClient(c awsapi.Clients) *Client { return &Client{Clients: c} }
