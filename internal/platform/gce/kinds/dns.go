package kinds

import (
	"context"

	"google.golang.org/api/dns/v1"

	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/node/dns/records"
	"kops.local/kops/internal/platform/gce/gceapi"
	"kops.local/kops/internal/platform/zones"
)

// Placeholders is the kind of zones.Placeholder in Cloud DNS.
var Placeholders = zones.Placeholders(zones.Service[*Client]{
	Kind:     "google_dns_placeholder",
	API:      apiDNS,
	Provider: func(c *Client) records.Provider { return &cloudDNS{c: c} },
})

// cloudDNS is Cloud DNS. A zone is identified by its name or its numeric ID.
type cloudDNS struct {
	c *Client
	// current are the record sets as last read: a change must contain what it deletes in full.
	current map[records.Key]*dns.ResourceRecordSet
}

// Zones lists the project's zones.
func (d *cloudDNS) Zones(ctx context.Context) ([]records.Zone, error) {
	all, err := listAll(ctx, d.c, "managed zones", func(ctx context.Context, add func(...*dns.ManagedZone)) error {
		return d.c.DNS.ManagedZones.List(d.c.Project).Pages(ctx, func(p *dns.ManagedZonesListResponse) error {
			add(p.ManagedZones...)
			return nil
		})
	})
	var out []records.Zone
	for _, z := range all {
		out = append(out, records.Zone{ID: z.Name, Name: records.Canonical(z.DnsName)})
	}
	return out, err
}

// Records lists the record sets of a zone, with one call for each name.
func (d *cloudDNS) Records(ctx context.Context, zone records.Zone, names []string) ([]records.Set, error) {
	if names == nil {
		names = []string{""}
	}
	all, err := observe.EachOf(ctx, names, func(ctx context.Context, name string) ([]*dns.ResourceRecordSet, error) {
		return d.named(ctx, zone.ID, name)
	})
	if err != nil {
		return nil, err
	}
	d.current = map[records.Key]*dns.ResourceRecordSet{}
	var out []records.Set
	for _, r := range all {
		s := records.ParseSet(r.Name, r.Type, int(r.Ttl), r.Rrdatas...)
		out, d.current[s.Key] = append(out, s), r
	}
	return out, nil
}

// named lists the record sets of a zone that have a name, or all of them if name is "".
func (d *cloudDNS) named(ctx context.Context, zone, name string) ([]*dns.ResourceRecordSet, error) {
	return listAll(ctx, d.c, "records "+name+" of the zone "+zone, func(ctx context.Context, add func(...*dns.ResourceRecordSet)) error {
		q := d.c.DNS.ResourceRecordSets.List(d.c.Project, zone)
		if name != "" {
			q = q.Name(name + ".")
		}
		return q.Pages(ctx, func(p *dns.ResourceRecordSetsListResponse) error {
			add(p.Rrsets...)
			return nil
		})
	})
}

// Apply makes changes in one request. Those of a zone that was not read only add record sets.
func (d *cloudDNS) Apply(ctx context.Context, zone records.Zone, changes []records.Change) error {
	var all dns.Change
	remove := func(s records.Set) {
		if have := d.current[s.Key]; have != nil {
			all.Deletions = append(all.Deletions, have)
		}
	}
	for _, c := range changes {
		for _, s := range c.Delete {
			remove(s)
		}
		for _, s := range c.Upsert {
			remove(s)
			all.Additions = append(all.Additions, &dns.ResourceRecordSet{Name: s.Name + ".", Type: s.Type, Ttl: int64(s.TTL), Rrdatas: s.Texts()})
		}
	}
	_, err := gceapi.Result(d.c.DNS.Changes.Create(d.c.Project, zone.ID, &all).Context(ctx).Do())
	return err
}
