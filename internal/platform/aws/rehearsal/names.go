package rehearsal

import (
	"context"

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
