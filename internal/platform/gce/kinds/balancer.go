package kinds

import "kops.local/kops/internal/engine/resource"

// Address is a reserved address of the region, public where Type is empty.
type Address struct {
	Name       string         `res:"forbid" tf:"name"`
	Type       string         `res:"forbid" tf:"address_type"` // "" or "INTERNAL"
	Purpose    string         `res:"forbid" tf:"purpose"`      // "SHARED_LOADBALANCER_VIP": several rules may use it
	Subnetwork resource.Value `res:"forbid" tf:"subnetwork"`   // Subnetwork.ID

	ID      string `res:"out,id" out:"id" tf:"self_link"`
	Address string `res:"out,id" out:"address"` // the address itself, which forwarding rules name
}

// Addresses is the kind of Address.
var Addresses = resource.Kind[Address, *Client]{
	Name:  "google_compute_address",
	API:   apiCompute,
	Phase: resource.Security,
	Tasks: []string{"Address"},
	Key:   func(a *Address) string { return a.Name },
}

// HTTPHealthCheck is a global check of the older sort, the only one that target pools take.
type HTTPHealthCheck struct {
	Name string `res:"forbid" tf:"name"`
	Port int    `tf:"port"`
	Path string `tf:"request_path"`

	ID string `res:"out,id" out:"id" tf:"self_link"`
}

// HTTPHealthChecks is the kind of HTTPHealthCheck.
var HTTPHealthChecks = resource.Kind[HTTPHealthCheck, *Client]{
	Name:  "google_compute_http_health_check",
	API:   apiCompute,
	Phase: resource.Security,
	Tasks: []string{"HTTPHealthcheck"},
	Key:   func(h *HTTPHealthCheck) string { return h.Name },
}

// HealthCheck is a check of the region: one of TCP and SSL is set.
type HealthCheck struct {
	Name string     `res:"forbid" tf:"name"`
	TCP  *CheckPort `tf:"tcp_health_check,block"`
	SSL  *CheckPort `tf:"ssl_health_check,block"`

	ID string `res:"out,id" out:"id"`
}

// CheckPort is where a check connects.
type CheckPort struct {
	Port int `tf:"port"`
}

// HealthChecks is the kind of HealthCheck.
var HealthChecks = resource.Kind[HealthCheck, *Client]{
	Name:  "google_compute_region_health_check",
	API:   apiCompute,
	Phase: resource.Security,
	Tasks: []string{"HealthCheck"},
	Key:   func(h *HealthCheck) string { return h.Name },
}

// TargetPool is the machines behind a public balancer; groups put theirs in by themselves.
type TargetPool struct {
	Name         string           `res:"forbid" tf:"name"`
	HealthChecks []resource.Value `res:",post" tf:"health_checks"` // HTTPHealthCheck.ID, at most one

	ID string `res:"out,id" out:"id" tf:"self_link"`
}

// TargetPools is the kind of TargetPool.
var TargetPools = resource.Kind[TargetPool, *Client]{
	Name:  "google_compute_target_pool",
	API:   apiCompute,
	Phase: resource.Security,
	Tasks: []string{"TargetPool", "PoolHealthCheck"},
	Key:   func(p *TargetPool) string { return p.Name },
}

// BackendService is the groups of machines behind a balancer of the region.
type BackendService struct {
	Name         string           `res:"forbid" tf:"name"`
	Scheme       string           `res:"forbid" tf:"load_balancing_scheme"` // "INTERNAL"
	Protocol     string           `res:"forbid" tf:"protocol"`              // "TCP"
	HealthChecks []resource.Value `tf:"health_checks"`                      // HealthCheck.ID
	Backends     []Backend        `tf:"backend,block"`

	ID string `res:"out,id" out:"id"`
}

// Backend is one group of machines.
type Backend struct {
	Group         resource.Value `tf:"group"`          // InstanceGroupManager.Group
	BalancingMode string         `tf:"balancing_mode"` // "CONNECTION"
}

// BackendServices is the kind of BackendService.
var BackendServices = resource.Kind[BackendService, *Client]{
	Name:  "google_compute_region_backend_service",
	API:   apiCompute,
	Phase: resource.Security,
	Tasks: []string{"BackendService"},
	Key:   func(b *BackendService) string { return b.Name },
}

// ForwardingRule leads an address to a target pool, or to a backend service of the network.
type ForwardingRule struct {
	Name      string            `res:"forbid" tf:"name"`
	Address   resource.Value    `res:"replace" tf:"ip_address"`            // Address.Address
	Protocol  string            `res:"replace" tf:"ip_protocol"`           // "TCP"
	Scheme    string            `res:"replace" tf:"load_balancing_scheme"` // "EXTERNAL" or "INTERNAL"
	PortRange string            `res:"replace" tf:"port_range"`            // "443-443", with a target
	Target    resource.Value    `tf:"target"`                              // TargetPool.ID
	Ports     []string          `res:"replace" tf:"ports"`                 // with a backend service
	Backend   resource.Value    `res:"replace" tf:"backend_service"`       // BackendService.ID
	Network   resource.Value    `res:"replace" tf:"network"`               // Network.ID
	Subnet    resource.Value    `res:"replace" tf:"subnetwork"`            // Subnetwork.ID
	Labels    map[string]string `tf:"labels"`

	ID string `res:"out,id" out:"id"`
}

// ForwardingRules is the kind of ForwardingRule.
var ForwardingRules = resource.Kind[ForwardingRule, *Client]{
	Name:  "google_compute_forwarding_rule",
	API:   apiCompute,
	Phase: resource.Security,
	Tasks: []string{"ForwardingRule"},
	Key:   func(r *ForwardingRule) string { return r.Name },
}
