package rehearsal

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/route53"
	"github.com/aws/aws-sdk-go-v2/service/route53/types"
)

// zone is a hosted zone of Route 53. Public and private ones are answered to everybody.
type zone struct {
	name    string // without a final dot
	servers []string
	records []types.ResourceRecordSet
}

func (p *play) observeZones(ctx context.Context) ([]zone, error) {
	all, err := list(ctx, route53.NewListHostedZonesPaginator(p.clients.Route53, &route53.ListHostedZonesInput{}), func(o *route53.ListHostedZonesOutput) []types.HostedZone { return o.HostedZones })
	if err != nil {
		return nil, err
	}
	var out []zone
	for _, h := range all {
		z := zone{name: plain(aws.ToString(h.Name))}
		got, err := p.clients.Route53.GetHostedZone(ctx, &route53.GetHostedZoneInput{Id: h.Id})
		if err != nil {
			return nil, err
		}
		if got.DelegationSet != nil {
			z.servers = got.DelegationSet.NameServers
		}
		z.records, err = list(ctx, route53.NewListResourceRecordSetsPaginator(p.clients.Route53, &route53.ListResourceRecordSetsInput{HostedZoneId: h.Id}),
			func(o *route53.ListResourceRecordSetsOutput) []types.ResourceRecordSet { return o.ResourceRecordSets })
		if err != nil {
			return nil, err
		}
		out = append(out, z)
	}
	return out, nil
}

// plain is a name of DNS as programs write it: without a final dot, in small letters.
func plain(name string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimSuffix(name, "."), `\052`, "*"))
}

// lookup answers for load balancers, for instances by their private names, and for the
// zones of Route 53.
func (p *play) lookup(name, kind string) (records []string, known bool) {
	name = plain(name)
	if a, ok := p.host(name); ok {
		if kind == "A" {
			records = []string{line(name, 60, "A", a.String())}
		}
		return records, true
	}
	now := p.seen()
	var best *zone
	for i, z := range now.zones {
		if (name == z.name || strings.HasSuffix(name, "."+z.name)) && (best == nil || len(z.name) > len(best.name)) {
			best = &now.zones[i]
		}
	}
	if best == nil {
		return nil, false
	}
	return p.answer(best, name, kind)
}

// answer is what a zone says of a name: its own records, or those of a wildcard.
func (p *play) answer(z *zone, name, kind string) (records []string, known bool) {
	_, rest, _ := strings.Cut(name, ".")
	for _, owner := range []string{name, "*." + rest} {
		for _, r := range z.records {
			if plain(aws.ToString(r.Name)) != owner {
				continue
			}
			known = true
			if t := r.AliasTarget; t != nil {
				if a, ok := p.host(plain(aws.ToString(t.DNSName))); ok && kind == string(r.Type) && kind == "A" {
					records = append(records, line(name, 60, "A", a.String()))
				}
				continue
			}
			if kind != string(r.Type) && r.Type != types.RRTypeCname {
				continue
			}
			for _, v := range r.ResourceRecords {
				records = append(records, line(name, aws.ToInt64(r.TTL), string(r.Type), p.reachable(aws.ToString(v.Value))))
			}
		}
		if known {
			break
		}
	}
	if name == z.name {
		known = true
		if kind == "NS" && len(records) == 0 {
			for _, s := range z.servers {
				records = append(records, line(name, 60, "NS", s+"."))
			}
		}
	}
	return records, known
}

// reachable is what a record leads to: public addresses of instances lead nowhere here, and
// stand for the private ones, as they do inside a VPC.
func (p *play) reachable(value string) string {
	for _, i := range p.seen().instances {
		if aws.ToString(i.PublicIpAddress) == value {
			return i.Address.String()
		}
	}
	return value
}

func line(name string, ttl int64, kind, value string) string {
	if kind == "CNAME" && !strings.HasSuffix(value, ".") {
		value += "."
	}
	return fmt.Sprintf("%s. %d IN %s %s", name, ttl, kind, value)
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

// privateDomain is that of the private names of instances of the region.
const privateDomain = "ec2.internal"
