package kops

import (
	"context"
	"fmt"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/pipeline"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/validate"
)

// Completed is a cluster with all inferred values.
type Completed struct {
	Spec   *api.Cluster
	Groups []*api.InstanceGroup

	completed *complete.Cluster
}

// Explanation is the origin of one value of a completed object.
type Explanation struct {
	Object string `json:"object"` // Cluster/name or InstanceGroup/name
	// Path and Value are as users write them, in v1alpha2.
	Path  string `json:"path"`
	Value string `json:"value"`
	// Rule is "user" if the user set the value.
	Rule string `json:"rule"`
	Why  string `json:"why,omitempty"`
}

// Explain lists every value of the cluster and its groups, by object and path.
func (c *Completed) Explain() []Explanation {
	var out []Explanation
	for _, e := range c.completed.Explain() {
		out = append(out, Explanation(e))
	}
	return out
}

// Completed returns the completed cluster. Nothing is changed.
func (c *Client) Completed(ctx context.Context, name string, o UpdateOptions) (*Completed, error) {
	cl, err := c.Clusters().Get(ctx, name)
	if err != nil {
		return nil, err
	}
	done, err := c.completed(ctx, cl, o)
	if err != nil {
		if fault.Of(err) != fault.Permanent {
			err = fmt.Errorf("%w; the completed spec needs data of the cloud; give access to the cloud, or a facts file: option:Facts", err)
		}
		return nil, err
	}
	return &Completed{done.Done.Spec, done.Done.Groups, done.Done}, nil
}

// Check completes and validates a cluster, which need not be stored, and returns
// the facts that this required. Its machines must be able to download what they need, and the
// stores that it names, other than the state store, must exist.
func (c *Client) Check(ctx context.Context, cl *Cluster, known *Facts) (*Facts, error) {
	done, err := c.completed(ctx, cl, UpdateOptions{Facts: known})
	if err != nil {
		return nil, err
	}
	if err := done.Fetchable(ctx); err != nil {
		return nil, err
	}
	return &Facts{done.Facts}, nil
}

// completed completes and validates a cluster, and reads no more than necessary.
func (c *Client) completed(ctx context.Context, cl *Cluster, o UpdateOptions) (*pipeline.Completed, error) {
	if err := validate.Gossip(cl.Spec).Err(); err != nil {
		return nil, err
	}
	opened, err := c.world.Open(ctx, cl.stored(), pipeline.OpenOptions{Refresh: o.Refresh})
	if err != nil {
		return nil, err
	}
	known, err := opened.LookUp(ctx, o.Facts.internal())
	if err != nil {
		return nil, err
	}
	done, err := known.Complete()
	if err != nil {
		return nil, err
	}
	return done.Validate()
}
