package lookup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/api/compute/v1"
	"google.golang.org/api/dns/v1"

	"kops.local/kops/internal/platform/gce/gceapi"
	"kops.local/kops/internal/platform/gce/spec"
	"kops.local/kops/internal/spec/asks"
	"kops.local/kops/internal/spec/facts"
)

// network is the result of looking up the cluster's network: whether it exists, whether it is a
// legacy network without subnets, and all subnets of its project.
type network struct {
	exists, legacy bool
	subnets        []*compute.Subnetwork
}

// networkName returns the project and the name of the cluster's network.
func (a *resolver) networkName() (project, name string) {
	project, name = "", a.query.OwnNetwork
	if id := a.query.Network.Name; id != "" {
		project, name, _ = spec.ParseNetwork(id)
	}
	if project == "" {
		project = a.project
	}
	return project, name
}

// network reads the cluster's network.
func (a *resolver) network(ctx context.Context) error {
	project, name := a.networkName()
	n, err := gceapi.Result(a.Compute.Networks.Get(project, name).Context(ctx).Do())
	switch {
	case isNotFound(err):
	case err != nil:
		return fmt.Errorf("describe network %s: %w", name, err)
	default:
		a.found.exists, a.found.legacy = true, n.IPv4Range != ""
	}
	return nil
}

// subnets reads the subnets of the network's project: a network spans all regions, and its ranges
// must not overlap.
func (a *resolver) subnets(ctx context.Context) error {
	project, _ := a.networkName()
	a.found.subnets = nil
	err := a.Compute.Subnetworks.AggregatedList(project).Pages(ctx, func(page *compute.SubnetworkAggregatedList) error {
		for _, scope := range page.Items {
			a.found.subnets = append(a.found.subnets, scope.Subnetworks...)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list the subnets of project %s: %w", project, gceapi.PlainError(err))
	}
	return nil
}

// deriveRanges derives from the subnets which ranges are in use, and what the cluster's subnets are.
// The ranges of subnets that kops created for the cluster do not count as used.
func (a *resolver) deriveRanges() {
	project, name := a.networkName()
	wanted := asks.Distinct(append(asks.Names(a.query.Subnets), a.query.OwnSubnets...)...)
	a.facts.Subnets = map[string]facts.Subnet{}
	var used []string
	for _, s := range a.found.subnets {
		of, same := a.networkOf(s), gceapi.Link(s.Network) == "projects/"+project+"/global/networks/"+name
		own := slices.Contains(a.query.OwnSubnets, s.Name)
		if gceapi.Name(s.Region) == a.facts.Region && slices.Contains(wanted, s.Name) && (same || !own) {
			if _, known := a.facts.Subnets[s.Name]; same || !known {
				a.facts.Subnets[s.Name] = facts.Subnet{Network: of, CIDR: s.IpCidrRange, IPv6CIDR: s.ExternalIpv6Prefix}
				a.recordSecondaryRanges(s)
			}
		}
		if same && !own {
			used = append(used, s.IpCidrRange)
			for _, r := range s.SecondaryIpRanges {
				used = append(used, r.IpCidrRange)
			}
		}
	}
	if a.found.exists {
		a.facts.Networks = map[string]facts.Network{name: {CIDRs: asks.Distinct(used...)}}
	}
}

// recordSecondaryRanges records the secondary ranges of a subnet.
func (a *resolver) recordSecondaryRanges(s *compute.Subnetwork) {
	for _, r := range s.SecondaryIpRanges {
		if a.own.Secondary[s.Name] == nil {
			a.own.Secondary[s.Name] = map[string]string{}
		}
		a.own.Secondary[s.Name][r.RangeName] = r.IpCidrRange
	}
}

// networkOf returns the network of a subnet as a spec writes it.
func (a *resolver) networkOf(s *compute.Subnetwork) string {
	project, name := gceapi.Place(s.Network, "projects"), gceapi.Name(s.Network)
	if project == "" || project == a.project {
		return name
	}
	return project + "/" + name
}

// dnsZones reads all zones of the project, and keeps those that can contain the cluster's names.
func (a *resolver) dnsZones(ctx context.Context) error {
	var out []facts.DNSZone
	err := a.DNS.ManagedZones.List(a.project).Pages(ctx, func(page *dns.ManagedZonesListResponse) error {
		for _, z := range page.ManagedZones {
			if f := zoneOf(z); a.isWantedZone(f) {
				out = append(out, f)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list the DNS zones: %w", gceapi.PlainError(err))
	}
	a.facts.DNSZones = out
	return nil
}

func zoneOf(z *dns.ManagedZone) facts.DNSZone {
	f := facts.DNSZone{Name: strings.TrimSuffix(z.DnsName, "."), ID: fmt.Sprint(z.Id), Private: z.Visibility == "private"}
	if p := z.PrivateVisibilityConfig; p != nil {
		for _, n := range p.Networks {
			f.Networks = append(f.Networks, gceapi.Name(n.NetworkUrl))
		}
		slices.Sort(f.Networks)
	}
	return f
}

// isWantedZone reports whether a zone is the chosen one, or contains one of the hosts.
func (a *resolver) isWantedZone(z facts.DNSZone) bool {
	return strings.TrimSuffix(a.query.DNSZone, ".") == z.Name || a.query.DNSZone == z.ID ||
		slices.ContainsFunc(a.query.Hosts, func(h string) bool { return strings.HasSuffix("."+h, "."+z.Name) })
}
