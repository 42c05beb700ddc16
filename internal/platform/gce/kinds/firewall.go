package kinds

import "kops.local/kops/internal/engine/resource"

// Firewall is a rule that lets traffic in to the machines that have a tag. The zero ranges
// and tags mean any source.
type Firewall struct {
	Name         string         `res:"forbid" tf:"name"`
	Network      resource.Value `res:"forbid" tf:"network"` // Network.ID
	Allow        []Allowed      `tf:"allow,block"`
	SourceRanges []string       `tf:"source_ranges"`
	SourceTags   []string       `tf:"source_tags"`
	TargetTags   []string       `tf:"target_tags"`
	Disabled     bool           `tf:"disabled,zero"`

	ID string `res:"out,id"`
}

// Allowed is a protocol, by name or number, and its ports; none: all.
type Allowed struct {
	Protocol string   `tf:"protocol"`
	Ports    []string `tf:"ports"`
}

// Firewalls is the kind of Firewall.
var Firewalls = resource.Kind[Firewall, *Client]{
	Name:   "google_compute_firewall",
	API:    apiCompute,
	Phase:  resource.Security,
	Tasks:  []string{"FirewallRule"},
	Key:    func(f *Firewall) string { return f.Name },
	Grants: func(*Firewall) bool { return true },
}
