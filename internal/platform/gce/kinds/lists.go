package kinds

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/api/compute/v1"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/once"
	"kops.local/kops/internal/platform/gce/gceapi"
	"kops.local/kops/internal/platform/gce/gcecloud"
)

// perPage is the most objects in one answer (Compute Engine, parameter maxResults).
const perPage = 500

// listed gathers the objects of all pages, once a snapshot.
func listed[T any](ctx context.Context, c *Client, what string, pages func(ctx context.Context, add func(...T)) error) ([]T, error) {
	return once.Ask(ctx, c.answers, what, func(ctx context.Context) ([]T, error) {
		var out []T
		if err := pages(ctx, func(items ...T) { out = append(out, items...) }); err != nil {
			return nil, fmt.Errorf("list %s: %w", what, gceapi.Bare(err))
		}
		return out, nil
	})
}

// picked are the objects of a list that pass, each as its kind has it.
func picked[D, T any](list []D, err error, pass func(D) bool, as func(D) *T) ([]*T, error) {
	if err != nil {
		return nil, err
	}
	var out []*T
	for _, d := range list {
		if pass(d) {
			out = append(out, as(d))
		}
	}
	return out, nil
}

// answered returns an error for a part of an aggregated list that is missing because its place did
// not answer. Parts outside the region do not matter.
func (c *Client) answered(place, warning string) error {
	if warning != "UNREACHABLE" || !c.here(place) {
		return nil
	}
	return fault.New(fault.Lost, "%s does not answer", place)
}

// allAnswered is answered for the places that an aggregated list could not reach.
func (c *Client) allAnswered(unreachable []string) error {
	for _, place := range unreachable {
		if err := c.answered(place, "UNREACHABLE"); err != nil {
			return err
		}
	}
	return nil
}

// here reports whether a place, such as zones/us-east1-b, is the region or in it.
func (c *Client) here(place string) bool {
	name := gceapi.Name(place)
	return name == c.Region || strings.HasPrefix(name, c.Region+"-")
}

func (c *Client) allTemplates(ctx context.Context) ([]*compute.InstanceTemplate, error) {
	return listed(ctx, c, "instance templates", func(ctx context.Context, add func(...*compute.InstanceTemplate)) error {
		return c.Compute.InstanceTemplates.List(c.Project).MaxResults(perPage).Pages(ctx, func(p *compute.InstanceTemplateList) error {
			add(p.Items...)
			return nil
		})
	})
}

func (c *Client) allManagers(ctx context.Context) ([]*compute.InstanceGroupManager, error) {
	return listed(ctx, c, "managed instance groups", func(ctx context.Context, add func(...*compute.InstanceGroupManager)) error {
		return c.Compute.InstanceGroupManagers.AggregatedList(c.Project).MaxResults(perPage).Pages(ctx, func(p *compute.InstanceGroupManagerAggregatedList) error {
			for place, in := range p.Items {
				if in.Warning != nil {
					if err := c.answered(place, in.Warning.Code); err != nil {
						return err
					}
				}
				add(in.InstanceGroupManagers...)
			}
			return c.allAnswered(p.Unreachables)
		})
	})
}

func (c *Client) allDisks(ctx context.Context, cluster string) ([]*compute.Disk, error) {
	return listed(ctx, c, "disks of "+cluster, func(ctx context.Context, add func(...*compute.Disk)) error {
		return c.Compute.Disks.AggregatedList(c.Project).MaxResults(perPage).Filter(labelled(cluster)).Pages(ctx, func(p *compute.DiskAggregatedList) error {
			for place, in := range p.Items {
				if in.Warning != nil {
					if err := c.answered(place, in.Warning.Code); err != nil {
						return err
					}
				}
				for _, d := range in.Disks {
					if c.here(place) && d.Labels[gcecloud.ClusterLabel] == gcecloud.Label(cluster) {
						add(d)
					}
				}
			}
			return c.allAnswered(p.Unreachables)
		})
	})
}

// allInstances are the machines that bear the cluster's label and its name.
func (c *Client) allInstances(ctx context.Context, cluster string) ([]*compute.Instance, error) {
	return listed(ctx, c, "instances of "+cluster, func(ctx context.Context, add func(...*compute.Instance)) error {
		return c.Compute.Instances.AggregatedList(c.Project).MaxResults(perPage).Filter(labelled(cluster)).Pages(ctx, func(p *compute.InstanceAggregatedList) error {
			for place, in := range p.Items {
				if in.Warning != nil {
					if err := c.answered(place, in.Warning.Code); err != nil {
						return err
					}
				}
				for _, i := range in.Instances {
					if c.here(place) && gceapi.Metadata(i.Metadata, gcecloud.MetadataCluster) == cluster {
						add(i)
					}
				}
			}
			return c.allAnswered(p.Unreachables)
		})
	})
}

func (c *Client) allInstanceGroups(ctx context.Context) ([]*compute.InstanceGroup, error) {
	return listed(ctx, c, "instance groups", func(ctx context.Context, add func(...*compute.InstanceGroup)) error {
		return c.Compute.InstanceGroups.AggregatedList(c.Project).MaxResults(perPage).Pages(ctx, func(p *compute.InstanceGroupAggregatedList) error {
			for place, in := range p.Items {
				if in.Warning != nil {
					if err := c.answered(place, in.Warning.Code); err != nil {
						return err
					}
				}
				if strings.HasPrefix(place, "zones/") && c.here(place) {
					add(in.InstanceGroups...)
				}
			}
			return c.allAnswered(p.Unreachables)
		})
	})
}

func (c *Client) allGlobalHealthChecks(ctx context.Context) ([]*compute.HealthCheck, error) {
	return listed(ctx, c, "health checks of no region", func(ctx context.Context, add func(...*compute.HealthCheck)) error {
		return c.Compute.HealthChecks.List(c.Project).MaxResults(perPage).Pages(ctx, func(p *compute.HealthCheckList) error {
			add(p.Items...)
			return nil
		})
	})
}

// labelled is the filter for what bears the cluster's label. What comes is looked at again: a filter
// that is not understood must not make others' objects the cluster's.
func labelled(cluster string) string {
	return "labels." + gcecloud.ClusterLabel + "=" + gcecloud.Label(cluster)
}

func (c *Client) allSubnetworks(ctx context.Context) ([]*compute.Subnetwork, error) {
	return listed(ctx, c, "subnetworks", func(ctx context.Context, add func(...*compute.Subnetwork)) error {
		return c.Compute.Subnetworks.List(c.Project, c.Region).MaxResults(perPage).Pages(ctx, func(p *compute.SubnetworkList) error {
			add(p.Items...)
			return nil
		})
	})
}

func (c *Client) allRouters(ctx context.Context) ([]*compute.Router, error) {
	return listed(ctx, c, "routers", func(ctx context.Context, add func(...*compute.Router)) error {
		return c.Compute.Routers.List(c.Project, c.Region).MaxResults(perPage).Pages(ctx, func(p *compute.RouterList) error {
			add(p.Items...)
			return nil
		})
	})
}

func (c *Client) allFirewalls(ctx context.Context) ([]*compute.Firewall, error) {
	return listed(ctx, c, "firewall rules", func(ctx context.Context, add func(...*compute.Firewall)) error {
		return c.Compute.Firewalls.List(c.Project).MaxResults(perPage).Pages(ctx, func(p *compute.FirewallList) error {
			add(p.Items...)
			return nil
		})
	})
}

func (c *Client) allAddresses(ctx context.Context) ([]*compute.Address, error) {
	return listed(ctx, c, "addresses", func(ctx context.Context, add func(...*compute.Address)) error {
		return c.Compute.Addresses.List(c.Project, c.Region).MaxResults(perPage).Pages(ctx, func(p *compute.AddressList) error {
			add(p.Items...)
			return nil
		})
	})
}

func (c *Client) allForwardingRules(ctx context.Context) ([]*compute.ForwardingRule, error) {
	return listed(ctx, c, "forwarding rules", func(ctx context.Context, add func(...*compute.ForwardingRule)) error {
		return c.Compute.ForwardingRules.List(c.Project, c.Region).MaxResults(perPage).Pages(ctx, func(p *compute.ForwardingRuleList) error {
			add(p.Items...)
			return nil
		})
	})
}

func (c *Client) allTargetPools(ctx context.Context) ([]*compute.TargetPool, error) {
	return listed(ctx, c, "target pools", func(ctx context.Context, add func(...*compute.TargetPool)) error {
		return c.Compute.TargetPools.List(c.Project, c.Region).MaxResults(perPage).Pages(ctx, func(p *compute.TargetPoolList) error {
			add(p.Items...)
			return nil
		})
	})
}

func (c *Client) allHTTPHealthChecks(ctx context.Context) ([]*compute.HttpHealthCheck, error) {
	return listed(ctx, c, "HTTP health checks", func(ctx context.Context, add func(...*compute.HttpHealthCheck)) error {
		return c.Compute.HttpHealthChecks.List(c.Project).MaxResults(perPage).Pages(ctx, func(p *compute.HttpHealthCheckList) error {
			add(p.Items...)
			return nil
		})
	})
}

func (c *Client) allHealthChecks(ctx context.Context) ([]*compute.HealthCheck, error) {
	return listed(ctx, c, "health checks", func(ctx context.Context, add func(...*compute.HealthCheck)) error {
		return c.Compute.RegionHealthChecks.List(c.Project, c.Region).MaxResults(perPage).Pages(ctx, func(p *compute.HealthCheckList) error {
			add(p.Items...)
			return nil
		})
	})
}

func (c *Client) allBackendServices(ctx context.Context) ([]*compute.BackendService, error) {
	return listed(ctx, c, "backend services", func(ctx context.Context, add func(...*compute.BackendService)) error {
		return c.Compute.RegionBackendServices.List(c.Project, c.Region).MaxResults(perPage).Pages(ctx, func(p *compute.BackendServiceList) error {
			add(p.Items...)
			return nil
		})
	})
}

func (c *Client) allRoutes(ctx context.Context) ([]*compute.Route, error) {
	return listed(ctx, c, "routes", func(ctx context.Context, add func(...*compute.Route)) error {
		return c.Compute.Routes.List(c.Project).MaxResults(perPage).Pages(ctx, func(p *compute.RouteList) error {
			add(p.Items...)
			return nil
		})
	})
}
