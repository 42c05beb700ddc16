package rehearsal

import (
	"context"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/api/compute/v1"
	"google.golang.org/api/dns/v1"

	"kops.local/kops/internal/platform/gce/gceapi"
	"kops.local/kops/internal/platform/gce/gcecloud"
	"kops.local/kops/internal/platform/rehearsal"
)

// snapshot is the emulator's state, except the machines that it wants.
type snapshot struct {
	routes    map[string]string         // maps ranges to instances
	own       map[string][]netip.Prefix // maps instances that may not forward to the addresses that are theirs
	disks     map[string]bool
	balancers []rehearsal.WantedBalancer
	zones     []rehearsal.Zone
}

// observe reads the emulator's complete state.
func (p *play) observe(ctx context.Context) (snapshot, error) {
	now := snapshot{routes: map[string]string{}, own: map[string][]netip.Prefix{}}
	c := p.api
	instances, err := observeInstances(ctx, c)
	if err != nil {
		return now, err
	}
	if err := now.observeRoutes(ctx, c, instances); err != nil {
		return now, err
	}
	if err := now.observeBalancers(ctx, c, instances); err != nil {
		return now, err
	}
	if now.disks, err = observeDisks(ctx, c); err != nil {
		return now, err
	}
	now.zones, err = observeZones(ctx, c)
	return now, err
}

// observeInstances returns the running instances by name.
func observeInstances(ctx context.Context, c *gceapi.Clients) (map[string]*compute.Instance, error) {
	out := map[string]*compute.Instance{}
	err := c.Compute.Instances.AggregatedList(Project).Pages(ctx, func(page *compute.InstanceAggregatedList) error {
		for _, in := range page.Items {
			for _, i := range in.Instances {
				if i.Status != "RUNNING" && i.Status != "STAGING" || len(i.NetworkInterfaces) == 0 {
					continue
				}
				out[i.Name] = i
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the instances: %w", gceapi.PlainError(err))
	}
	return out, nil
}

// observeRoutes finds the ranges behind instances: the destinations of routes, and alias ranges. An instance
// that may not forward sends and receives only under addresses of its own (VPC documentation, Routes).
func (s *snapshot) observeRoutes(ctx context.Context, c *gceapi.Clients, instances map[string]*compute.Instance) error {
	routes, err := c.Compute.Routes.List(Project).Context(ctx).Do()
	if err != nil {
		return fmt.Errorf("list the routes: %w", gceapi.PlainError(err))
	}
	for _, r := range routes.Items {
		if r.NextHopInstance != "" {
			s.routes[r.DestRange] = path.Base(r.NextHopInstance)
		}
	}
	for name, i := range instances {
		own := hostPrefix(i.NetworkInterfaces[0].NetworkIP)
		for _, a := range i.NetworkInterfaces[0].AliasIpRanges {
			s.routes[a.IpCidrRange] = name
			if r, err := netip.ParsePrefix(a.IpCidrRange); err == nil {
				own = append(own, r)
			}
		}
		if !i.CanIpForward {
			s.own[name] = own
		}
	}
	return nil
}

// hostPrefix returns an address as a range; none if it is not an address.
func hostPrefix(address string) []netip.Prefix {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return nil
	}
	return []netip.Prefix{netip.PrefixFrom(a, a.BitLen())}
}

// observeBalancers finds the balancers: forwarding rules with the same address are one balancer.
func (s *snapshot) observeBalancers(ctx context.Context, c *gceapi.Clients, instances map[string]*compute.Instance) error {
	rules, err := c.Compute.ForwardingRules.List(Project, Region).Context(ctx).Do()
	if err != nil {
		return fmt.Errorf("list the forwarding rules: %w", gceapi.PlainError(err))
	}
	backends, err := c.Compute.RegionBackendServices.List(Project, Region).Context(ctx).Do()
	if err != nil {
		return fmt.Errorf("list the backend services: %w", gceapi.PlainError(err))
	}
	pools, err := c.Compute.TargetPools.List(Project, Region).Context(ctx).Do()
	if err != nil {
		return fmt.Errorf("list the target pools: %w", gceapi.PlainError(err))
	}
	behind := map[string][]string{} // instances, by the name of a target pool or a backend service
	for _, p := range pools.Items {
		for _, i := range p.Instances {
			behind["pool "+p.Name] = append(behind["pool "+p.Name], path.Base(i))
		}
	}
	for _, b := range backends.Items {
		for _, in := range b.Backends {
			for name, i := range instances {
				if made := path.Base(gceapi.Metadata(i.Metadata, gcecloud.MetadataCreatedBy)); made == path.Base(in.Group) {
					behind["service "+b.Name] = append(behind["service "+b.Name], name)
				}
			}
		}
	}
	s.balancers = balancersOf(rules.Items, behind)
	return nil
}

// balancersOf returns the balancers of forwarding rules. behind are the instances of target pools and
// backend services.
func balancersOf(rules []*compute.ForwardingRule, behind map[string][]string) []rehearsal.WantedBalancer {
	at := map[netip.Addr]*rehearsal.WantedBalancer{}
	for _, r := range rules {
		address, err := netip.ParseAddr(r.IPAddress)
		if err != nil {
			continue
		}
		b := at[address]
		if b == nil {
			b = &rehearsal.WantedBalancer{Name: r.Name, Address: address}
			at[address] = b
		}
		to := behind["service "+path.Base(r.BackendService)]
		if r.Target != "" {
			to = behind["pool "+path.Base(r.Target)]
		}
		slices.Sort(to)
		for _, port := range rulePorts(r) {
			b.Fronts = append(b.Fronts, rehearsal.WantedFront{Port: port, Target: port, Machines: to})
		}
	}
	var out []rehearsal.WantedBalancer
	for _, b := range at {
		out = append(out, *b)
	}
	slices.SortFunc(out, func(a, b rehearsal.WantedBalancer) int { return a.Address.Compare(b.Address) })
	return out
}

// rulePorts returns the ports of a rule: a list, or a range.
func rulePorts(r *compute.ForwardingRule) []int {
	var out []int
	for _, p := range r.Ports {
		if n, err := strconv.Atoi(p); err == nil {
			out = append(out, n)
		}
	}
	first, last, _ := strings.Cut(r.PortRange, "-")
	from, err := strconv.Atoi(first)
	to, terr := strconv.Atoi(last)
	if err == nil && terr == nil {
		for n := from; n <= to; n++ {
			out = append(out, n)
		}
	}
	return out
}

// observeZones lists Cloud DNS's managed zones.
func observeZones(ctx context.Context, c *gceapi.Clients) ([]rehearsal.Zone, error) {
	found, err := c.DNS.ManagedZones.List(Project).Context(ctx).Do()
	if err != nil {
		return nil, fmt.Errorf("list the managed zones: %w", gceapi.PlainError(err))
	}
	var out []rehearsal.Zone
	for _, m := range found.ManagedZones {
		z := rehearsal.Zone{Name: rehearsal.PlainName(m.DnsName)}
		err := c.DNS.ResourceRecordSets.List(Project, m.Name).Pages(ctx, func(page *dns.ResourceRecordSetsListResponse) error {
			for _, r := range page.Rrsets {
				z.Records = append(z.Records, rehearsal.Record{Name: rehearsal.PlainName(r.Name), Type: r.Type, TTL: r.Ttl, Values: r.Rrdatas})
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("list the records of %s: %w", m.DnsName, gceapi.PlainError(err))
		}
		out = append(out, z)
	}
	return out, nil
}

// observeDisks returns the names of the existing disks.
func observeDisks(ctx context.Context, c *gceapi.Clients) (map[string]bool, error) {
	out := map[string]bool{}
	err := c.Compute.Disks.AggregatedList(Project).Pages(ctx, func(page *compute.DiskAggregatedList) error {
		for _, in := range page.Items {
			for _, d := range in.Disks {
				out[d.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the disks: %w", gceapi.PlainError(err))
	}
	return out, nil
}
