package kinds

import "kops.local/kops/internal/engine/resource"

// Router is a router of one region. What it translates are RouterNATs.
type Router struct {
	Name    string         `res:"forbid" tf:"name"`
	Network resource.Value `res:"forbid" tf:"network"` // Network.ID

	ID string `res:"out,id" out:"id" tf:"name"`
}

// Routers is the kind of Router.
var Routers = resource.Kind[Router, *Client]{
	Name:  "google_compute_router",
	API:   apiCompute,
	Phase: resource.Network,
	Tasks: []string{"Router"},
	Key:   func(r *Router) string { return r.Name },
}

// RouterNAT translates addresses of machines without public ones. It is a part of its router:
// one patch of the router, with the fingerprint that was read, makes, changes and removes it.
type RouterNAT struct {
	Name        string          `res:"forbid" tf:"name"`
	Router      resource.Value  `res:"forbid" tf:"router"` // Router.ID
	Region      string          `res:"forbid" tf:"region"`
	Allocation  string          `tf:"nat_ip_allocate_option"`             // "AUTO_ONLY"
	Source      string          `tf:"source_subnetwork_ip_ranges_to_nat"` // "LIST_OF_SUBNETWORKS"
	Subnetworks []NATSubnetwork `tf:"subnetwork,block"`
}

// NATSubnetwork is a subnetwork whose ranges are translated.
type NATSubnetwork struct {
	Subnetwork resource.Value `tf:"name"`                    // Subnetwork.ID
	Ranges     []string       `tf:"source_ip_ranges_to_nat"` // "ALL_IP_RANGES"
}

// RouterNATs is the kind of RouterNAT.
var RouterNATs = resource.Kind[RouterNAT, *Client]{
	Name:  "google_compute_router_nat",
	API:   apiCompute,
	Phase: resource.Network,
	Tasks: []string{"Router"},
	Key:   func(n *RouterNAT) string { return n.Name },
}
