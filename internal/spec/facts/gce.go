package facts

// GCE is what a cluster on Google Compute Engine asks.
type GCE struct {
	Project string   `json:"project,omitempty"`
	Region  string   `json:"region,omitempty"`
	Zones   []string `json:"zones,omitempty"`

	// DNSZones are the zones whose names end the cluster's.
	DNSZones []DNSZone `json:"dnsZones,omitempty"`
	// Networks are the ranges in use of networks that exist, by name.
	Networks map[string][]string `json:"networks,omitempty"`
}
