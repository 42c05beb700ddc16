package kops

import (
	"context"
)

// Leases operates on the leases of clusters. A process holds a cluster's lease while it changes the cluster.
type Leases struct{ c *Client }

// Leases returns the operations on leases.
func (c *Client) Leases() Leases { return Leases{c} }

// Holder describes in a sentence who holds the lease of a cluster; "" means that the lease is
// free. The cluster itself need not exist.
func (l Leases) Holder(ctx context.Context, cluster string) (string, error) {
	held, err := l.c.store.LeaseHolder(ctx, cluster)
	if err != nil {
		return "", err
	}
	if held == nil {
		_, err := l.c.Clusters().Get(ctx, cluster)
		return "", err
	}
	return held.Describe(), nil
}

// Break frees the lease of a cluster, regardless of its holder.
func (l Leases) Break(ctx context.Context, cluster string) error {
	return l.c.store.Break(ctx, l.c.holder(), cluster)
}
