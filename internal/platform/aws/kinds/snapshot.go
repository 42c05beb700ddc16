package kinds

import (
	"context"

	"golang.org/x/sync/errgroup"

	"kops.local/kops/internal/engine/once"
	"kops.local/kops/internal/engine/resource"
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

// Prefetch asks what a snapshot of a cluster's world asks for by the cluster's name
// alone, before it is known what is wanted. The snapshot's lists find the answers,
// or wait for them; what failed they ask again, and tell.
func (c *Client) Prefetch(ctx context.Context, cluster string) {
	var g errgroup.Group
	for _, k := range early() {
		g.Go(func() error {
			_, _ = k.Observe(ctx, c, resource.Scope{Cluster: cluster}) // see above
			return nil
		})
	}
	_ = g.Wait() // it has no error
}
