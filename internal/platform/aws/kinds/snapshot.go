package kinds

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"

	"kops.local/kops/internal/engine/resource"
)

// snapshot remembers the answers of one snapshot. A question that is being asked
// is waited for; an error is not remembered, so that a retry asks again.
type snapshot struct {
	mu      sync.Mutex
	answers map[string]*answer
}

type answer struct {
	done  chan struct{}
	value any
	err   error
}

// Snapshot returns a client for one observation of the world: describing calls
// that several kinds share are made once in its life. It must not be used to
// observe what happened after it was made.
func (c *Client) Snapshot() *Client {
	return &Client{Clients: c.Clients, Past: c.Past, turns: c.turns, snapshot: &snapshot{answers: map[string]*answer{}}}
}

// ask answers the question that key names, at most once per snapshot. Every
// asker gets the same value and must not change it.
func ask[T any](ctx context.Context, c *Client, key string, question func(context.Context) (T, error)) (T, error) {
	if c.snapshot == nil {
		return question(ctx)
	}
	for {
		c.snapshot.mu.Lock()
		a, asked := c.snapshot.answers[key]
		if !asked {
			a = &answer{done: make(chan struct{})}
			c.snapshot.answers[key] = a
		}
		c.snapshot.mu.Unlock()
		if asked {
			select {
			case <-a.done:
			case <-ctx.Done():
				var none T
				return none, ctx.Err()
			}
			if errors.Is(a.err, context.Canceled) && ctx.Err() == nil {
				continue // who asked was called off, as another part of its list failed; this asker was not
			}
		} else {
			a.value, a.err = question(ctx)
			if a.err != nil {
				c.snapshot.mu.Lock()
				delete(c.snapshot.answers, key)
				c.snapshot.mu.Unlock()
			}
			close(a.done)
		}
		value, _ := a.value.(T) // the zero value after an error
		return value, a.err
	}
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
