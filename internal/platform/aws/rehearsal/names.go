package rehearsal

import (
	"context"
	"net/netip"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/route53"
	"github.com/aws/aws-sdk-go-v2/service/route53/types"

	"kops.local/kops/internal/platform/rehearsal"
)

// observeZones lists the hosted zones of Route 53.
func (p *play) observeZones(ctx context.Context) ([]rehearsal.Zone, error) {
	all, err := list(ctx, route53.NewListHostedZonesPaginator(p.clients.Route53, &route53.ListHostedZonesInput{}), func(o *route53.ListHostedZonesOutput) []types.HostedZone { return o.HostedZones })
	if err != nil {
		return nil, err
	}
	var out []rehearsal.Zone
	for _, h := range all {
		z := rehearsal.Zone{Name: rehearsal.PlainName(aws.ToString(h.Name))}
		got, err := p.clients.Route53.GetHostedZone(ctx, &route53.GetHostedZoneInput{Id: h.Id})
		if err != nil {
			return nil, err
		}
		if got.DelegationSet != nil {
			z.Servers = got.DelegationSet.NameServers
		}
		records, err := list(ctx, route53.NewListResourceRecordSetsPaginator(p.clients.Route53, &route53.ListResourceRecordSetsInput{HostedZoneId: h.Id}),
			func(o *route53.ListResourceRecordSetsOutput) []types.ResourceRecordSet { return o.ResourceRecordSets })
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			z.Records = append(z.Records, newRecord(r))
		}
		out = append(out, z)
	}
	return out, nil
}

func newRecord(r types.ResourceRecordSet) rehearsal.Record {
	out := rehearsal.Record{Name: rehearsal.PlainName(aws.ToString(r.Name)), Type: string(r.Type), TTL: aws.ToInt64(r.TTL)}
	if r.AliasTarget != nil {
		out.Host = rehearsal.PlainName(aws.ToString(r.AliasTarget.DNSName))
	}
	for _, v := range r.ResourceRecords {
		out.Values = append(out.Values, aws.ToString(v.Value))
	}
	return out
}

// lookup resolves names of load balancers, private names of instances, and names in Route 53 zones.
func (p *play) lookup(name, kind string) (records []string, known bool) {
	return rehearsal.Names{Zones: p.lastSnapshot().zones, Host: p.addressOfHost, Reachable: p.privateAddress}.Lookup(name, kind)
}

// privateAddress returns the private address of the instance with a public address, or value itself.
func (p *play) privateAddress(value string) string {
	for _, i := range p.lastSnapshot().instances {
		if aws.ToString(i.PublicIpAddress) == value {
			return i.Address.String()
		}
	}
	return value
}

// addressOfHost returns the address of a load balancer, or of an instance.
func (p *play) addressOfHost(name string) (netip.Addr, bool) {
	name = strings.TrimPrefix(name, "dualstack.")
	p.mu.Lock()
	defer p.mu.Unlock()
	if a, ok := p.fronts[name]; ok {
		return a, true
	}
	first, domain, _ := strings.Cut(name, ".")
	if domain != privateDomain {
		return netip.Addr{}, false
	}
	if i := p.last.instances[first]; i != nil {
		return i.Address, true
	}
	for _, i := range p.last.instances {
		if aws.ToString(i.PrivateDnsName) == name {
			return i.Address, true
		}
	}
	return netip.Addr{}, false
}

// privateDomain is the domain of the private names of instances in the region.
const privateDomain = "ec2.internal"
