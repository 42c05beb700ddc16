package kinds

import (
	"context"
	"slices"

	"google.golang.org/api/compute/v1"

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
		return gone(c.Done(ctx)(c.Compute.TargetPools.Delete(c.Project, c.Region, p.Name).Context(ctx).Do()))
	},
}

// targetPools are the API's pool and, where everything is asked for, those of the cluster's services.
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
	is, err := gceapi.Got(c.Compute.TargetPools.Get(c.Project, c.Region, have.Name).Context(ctx).Do())
	if err != nil {
		return err
	}
	wanted := urls(want.HealthChecks)
	var drop, add []*compute.HealthCheckReference
	for _, h := range is.HealthChecks {
		if !slices.Contains(wanted, gceapi.URL(gceapi.Link(h))) {
			drop = append(drop, &compute.HealthCheckReference{HealthCheck: h})
		}
	}
	for _, h := range wanted {
		if !slices.ContainsFunc(is.HealthChecks, func(i string) bool { return gceapi.URL(gceapi.Link(i)) == h }) {
			add = append(add, &compute.HealthCheckReference{HealthCheck: h})
		}
	}
	if len(drop) > 0 {
		if err := c.Done(ctx)(c.Compute.TargetPools.RemoveHealthCheck(c.Project, c.Region, have.Name,
			&compute.TargetPoolsRemoveHealthCheckRequest{HealthChecks: drop}).Context(ctx).Do()); err != nil {
			return err
		}
	}
	if len(add) == 0 {
		return nil
	}
	return c.Done(ctx)(c.Compute.TargetPools.AddHealthCheck(c.Project, c.Region, have.Name,
		&compute.TargetPoolsAddHealthCheckRequest{HealthChecks: add}).Context(ctx).Do())
}
