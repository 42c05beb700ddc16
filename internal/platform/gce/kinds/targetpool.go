package kinds

import (
	"context"
	"slices"

	"google.golang.org/api/compute/v1"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/gceapi"
)

// TargetPool is the machines behind a public balancer; groups put theirs in by themselves.
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
		return picked(list, err, func(*compute.TargetPool) bool { return true }, func(d *compute.TargetPool) *TargetPool {
			return &TargetPool{Name: d.Name, HealthChecks: links(d.HealthChecks), ID: gceapi.Link(d.SelfLink)}
		})
	},
	Create: func(ctx context.Context, c *Client, p *TargetPool) error {
		p.ID = c.regional("targetPools", p.Name)
		return c.Done(ctx)(c.Compute.TargetPools.Insert(c.Project, c.Region, &compute.TargetPool{Name: p.Name}).Context(ctx).Do())
	},
	Update: []resource.Setter[TargetPool, *Client]{{Fields: []string{"HealthChecks"}, Set: setPoolChecks}},
	Delete: func(ctx context.Context, c *Client, p *TargetPool) error {
		return fault.IgnoreGone(c.Done(ctx)(c.Compute.TargetPools.Delete(c.Project, c.Region, p.Name).Context(ctx).Do()))
	},
}

// targetPools returns the API's pool and, if everything is asked for, the pools of the cluster's
// services.
func (w *world) targetPools(ctx context.Context, c *Client) ([]*compute.TargetPool, error) {
	services, err := w.services(ctx, c)
	if err != nil {
		return nil, err
	}
	list, err := c.allTargetPools(ctx)
	return slices.DeleteFunc(slices.Clone(list), func(d *compute.TargetPool) bool {
		return !w.wanted(d.Name) && !w.is(d.Name, "api") && !services[d.Name]
	}), err
}

// setPoolChecks removes a check before it adds another, as a pool has at most one.
func setPoolChecks(ctx context.Context, c *Client, have, want *TargetPool) error {
	is, err := c.poolChecks(ctx, have)
	if err != nil {
		return err
	}
	wanted := urls(want.HealthChecks)
	if drop := without(is, wanted); len(drop) > 0 {
		err := c.Done(ctx)(c.Compute.TargetPools.RemoveHealthCheck(c.Project, c.Region, have.Name,
			&compute.TargetPoolsRemoveHealthCheckRequest{HealthChecks: checkRefs(drop)}).Context(ctx).Do())
		if err = c.unlessDone(ctx, err, have, func(now []string) bool { return len(without(drop, now)) == len(drop) }); err != nil {
			return err
		}
	}
	add := without(wanted, is)
	if len(add) == 0 {
		return nil
	}
	err = c.Done(ctx)(c.Compute.TargetPools.AddHealthCheck(c.Project, c.Region, have.Name,
		&compute.TargetPoolsAddHealthCheckRequest{HealthChecks: checkRefs(add)}).Context(ctx).Do())
	return c.unlessDone(ctx, err, have, func(now []string) bool { return len(without(add, now)) == 0 })
}

// poolChecks are the URLs of a pool's checks as they are now.
func (c *Client) poolChecks(ctx context.Context, p *TargetPool) ([]string, error) {
	is, err := gceapi.Got(c.Compute.TargetPools.Get(c.Project, c.Region, p.Name).Context(ctx).Do())
	if err != nil {
		return nil, err
	}
	return urls(links(is.HealthChecks)), nil
}

// unlessDone returns err, unless the pool's checks are as they were to be: a change whose answer was lost may
// go on while it is tried again, and what it has done is refused then.
func (c *Client) unlessDone(ctx context.Context, err error, p *TargetPool, done func(now []string) bool) error {
	if !fault.Is(err, fault.Permanent) {
		return err
	}
	if now, lookErr := c.poolChecks(ctx, p); lookErr == nil && done(now) {
		return nil
	}
	return err
}

// without are the texts that are not among others.
func without(texts, others []string) []string {
	return slices.DeleteFunc(slices.Clone(texts), func(t string) bool { return slices.Contains(others, t) })
}

func checkRefs(urls []string) []*compute.HealthCheckReference {
	out := make([]*compute.HealthCheckReference, len(urls))
	for i, u := range urls {
		out[i] = &compute.HealthCheckReference{HealthCheck: u}
	}
	return out
}
