package kinds

import "kops.local/kops/internal/engine/resource"

// Network is a virtual network of custom mode.
type Network struct {
	Name        string `res:"forbid" tf:"name"`
	AutoSubnets bool   `res:"forbid" tf:"auto_create_subnetworks,zero"`

	// ID is PROJECT/NAME, which no other kind has.
	ID string `res:"out,id" out:"id" tf:"name"`
}

// Networks is the kind of Network. A shared one is adopted by its ID.
var Networks = resource.Kind[Network, *Client]{
	Name:  "google_compute_network",
	API:   apiCompute,
	Phase: resource.Network,
	Tasks: []string{"Network"},
	Key:   func(n *Network) string { return n.Name },
}

// Subnetwork is a range of a network in one region.
type Subnetwork struct {
	Name    string         `res:"forbid" tf:"name"`
	Network resource.Value `res:"forbid" tf:"network"` // Network.ID
	Region  string         `res:"forbid" tf:"region"`
	CIDR    string         `res:"forbid" tf:"ip_cidr_range"`
	// StackType is IPV4_ONLY, IPV4_IPV6 or IPV6_ONLY; IPv6Access is EXTERNAL or INTERNAL, where there is IPv6.
	StackType  string           `tf:"stack_type"`
	IPv6Access string           `tf:"ipv6_access_type"`
	Secondary  []SecondaryRange `tf:"secondary_ip_range,block"`

	// ID is projects/P/regions/R/subnetworks/N.
	ID string `res:"out,id" out:"id" tf:"name"`
}

// SecondaryRange is a range for the addresses of pods or services.
type SecondaryRange struct {
	Name string `tf:"range_name"`
	CIDR string `tf:"ip_cidr_range"`
}

// Subnetworks is the kind of Subnetwork. A shared one is adopted by its ID.
var Subnetworks = resource.Kind[Subnetwork, *Client]{
	Name:  "google_compute_subnetwork",
	API:   apiCompute,
	Phase: resource.Network,
	Tasks: []string{"Subnet"},
	Key:   func(s *Subnetwork) string { return s.Name },
}
