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

// perPage is the maximum number of objects in one response (Compute Engine, parameter maxResults).
const perPage = 500

// listAll returns the objects of all pages, fetched once per snapshot.
func listAll[T any](ctx context.Context, c *Client, what string, pages func(ctx context.Context, add func(...T)) error) ([]T, error) {
	return once.Ask(ctx, c.answers, what, func(ctx context.Context) ([]T, error) {
		var out []T
		if err := pages(ctx, func(items ...T) { out = append(out, items...) }); err != nil {
			return nil, fmt.Errorf("list %s: %w", what, gceapi.PlainError(err))
		}
		return out, nil
	})
}

// selectObjects returns the objects of a list for which pass returns true, converted by as.
func selectObjects[D, T any](list []D, err error, pass func(D) bool, as func(D) *T) ([]*T, error) {
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

// checkReachable returns an error if a part of an aggregated list is missing because its location is
// unreachable. Locations outside the region are ignored.
func (c *Client) checkReachable(place, warning string) error {
	if warning != "UNREACHABLE" || !c.inRegion(place) {
		return nil
	}
	return fault.New(fault.Lost, "%s does not respond", place)
}

// checkAllReachable calls answered for all locations that an aggregated list could not reach.
func (c *Client) checkAllReachable(unreachable []string) error {
	for _, place := range unreachable {
		if err := c.checkReachable(place, "UNREACHABLE"); err != nil {
			return err
		}
	}
	return nil
}

// inRegion reports whether a location, such as zones/us-east1-b, is the region or in it.
func (c *Client) inRegion(place string) bool {
	name := gceapi.Name(place)
	return name == c.Region || strings.HasPrefix(name, c.Region+"-")
}

func (c *Client) allTemplates(ctx context.Context) ([]*compute.InstanceTemplate, error) {
	return listAll(ctx, c, "instance templates", func(ctx context.Context, add func(...*compute.InstanceTemplate)) error {
		return c.Compute.InstanceTemplates.List(c.Project).MaxResults(perPage).Pages(ctx, func(p *compute.InstanceTemplateList) error {
			add(p.Items...)
			return nil
		})
	})
}

func (c *Client) allManagers(ctx context.Context) ([]*compute.InstanceGroupManager, error) {
	return listAll(ctx, c, "managed instance groups", func(ctx context.Context, add func(...*compute.InstanceGroupManager)) error {
		return c.Compute.InstanceGroupManagers.AggregatedList(c.Project).MaxResults(perPage).Pages(ctx, func(p *compute.InstanceGroupManagerAggregatedList) error {
			for place, in := range p.Items {
				if in.Warning != nil {
					if err := c.checkReachable(place, in.Warning.Code); err != nil {
						return err
					}
				}
				add(in.InstanceGroupManagers...)
			}
			return c.checkAllReachable(p.Unreachables)
		})
	})
}

func (c *Client) allDisks(ctx context.Context, cluster string) ([]*compute.Disk, error) {
	return listAll(ctx, c, "disks of "+cluster, func(ctx context.Context, add func(...*compute.Disk)) error {
		return c.Compute.Disks.AggregatedList(c.Project).MaxResults(perPage).Filter(clusterLabelFilter(cluster)).Pages(ctx, func(p *compute.DiskAggregatedList) error {
			for place, in := range p.Items {
				if in.Warning != nil {
					if err := c.checkReachable(place, in.Warning.Code); err != nil {
						return err
					}
				}
				for _, d := range in.Disks {
					if c.inRegion(place) && d.Labels[gcecloud.ClusterLabel] == gcecloud.Label(cluster) {
						add(d)
					}
				}
			}
			return c.checkAllReachable(p.Unreachables)
		})
	})
}

// allInstances returns the machines whose label and metadata name the cluster.
func (c *Client) allInstances(ctx context.Context, cluster string) ([]*compute.Instance, error) {
	return listAll(ctx, c, "instances of "+cluster, func(ctx context.Context, add func(...*compute.Instance)) error {
		return c.Compute.Instances.AggregatedList(c.Project).MaxResults(perPage).Filter(clusterLabelFilter(cluster)).Pages(ctx, func(p *compute.InstanceAggregatedList) error {
			for place, in := range p.Items {
				if in.Warning != nil {
					if err := c.checkReachable(place, in.Warning.Code); err != nil {
						return err
					}
				}
				for _, i := range in.Instances {
					if c.inRegion(place) && gceapi.Metadata(i.Metadata, gcecloud.MetadataCluster) == cluster {
						add(i)
					}
				}
			}
			return c.checkAllReachable(p.Unreachables)
		})
	})
}

func (c *Client) allInstanceGroups(ctx context.Context) ([]*compute.InstanceGroup, error) {
	return listAll(ctx, c, "instance groups", func(ctx context.Context, add func(...*compute.InstanceGroup)) error {
		return c.Compute.InstanceGroups.AggregatedList(c.Project).MaxResults(perPage).Pages(ctx, func(p *compute.InstanceGroupAggregatedList) error {
			for place, in := range p.Items {
				if in.Warning != nil {
					if err := c.checkReachable(place, in.Warning.Code); err != nil {
						return err
					}
				}
				if strings.HasPrefix(place, "zones/") && c.inRegion(place) {
					add(in.InstanceGroups...)
				}
			}
			return c.checkAllReachable(p.Unreachables)
		})
	})
}

func (c *Client) allGlobalHealthChecks(ctx context.Context) ([]*compute.HealthCheck, error) {
	return listAll(ctx, c, "global health checks", func(ctx context.Context, add func(...*compute.HealthCheck)) error {
		return c.Compute.HealthChecks.List(c.Project).MaxResults(perPage).Pages(ctx, func(p *compute.HealthCheckList) error {
			add(p.Items...)
			return nil
		})
	})
}

// clusterLabelFilter returns the filter for objects with the cluster's label. Callers check the results
// again: if the API misreads the filter, other clusters' objects must not be taken for this
// cluster's.
func clusterLabelFilter(cluster string) string {
	return "labels." + gcecloud.ClusterLabel + "=" + gcecloud.Label(cluster)
}

func (c *Client) allSubnetworks(ctx context.Context) ([]*compute.Subnetwork, error) {
	return listAll(ctx, c, "subnetworks", func(ctx context.Context, add func(...*compute.Subnetwork)) error {
		return c.Compute.Subnetworks.List(c.Project, c.Region).MaxResults(perPage).Pages(ctx, func(p *compute.SubnetworkList) error {
			add(p.Items...)
			return nil
		})
	})
}

func (c *Client) allRouters(ctx context.Context) ([]*compute.Router, error) {
	return listAll(ctx, c, "routers", func(ctx context.Context, add func(...*compute.Router)) error {
		return c.Compute.Routers.List(c.Project, c.Region).MaxResults(perPage).Pages(ctx, func(p *compute.RouterList) error {
			add(p.Items...)
			return nil
		})
	})
}

func (c *Client) allFirewalls(ctx context.Context) ([]*compute.Firewall, error) {
	return listAll(ctx, c, "firewall rules", func(ctx context.Context, add func(...*compute.Firewall)) error {
		return c.Compute.Firewalls.List(c.Project).MaxResults(perPage).Pages(ctx, func(p *compute.FirewallList) error {
			add(p.Items...)
			return nil
		})
	})
}

func (c *Client) allAddresses(ctx context.Context) ([]*compute.Address, error) {
	return listAll(ctx, c, "addresses", func(ctx context.Context, add func(...*compute.Address)) error {
		return c.Compute.Addresses.List(c.Project, c.Region).MaxResults(perPage).Pages(ctx, func(p *compute.AddressList) error {
			add(p.Items...)
			return nil
		})
	})
}

func (c *Client) allForwardingRules(ctx context.Context) ([]*compute.ForwardingRule, error) {
	return listAll(ctx, c, "forwarding rules", func(ctx context.Context, add func(...*compute.ForwardingRule)) error {
		return c.Compute.ForwardingRules.List(c.Project, c.Region).MaxResults(perPage).Pages(ctx, func(p *compute.ForwardingRuleList) error {
			add(p.Items...)
			return nil
		})
	})
}

func (c *Client) allTargetPools(ctx context.Context) ([]*compute.TargetPool, error) {
	return listAll(ctx, c, "target pools", func(ctx context.Context, add func(...*compute.TargetPool)) error {
		return c.Compute.TargetPools.List(c.Project, c.Region).MaxResults(perPage).Pages(ctx, func(p *compute.TargetPoolList) error {
			add(p.Items...)
			return nil
		})
	})
}

func (c *Client) allHTTPHealthChecks(ctx context.Context) ([]*compute.HttpHealthCheck, error) {
	return listAll(ctx, c, "HTTP health checks", func(ctx context.Context, add func(...*compute.HttpHealthCheck)) error {
		return c.Compute.HttpHealthChecks.List(c.Project).MaxResults(perPage).Pages(ctx, func(p *compute.HttpHealthCheckList) error {
			add(p.Items...)
			return nil
		})
	})
}

func (c *Client) allHealthChecks(ctx context.Context) ([]*compute.HealthCheck, error) {
	return listAll(ctx, c, "health checks", func(ctx context.Context, add func(...*compute.HealthCheck)) error {
		return c.Compute.RegionHealthChecks.List(c.Project, c.Region).MaxResults(perPage).Pages(ctx, func(p *compute.HealthCheckList) error {
			add(p.Items...)
			return nil
		})
	})
}

func (c *Client) allBackendServices(ctx context.Context) ([]*compute.BackendService, error) {
	return listAll(ctx, c, "backend services", func(ctx context.Context, add func(...*compute.BackendService)) error {
		return c.Compute.RegionBackendServices.List(c.Project, c.Region).MaxResults(perPage).Pages(ctx, func(p *compute.BackendServiceList) error {
			add(p.Items...)
			return nil
		})
	})
}

func (c *Client) allRoutes(ctx context.Context) ([]*compute.Route, error) {
	return listAll(ctx, c, "routes", func(ctx context.Context, add func(...*compute.Route)) error {
		return c.Compute.Routes.List(c.Project).MaxResults(perPage).Pages(ctx, func(p *compute.RouteList) error {
			add(p.Items...)
			return nil
		})
	})
}
