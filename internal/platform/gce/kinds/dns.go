package kinds

import "kops.local/kops/internal/engine/resource"

// Placeholder is a record of the cluster's that exists before its machines publish their addresses,
// so that nobody caches that the name does not exist. Whatever it holds meanwhile is right.
type Placeholder struct {
	Zone   string   `res:"forbid"` // the managed zone's name or number
	Name   string   `res:"forbid"` // without a final dot
	Type   string   `res:"forbid"` // "A" or "AAAA"
	TTL    int      `res:"writeonly"`
	Values []string `res:"writeonly"`
}

// Placeholders is the kind of Placeholder.
var Placeholders = resource.Kind[Placeholder, *Client]{
	Name:   "google_dns_placeholder",
	Direct: true,
	API:    apiDNS,
	Tasks:  []string{"DNSName"},
	Key:    func(p *Placeholder) string { return p.Type + " " + p.Name },
}
