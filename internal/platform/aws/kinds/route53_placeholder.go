package kinds

import (
	"context"

	"kops.local/kops/internal/engine/resource"
)

// DNSPlaceholder is a record that kops only creates: its content is then
// up to the cluster's DNS controller.
type DNSPlaceholder struct {
	ZoneID  string   `res:"forbid"` // "/hostedzone/" and the zone's identifier
	Name    string   `res:"forbid"` // lower case, without a trailing dot
	Type    string   `res:"forbid"`
	TTL     int      `res:"writeonly"` // seconds
	Records []string `res:"writeonly"`
}

// DNSPlaceholders is the kind of DNSPlaceholder.
var DNSPlaceholders = resource.Kind[DNSPlaceholder, *Client]{
	Name:   "aws_route53_placeholder",
	Direct: true,
	API:    apiRoute53,
	Key:    func(p *DNSPlaceholder) string { return recordKey{p.ZoneID, p.Name, p.Type}.String() },
	List:   listPlaceholders,
	Create: func(ctx context.Context, c *Client, p *DNSPlaceholder) error { return upsertRecord(ctx, c, p.record()) },
	Delete: func(ctx context.Context, c *Client, p *DNSPlaceholder) error { return deleteRecord(ctx, c, p.record()) },
}

// listPlaceholders returns the wanted names. For a deletion it returns
// none: they are found as records.
func listPlaceholders(ctx context.Context, c *Client, s resource.Scope) ([]*DNSPlaceholder, error) {
	if s.All {
		return nil, nil
	}
	records, err := wantedRecords(ctx, c, s.Names)
	out := make([]*DNSPlaceholder, len(records))
	for i, r := range records {
		out[i] = &DNSPlaceholder{ZoneID: r.ZoneID, Name: r.Name, Type: r.Type, TTL: r.TTL, Records: resource.Texts(r.Records)}
	}
	return out, err
}

func (p *DNSPlaceholder) record() *DNSRecord {
	return &DNSRecord{ZoneID: p.ZoneID, Name: p.Name, Type: p.Type, TTL: p.TTL, Records: resource.Lits(p.Records...)}
}
