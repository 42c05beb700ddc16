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
			z.Records = append(z.Records, recordOf(r))
		}
		out = append(out, z)
	}
	return out, nil
}

func recordOf(r types.ResourceRecordSet) rehearsal.Record {
	out := rehearsal.Record{Name: rehearsal.PlainName(aws.ToString(r.Name)), Type: string(r.Type), TTL: aws.ToInt64(r.TTL)}
	if r.AliasTarget != nil {
		out.Host = rehearsal.PlainName(aws.ToString(r.AliasTarget.DNSName))
	}
	for _, v := range r.ResourceRecords {
		out.Values = append(out.Values, aws.ToString(v.Value))
	}
	return out
}

// lookup answers for load balancers, for instances by their private names, and for the
// zones of Route 53.
func (p *play) lookup(name, kind string) (records []string, known bool) {
	return rehearsal.Names{Zones: p.seen().zones, Host: p.host, Reachable: p.reachable}.Lookup(name, kind)
}

// reachable is the private address of an instance with a public one.
func (p *play) reachable(value string) string {
	for _, i := range p.seen().instances {
		if aws.ToString(i.PublicIpAddress) == value {
			return i.Address.String()
		}
	}
	return value
}

// host is the address of a load balancer, or of an instance.
func (p *play) host(name string) (netip.Addr, bool) {
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
	if i := p.now.instances[first]; i != nil {
		return i.Address, true
	}
	for _, i := range p.now.instances {
		if aws.ToString(i.PrivateDnsName) == name {
			return i.Address, true
		}
	}
	return netip.Addr{}, false
}

// privateDomain is the domain of the private names of the region's instances.
const privateDomain = "ec2.internal"
