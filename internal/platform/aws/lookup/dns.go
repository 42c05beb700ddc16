package lookup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/route53"
	"github.com/aws/aws-sdk-go-v2/service/route53/types"

	"kops.local/kops/internal/spec/facts"
)

// dnsZones lists all zones, whose number is limited per account, and keeps those that could contain
// the cluster's names. For private zones, it also looks up their VPCs.
func (a *resolver) dnsZones(ctx context.Context) error {
	var out []facts.DNSZone
	p := route53.NewListHostedZonesPaginator(a.Route53, &route53.ListHostedZonesInput{})
	for p.HasMorePages() {
		page, err := p.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("list the DNS zones: %w", err)
		}
		for _, d := range page.HostedZones {
			if z := zoneOf(d); a.isWantedZone(z) {
				out = append(out, z)
			}
		}
	}
	for i := range out {
		if !out[i].Private {
			continue
		}
		o, err := a.Route53.GetHostedZone(ctx, &route53.GetHostedZoneInput{Id: &out[i].ID})
		if err != nil {
			return fmt.Errorf("describe DNS zone %s: %w", out[i].Name, err)
		}
		for _, v := range o.VPCs {
			out[i].Networks = append(out[i].Networks, aws.ToString(v.VPCId))
		}
		slices.Sort(out[i].Networks)
	}
	a.facts.DNSZones = out
	return nil
}

func zoneOf(d types.HostedZone) facts.DNSZone {
	id := aws.ToString(d.Id)
	return facts.DNSZone{Name: strings.TrimSuffix(aws.ToString(d.Name), "."), ID: id[strings.LastIndex(id, "/")+1:],
		Private: d.Config != nil && d.Config.PrivateZone}
}

// isWantedZone reports whether a zone is the chosen one, or contains one of the hosts.
func (a *resolver) isWantedZone(z facts.DNSZone) bool {
	chosen := a.query.DNSZone[strings.LastIndex(a.query.DNSZone, "/")+1:]
	return strings.TrimSuffix(chosen, ".") == z.Name || chosen == z.ID ||
		slices.ContainsFunc(a.query.Hosts, func(h string) bool { return strings.HasSuffix("."+h, "."+z.Name) })
}
