package kops

import (
	"context"
	"fmt"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/pipeline"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/facts"
)

// Completed returns the completed cluster. Nothing is changed.
func (c *Client) Completed(ctx context.Context, name string, o UpdateOptions) (*complete.Cluster, error) {
	cl, err := c.Cluster(ctx, name)
	if err != nil {
		return nil, err
	}
	done, err := c.completed(ctx, cl, o)
	if err != nil {
		if fault.Of(err) != fault.Permanent {
			err = fmt.Errorf("%w; the completed spec needs what the cloud knows, or a file with it: --facts", err)
		}
		return nil, err
	}
	return done.Done, nil
}

// Check completes and validates a cluster that need not be stored, and returns
// the facts that this took. Its machines must be able to fetch what they need, and the
// stores that it names beside the state store must exist.
func (c *Client) Check(ctx context.Context, cl *Cluster, known *facts.Facts) (*facts.Facts, error) {
	done, err := c.completed(ctx, cl, UpdateOptions{Facts: known})
	if err != nil {
		return nil, err
	}
	if err := done.Fetchable(ctx); err != nil {
		return nil, err
	}
	return done.Facts, nil
}

// completed completes and validates a cluster, and reads no more than that needs.
func (c *Client) completed(ctx context.Context, cl *Cluster, o UpdateOptions) (*pipeline.Completed, error) {
	opened, err := c.world.Open(ctx, cl.Contents, pipeline.OpenOptions{Refresh: o.Refresh})
	if err != nil {
		return nil, err
	}
	known, err := opened.LookUp(ctx, o.Facts)
	if err != nil {
		return nil, err
	}
	done, err := known.Complete()
	if err != nil {
		return nil, err
	}
	return done.Validate()
}
