package kops

import (
	"context"
)

// Leases are the leases of clusters, of which whoever changes one holds its own.
type Leases struct{ c *Client }

// Leases returns what is done about leases.
func (c *Client) Leases() Leases { return Leases{c} }

// Holder says in a sentence who holds the lease of a cluster; "" means nobody.
// What holds a lease need not be a cluster any more.
func (l Leases) Holder(ctx context.Context, cluster string) (string, error) {
	held, err := l.c.store.Holding(ctx, cluster)
	if err != nil {
		return "", err
	}
	if held == nil {
		_, err := l.c.Clusters().Get(ctx, cluster)
		return "", err
	}
	return held.Describe(), nil
}

// Break frees the lease of a cluster, whoever holds it.
func (l Leases) Break(ctx context.Context, cluster string) error {
	return l.c.store.Break(ctx, l.c.holder(), cluster)
}
