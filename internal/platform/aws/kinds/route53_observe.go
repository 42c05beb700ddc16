package kinds

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/route53"
	dnstypes "github.com/aws/aws-sdk-go-v2/service/route53/types"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/dns/records"
	"kops.local/kops/internal/platform/zones"
)

// recordKey identifies a record set.
type recordKey struct{ zone, name, kind string }

// String returns the key as zone/name/type. A zone's identifier may contain slashes.
func (k recordKey) String() string { return k.zone + "/" + k.name + "/" + k.kind }

func parseRecordKey(s string) recordKey {
	rest, kind, _ := cutLast(s, "/")
	zone, name, _ := cutLast(rest, "/")
	return recordKey{zone, name, kind}
}

// cutLast is strings.Cut at the last separator.
func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// compareNames compares names in Route 53's order: label by label, from the last.
func compareNames(a, b string) int {
	la, lb := strings.Split(a, "."), strings.Split(b, ".")
	slices.Reverse(la)
	slices.Reverse(lb)
	return slices.Compare(la, lb)
}

// wantedRecords returns the record sets with the keys. A cluster's names are close together in a
// zone, so one call usually returns all.
func wantedRecords(ctx context.Context, c *Client, keys []string) ([]*DNSRecord, error) {
	byZone := map[string][]string{}
	wanted := map[recordKey]bool{}
	for _, text := range keys {
		k := parseRecordKey(text)
		wanted[k] = true
		byZone[k.zone] = append(byZone[k.zone], k.name)
	}
	var out []*DNSRecord
	for zone, names := range byZone {
		slices.SortFunc(names, compareNames)
		for cursor := firstRecord(names); cursor != nil; {
			page, next, err := recordPage(ctx, c, zone, cursor)
			if err != nil {
				return nil, err
			}
			for _, r := range page {
				if wanted[recordKey{zone, r.Name, r.Type}] {
					out = append(out, r)
				}
			}
			cursor = skipTo(next, names)
		}
	}
	return out, nil
}

// recordCursor is a place in a zone's list of record sets.
type recordCursor struct {
	name string
	kind dnstypes.RRType // empty for the first record set of the name
	id   *string         // distinguishes sets with the same name and type
}

func firstRecord(names []string) *recordCursor {
	if len(names) == 0 {
		return nil
	}
	return &recordCursor{name: names[0]}
}

// skipTo returns where to continue: at next if its name is wanted, and otherwise at the first
// wanted name after it; nil if there is none.
func skipTo(next *recordCursor, names []string) *recordCursor {
	if next == nil {
		return nil
	}
	for _, name := range names {
		switch order := compareNames(name, dnsName(next.name)); {
		case order == 0:
			return next
		case order > 0:
			return &recordCursor{name: name}
		}
	}
	return nil
}

// maxRecords is how many record sets one call requests; Route 53 returns at most 300 (API
// reference, ListResourceRecordSets).
const maxRecords int32 = 100

// recordPage returns a page of a zone's records, and the start of the next page. A zone that does
// not exist has no records.
func recordPage(ctx context.Context, c *Client, zone string, at *recordCursor) ([]*DNSRecord, *recordCursor, error) {
	out, err := c.Route53.ListResourceRecordSets(ctx, &route53.ListResourceRecordSetsInput{
		HostedZoneId: &zone, MaxItems: new(maxRecords), StartRecordName: &at.name, StartRecordType: at.kind, StartRecordIdentifier: at.id})
	if err != nil {
		return nil, nil, fault.IgnoreGone(fmt.Errorf("list the records of the zone %s: %w", zone, err))
	}
	list := make([]*DNSRecord, len(out.ResourceRecordSets))
	for i, r := range out.ResourceRecordSets {
		list[i] = observedRecord(zone, r)
	}
	if !out.IsTruncated {
		return list, nil, nil
	}
	return list, &recordCursor{deref(out.NextRecordName), out.NextRecordType, out.NextRecordIdentifier}, nil
}

// clusterRecords returns a cluster's records in every zone that can contain them.
func clusterRecords(ctx context.Context, c *Client, cluster string) ([]*DNSRecord, error) {
	hosted, err := pages(ctx, route53.NewListHostedZonesPaginator(c.Route53, &route53.ListHostedZonesInput{}),
		func(p *route53.ListHostedZonesOutput) []dnstypes.HostedZone { return p.HostedZones })
	if err != nil {
		return nil, fmt.Errorf("list hosted zones: %w", err)
	}
	hosted = slices.DeleteFunc(hosted, func(z dnstypes.HostedZone) bool { return !records.IsWithin(cluster, dnsName(*z.Name)) })
	return observe.EachOf(ctx, hosted, func(ctx context.Context, z dnstypes.HostedZone) ([]*DNSRecord, error) {
		var out []*DNSRecord
		for cursor := firstRecord([]string{cluster}); cursor != nil; {
			page, next, err := recordPage(ctx, c, *z.Id, cursor)
			if err != nil {
				return nil, err
			}
			out = append(out, page...)
			if cursor = next; next != nil && !records.IsWithin(dnsName(next.name), cluster) {
				cursor = nil
			}
		}
		var sets []records.Set
		for _, r := range out {
			sets = append(sets, records.ParseSet(r.Name, r.Type, r.TTL, resource.Texts(r.Records)...))
		}
		isOwned := zones.Owned(cluster, sets)
		return slices.DeleteFunc(out, func(r *DNSRecord) bool { return !isOwned(records.Key{Name: r.Name, Type: r.Type}) }), nil
	})
}
