package kops

import (
	"context"
	"time"

	"kops.local/kops/internal/store/clusterstore"
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
	return l.c.store.Break(ctx, cluster)
}

// Revision is one change that was applied to a cluster.
type Revision struct {
	Number  int       `json:"number"`
	Time    time.Time `json:"time"`
	Who     string    `json:"who"`
	Version string    `json:"version"`
	Command string    `json:"command"`
	Result  string    `json:"result"`
	Message string    `json:"message,omitempty"`
}

// Revisions lists the changes that were applied to a cluster, the newest first.
func (s Clusters) Revisions(ctx context.Context, cluster string) ([]Revision, error) {
	if _, err := s.c.Clusters().Get(ctx, cluster); err != nil {
		return nil, err
	}
	history, err := s.c.store.History(ctx, cluster)
	if err != nil {
		return nil, err
	}
	out := make([]Revision, len(history))
	for i, r := range history {
		out[i] = revision(r)
	}
	return out, nil
}

func revision(r clusterstore.Revision) Revision {
	return Revision{Number: r.Number, Time: r.Time, Who: r.User + "@" + r.Host, Version: r.Version,
		Command: r.Command, Result: r.Result, Message: r.Message}
}
