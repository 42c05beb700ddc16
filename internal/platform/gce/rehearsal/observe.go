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

// snapshot is the emulator's state, except the instances.
type snapshot struct {
	subnets   []netip.Prefix
	routes    map[string]string             // maps ranges to the instances' addresses
	checked   map[netip.Addr][]netip.Prefix // maps instances that may not forward to the addresses that are theirs
	balancers []rehearsal.Balancer
	addresses map[string]netip.Addr // of instances, by name
	external  map[string]netip.Addr // maps external addresses to internal ones
	zones     []rehearsal.Zone
}

// gateways returns this host's addresses in the networks.
func (s snapshot) gateways() []netip.Prefix {
	var out []netip.Prefix
	for _, n := range s.subnets {
		out = append(out, gateway(n))
	}
	return out
}

// observe reads the emulator's complete state.
func (p *play) observe(ctx context.Context) (snapshot, error) {
	now := snapshot{routes: map[string]string{}, checked: map[netip.Addr][]netip.Prefix{}, addresses: map[string]netip.Addr{}, external: map[string]netip.Addr{}}
	c := p.api
	subnets, err := c.Compute.Subnetworks.List(Project, Region).Context(ctx).Do()
	if err != nil {
		return now, fmt.Errorf("list the subnetworks: %w", gceapi.PlainError(err))
	}
	for _, s := range subnets.Items {
		if r, err := netip.ParsePrefix(s.IpCidrRange); err == nil {
			now.subnets = append(now.subnets, r)
		}
	}
	instances, err := now.observeInstances(ctx, c)
	if err != nil {
		return now, err
	}
	if err := now.observeRoutes(ctx, c, instances); err != nil {
		return now, err
	}
	if err := now.observeBalancers(ctx, c, instances); err != nil {
		return now, err
	}
	now.zones, err = observeZones(ctx, c)
	return now, err
}

// observeInstances returns the running instances by name.
func (s *snapshot) observeInstances(ctx context.Context, c *gceapi.Clients) (map[string]*compute.Instance, error) {
	out := map[string]*compute.Instance{}
	err := c.Compute.Instances.AggregatedList(Project).Pages(ctx, func(page *compute.InstanceAggregatedList) error {
		for _, in := range page.Items {
			for _, i := range in.Instances {
				if i.Status != "RUNNING" && i.Status != "STAGING" || len(i.NetworkInterfaces) == 0 {
					continue
				}
				at, err := netip.ParseAddr(i.NetworkInterfaces[0].NetworkIP)
				if err != nil {
					continue
				}
				out[i.Name], s.addresses[i.Name] = i, at
				for _, a := range i.NetworkInterfaces[0].AccessConfigs {
					if public, err := netip.ParseAddr(a.NatIP); err == nil {
						s.external[public.String()] = at
					}
				}
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
		if at, ok := s.addresses[path.Base(r.NextHopInstance)]; ok && r.NextHopInstance != "" {
			s.routes[r.DestRange] = at.String()
		}
	}
	for name, i := range instances {
		at := s.addresses[name]
		own := []netip.Prefix{netip.PrefixFrom(at, at.BitLen())}
		for _, a := range i.NetworkInterfaces[0].AliasIpRanges {
			s.routes[a.IpCidrRange] = at.String()
			if r, err := netip.ParsePrefix(a.IpCidrRange); err == nil {
				own = append(own, r)
			}
		}
		if !i.CanIpForward {
			s.checked[at] = own
		}
	}
	return nil
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
	hosts := map[string][]string{} // by the name of a target pool or a backend service
	for _, p := range pools.Items {
		for _, i := range p.Instances {
			if at, ok := s.addresses[path.Base(i)]; ok {
				hosts["pool "+p.Name] = append(hosts["pool "+p.Name], at.String())
			}
		}
	}
	for _, b := range backends.Items {
		for _, in := range b.Backends {
			for name, i := range instances {
				if made := path.Base(gceapi.Metadata(i.Metadata, gcecloud.MetadataCreatedBy)); made == path.Base(in.Group) {
					hosts["service "+b.Name] = append(hosts["service "+b.Name], s.addresses[name].String())
				}
			}
		}
	}
	at := map[netip.Addr]*rehearsal.Balancer{}
	for _, r := range rules.Items {
		address, err := netip.ParseAddr(r.IPAddress)
		if err != nil {
			continue
		}
		b := at[address]
		if b == nil {
			b = &rehearsal.Balancer{Name: r.Name, Address: address}
			at[address] = b
		}
		to := hosts["service "+path.Base(r.BackendService)]
		if r.Target != "" {
			to = hosts["pool "+path.Base(r.Target)]
		}
		slices.Sort(to)
		for _, port := range rulePorts(r) {
			b.Fronts = append(b.Fronts, rehearsal.Front{Port: port, Target: port, Hosts: to})
		}
	}
	for _, b := range at {
		s.balancers = append(s.balancers, *b)
	}
	slices.SortFunc(s.balancers, func(a, b rehearsal.Balancer) int { return a.Address.Compare(b.Address) })
	return nil
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

// diskNames returns the names of the existing disks.
func (p *play) diskNames(ctx context.Context) (map[string]bool, error) {
	out := map[string]bool{}
	err := p.api.Compute.Disks.AggregatedList(Project).Pages(ctx, func(page *compute.DiskAggregatedList) error {
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
