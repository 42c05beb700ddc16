package kinds

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/api/dns/v1"

	"kops.local/kops/internal/contract/hostnames"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/gceapi"
)

// Placeholder is a DNS record of the cluster that exists before its machines publish their
// addresses, so that no resolver caches that the name does not exist. Until then, any content is
// valid.
type Placeholder struct {
	Zone   string   `res:"forbid"` // the managed zone's name or ID
	Name   string   `res:"forbid"` // without a trailing dot
	Type   string   `res:"forbid"` // "A" or "AAAA"; a deletion also finds "TXT"
	TTL    int      `res:"writeonly"`
	Values []string `res:"writeonly"`
}

// Placeholders is the kind of Placeholder.
var Placeholders = resource.Kind[Placeholder, *Client]{
	Name:   "google_dns_placeholder",
	Direct: true,
	API:    apiDNS,
	Tasks:  []string{"DNSName"},
	Key:    func(p *Placeholder) string { return p.Zone + " " + p.Type + " " + p.Name },
	List: func(ctx context.Context, c *Client, s resource.Scope) ([]*Placeholder, error) {
		if s.All {
			return clusterRecords(ctx, c, s.Cluster)
		}
		return wantedRecords(ctx, c, s.Names)
	},
	Create: func(ctx context.Context, c *Client, p *Placeholder) error {
		_, err := gceapi.Result(c.DNS.Changes.Create(c.Project, p.Zone, &dns.Change{Additions: []*dns.ResourceRecordSet{{
			Name: p.Name + ".", Type: p.Type, Ttl: int64(p.TTL), Rrdatas: p.Values}}}).Context(ctx).Do())
		if isAlreadyExists(err) { // the cluster created it first
			return nil
		}
		return err
	},
	Delete: deleteRecord,
}

// wantedRecords finds the records with these keys, with one call per name.
func wantedRecords(ctx context.Context, c *Client, keys []string) ([]*Placeholder, error) {
	var names [][2]string // a zone and a name
	for _, key := range keys {
		zone, rest, _ := strings.Cut(key, " ")
		_, name, _ := strings.Cut(rest, " ")
		names = append(names, [2]string{zone, name})
	}
	slices.SortFunc(names, func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	out, err := observe.EachOf(ctx, slices.Compact(names), func(ctx context.Context, n [2]string) ([]*Placeholder, error) { return c.records(ctx, n[0], n[1]) })
	return slices.DeleteFunc(out, func(p *Placeholder) bool { return !slices.Contains(keys, p.Zone+" "+p.Type+" "+p.Name) }), err
}

// records returns the records of a zone that have a name, or all of them if name is "". If the zone
// does not exist, there are none.
func (c *Client) records(ctx context.Context, zone, name string) ([]*Placeholder, error) {
	list, err := listAll(ctx, c, "records "+name+" of the zone "+zone, func(ctx context.Context, add func(...*dns.ResourceRecordSet)) error {
		q := c.DNS.ResourceRecordSets.List(c.Project, zone)
		if name != "" {
			q = q.Name(name + ".")
		}
		return q.Pages(ctx, func(p *dns.ResourceRecordSetsListResponse) error {
			add(p.Rrsets...)
			return nil
		})
	})
	if err != nil {
		return nil, fault.IgnoreGone(err)
	}
	out := make([]*Placeholder, len(list))
	for i, r := range list {
		out[i] = &Placeholder{Zone: zone, Name: strings.TrimSuffix(r.Name, "."), Type: r.Type, TTL: int(r.Ttl), Values: r.Rrdatas}
	}
	return out, nil
}

// clusterRecords finds the records of a cluster in every zone that can contain them.
func clusterRecords(ctx context.Context, c *Client, cluster string) ([]*Placeholder, error) {
	zones, err := listAll(ctx, c, "managed zones", func(ctx context.Context, add func(...*dns.ManagedZone)) error {
		return c.DNS.ManagedZones.List(c.Project).Pages(ctx, func(p *dns.ManagedZonesListResponse) error {
			add(p.ManagedZones...)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	var out []*Placeholder
	for _, z := range zones {
		domain := strings.TrimSuffix(z.DnsName, ".")
		if cluster != domain && !strings.HasSuffix(cluster, "."+domain) {
			continue
		}
		all, err := c.records(ctx, z.Name, "")
		if err != nil {
			return nil, fmt.Errorf("look for the cluster's records: %w", err)
		}
		marks := markedRecords(all, cluster)
		out = append(out, slices.DeleteFunc(all, func(p *Placeholder) bool { return !isClusterRecord(p, cluster) && !marks[p.Type+" "+p.Name] })...)
	}
	return out, nil
}

// markedRecords returns the records that dns-controller created for a cluster, and their marks.
func markedRecords(records []*Placeholder, cluster string) map[string]bool {
	out := map[string]bool{}
	for _, r := range records {
		name, kind, ok := hostnames.Marked(r.Name)
		if ok && r.Type == "TXT" && slices.Equal(r.Values, []string{strconv.Quote(hostnames.MarkText(cluster))}) {
			out[r.Type+" "+r.Name], out[kind+" "+name] = true, true
		}
	}
	return out
}

// isClusterRecord reports whether a record is one that a cluster, or a controller in it, creates
// for the cluster itself.
func isClusterRecord(p *Placeholder, cluster string) bool {
	host, ok := strings.CutSuffix(p.Name, "."+cluster)
	if !ok || !slices.Contains([]string{"A", "AAAA", "TXT"}, p.Type) {
		return false
	}
	if p.Type == "TXT" {
		host = strings.TrimPrefix(host, "aaaa-")
	}
	member, etcd := strings.CutPrefix(strings.TrimSuffix(host, ".internal"), "etcd-")
	return slices.Contains([]string{"api", "api.internal", "bastion", "kops-controller.internal"}, host) ||
		etcd && !strings.Contains(member, ".") // a cluster whose name ends in this one's has more labels
}

// deleteRecord deletes a record with its current content, which the API requires.
func deleteRecord(ctx context.Context, c *Client, p *Placeholder) error {
	list, err := gceapi.Result(c.DNS.ResourceRecordSets.List(c.Project, p.Zone).Name(p.Name + ".").Type(p.Type).Context(ctx).Do())
	if err != nil || len(list.Rrsets) == 0 {
		return fault.IgnoreGone(err)
	}
	_, err = gceapi.Result(c.DNS.Changes.Create(c.Project, p.Zone, &dns.Change{Deletions: list.Rrsets}).Context(ctx).Do())
	return fault.IgnoreGone(err)
}
