package kinds

import (
	"context"

	"kops.local/kops/internal/engine/once"
)

// Snapshot returns a client for one observation of the world: describing calls
// that several kinds share are made once in its life. It must not be used to
// observe what happened after it was made.
func (c *Client) Snapshot() *Client {
	return &Client{Clients: c.Clients, Past: c.Past, turns: c.turns, snapshot: once.New()}
}

// ask answers the question that key names, at most once per snapshot. Every
// asker gets the same value and must not change it.
func ask[T any](ctx context.Context, c *Client, key string, question func(context.Context) (T, error)) (T, error) {
	return once.Ask(ctx, c.snapshot, key, question)
}
