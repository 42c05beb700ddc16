package kinds

import (
	"context"

	"kops.local/kops/internal/engine/once"
)

// Snapshot returns a client for one observation: calls that several kinds share are made once. It
// must not be used to observe changes that are made after its creation.
func (c *Client) Snapshot() *Client {
	return &Client{Clients: c.Clients, Past: c.Past, turns: c.turns, snapshot: once.New()}
}

// oncePerSnapshot returns the answer to the request with the key, which is sent at most once per snapshot. All
// callers get the same value and must not change it.
func oncePerSnapshot[T any](ctx context.Context, c *Client, key string, question func(context.Context) (T, error)) (T, error) {
	return once.Ask(ctx, c.snapshot, key, question)
}
