package kinds

import (
	"context"
	"slices"

	"google.golang.org/api/compute/v1"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/gceapi"
)

// TargetPool is the set of machines behind a public balancer; groups add their machines
// automatically.
type TargetPool struct {
	Name         string           `res:"forbid" tf:"name"`
	HealthChecks []resource.Value `res:",post" tf:"health_checks"` // HTTPHealthCheck.ID, at most one

	ID string `res:"out,id" out:"id" tf:"self_link"`
}

// TargetPools is the kind of TargetPool.
var TargetPools = resource.Kind[TargetPool, *Client]{
	Name:  "google_compute_target_pool",
	API:   apiCompute,
	Phase: resource.Security,
	Tasks: []string{"TargetPool", "PoolHealthCheck"},
	Early: true,
	Key:   func(p *TargetPool) string { return p.Name },
	List: func(ctx context.Context, c *Client, s resource.Scope) ([]*TargetPool, error) {
		w := &world{Scope: s, cluster: s.Cluster}
		list, err := w.targetPools(ctx, c)
		return selectObjects(list, err, func(*compute.TargetPool) bool { return true }, func(d *compute.TargetPool) *TargetPool {
			return &TargetPool{Name: d.Name, HealthChecks: links(d.HealthChecks), ID: gceapi.Link(d.SelfLink)}
		})
	},
	Create: func(ctx context.Context, c *Client, p *TargetPool) error {
		p.ID = c.regional("targetPools", p.Name)
		return c.Await(ctx)(c.Compute.TargetPools.Insert(c.Project, c.Region, &compute.TargetPool{Name: p.Name}).Context(ctx).Do())
	},
	Update: []resource.Setter[TargetPool, *Client]{{Fields: []string{"HealthChecks"}, Set: setPoolChecks}},
	Delete: func(ctx context.Context, c *Client, p *TargetPool) error {
		return fault.IgnoreGone(c.Await(ctx)(c.Compute.TargetPools.Delete(c.Project, c.Region, p.Name).Context(ctx).Do()))
	},
}

// targetPools returns the API's pool and, with Scope.All, the pools of the cluster's Services.
func (w *world) targetPools(ctx context.Context, c *Client) ([]*compute.TargetPool, error) {
	services, err := w.services(ctx, c)
	if err != nil {
		return nil, err
	}
	list, err := c.allTargetPools(ctx)
	return slices.DeleteFunc(slices.Clone(list), func(d *compute.TargetPool) bool {
		return !w.isWanted(d.Name) && !w.isOwnName(d.Name, "api") && !services[d.Name]
	}), err
}

// setPoolChecks removes a check before it adds another, because a pool has at most one.
func setPoolChecks(ctx context.Context, c *Client, have, want *TargetPool) error {
	current, err := c.poolChecks(ctx, have)
	if err != nil {
		return err
	}
	wanted := urls(want.HealthChecks)
	if drop := difference(current, wanted); len(drop) > 0 {
		err := c.Await(ctx)(c.Compute.TargetPools.RemoveHealthCheck(c.Project, c.Region, have.Name,
			&compute.TargetPoolsRemoveHealthCheckRequest{HealthChecks: checkRefs(drop)}).Context(ctx).Do())
		if err = c.ignoreIfDone(ctx, err, have, func(now []string) bool { return len(difference(drop, now)) == len(drop) }); err != nil {
			return err
		}
	}
	add := difference(wanted, current)
	if len(add) == 0 {
		return nil
	}
	err = c.Await(ctx)(c.Compute.TargetPools.AddHealthCheck(c.Project, c.Region, have.Name,
		&compute.TargetPoolsAddHealthCheckRequest{HealthChecks: checkRefs(add)}).Context(ctx).Do())
	return c.ignoreIfDone(ctx, err, have, func(now []string) bool { return len(difference(add, now)) == 0 })
}

// poolChecks returns the URLs of a pool's current checks.
func (c *Client) poolChecks(ctx context.Context, p *TargetPool) ([]string, error) {
	current, err := gceapi.Result(c.Compute.TargetPools.Get(c.Project, c.Region, p.Name).Context(ctx).Do())
	if err != nil {
		return nil, err
	}
	return urls(links(current.HealthChecks)), nil
}

// ignoreIfDone returns nil if err is permanent but the pool's checks are already as wanted, and err
// otherwise: a change whose response was lost may complete while it is retried, and the retry then
// fails.
func (c *Client) ignoreIfDone(ctx context.Context, err error, p *TargetPool, done func(now []string) bool) error {
	if !fault.Is(err, fault.Permanent) {
		return err
	}
	if now, lookErr := c.poolChecks(ctx, p); lookErr == nil && done(now) {
		return nil
	}
	return err
}

// difference returns the texts that are not in others.
func difference(texts, others []string) []string {
	return slices.DeleteFunc(slices.Clone(texts), func(t string) bool { return slices.Contains(others, t) })
}

func checkRefs(urls []string) []*compute.HealthCheckReference {
	out := make([]*compute.HealthCheckReference, len(urls))
	for i, u := range urls {
		out[i] = &compute.HealthCheckReference{HealthCheck: u}
	}
	return out
}
