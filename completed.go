package kops

import (
	"context"
	"fmt"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/model"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/facts"
)

// Completed returns the completed cluster. Nothing is changed.
func (c *Client) Completed(ctx context.Context, name string, o UpdateOptions) (*complete.Cluster, error) {
	cl, err := c.Cluster(ctx, name)
	if err != nil {
		return nil, err
	}
	p, err := c.completed(ctx, cl, o)
	if err != nil {
		if fault.Of(err) != fault.Permanent {
			err = fmt.Errorf("%w; the completed spec needs what the cloud knows, or a file with it: --facts", err)
		}
		return nil, err
	}
	return p.done, nil
}

// Check completes and validates a cluster that need not be stored, and returns
// the facts that this took. Its machines must be able to fetch what they need, and the
// stores that it names beside the state store must exist.
func (c *Client) Check(ctx context.Context, cl *Cluster, known *facts.Facts) (*facts.Facts, error) {
	p, err := c.completed(ctx, cl, UpdateOptions{Facts: known})
	if err != nil {
		return nil, err
	}
	in := model.Input{Cluster: p.done.Spec, Groups: p.done.Groups, NodeVersion: p.done.NodeVersion, Version: c.cfg.Version, Facts: p.facts}
	if err := model.Fetchable(in); err != nil {
		return nil, err
	}
	if c.cfg.Offline {
		return p.facts, nil
	}
	return p.facts, p.places.exist(ctx)
}

// completed completes and validates a cluster, and reads no more than that needs.
func (c *Client) completed(ctx context.Context, cl *Cluster, o UpdateOptions) (*prepared, error) {
	p := &prepared{cluster: cl, client: c}
	if err := c.connect(ctx, p, o); err != nil {
		return nil, err
	}
	if err := p.lookUp(ctx, o.Facts); err != nil {
		return nil, err
	}
	if err := p.readChannel(ctx); err != nil {
		return nil, err
	}
	if err := c.complete(ctx, p, o); err != nil {
		return nil, err
	}
	return p, c.validate(ctx, p, o)
}
