package hetznerapi

import "time"

// Action is what continues after the response that started it.
type Action struct {
	ID      int64  `json:"id"`
	Command string `json:"command"`
	Status  string `json:"status"` // running, success or error
	Error   *Error `json:"error"`
}

// Object is what all objects have, or as much of it as others show.
type Object struct {
	ID     int64             `json:"id"`
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"`
}

// Server is a machine.
type Server struct {
	Object
	Status     string    `json:"status"`
	Created    time.Time `json:"created"`
	ServerType Object    `json:"server_type"`
	Location   Object    `json:"location"`
	// Image is nil if it was deleted; its name is empty if it is a snapshot.
	Image     *Object `json:"image"`
	PublicNet struct {
		IPv4 *struct {
			IP string `json:"ip"`
		} `json:"ipv4"`
		Firewalls []struct {
			ID int64 `json:"id"`
		} `json:"firewalls"`
	} `json:"public_net"`
	PrivateNet     []Attachment `json:"private_net"`
	Volumes        []int64      `json:"volumes"`
	PlacementGroup *Object      `json:"placement_group"`
	Protection     struct {
		Delete bool `json:"delete"`
	} `json:"protection"`
}

// PrivateAddresses returns the addresses of a server in networks.
func (s Server) PrivateAddresses() []string {
	var out []string
	for _, n := range s.PrivateNet {
		out = append(out, n.IP)
	}
	return out
}

// Attachment is an address in a network.
type Attachment struct {
	Network int64  `json:"network"`
	IP      string `json:"ip"`
}

// Network is a private network.
type Network struct {
	Object
	IPRange string   `json:"ip_range"`
	Subnets []Subnet `json:"subnets"`
	// Servers and LoadBalancers are attached to it.
	Servers       []int64 `json:"servers"`
	LoadBalancers []int64 `json:"load_balancers"`
}

// Subnet is a range of a network.
type Subnet struct {
	Type        string `json:"type"`
	IPRange     string `json:"ip_range"`
	NetworkZone string `json:"network_zone"`
}

// Firewall filters traffic of the public interfaces of servers.
type Firewall struct {
	Object
	Rules     []FirewallRule `json:"rules"`
	AppliedTo []Target       `json:"applied_to"`
}

// FirewallRule allows traffic.
type FirewallRule struct {
	Direction string   `json:"direction"`
	Protocol  string   `json:"protocol"`
	Port      string   `json:"port,omitempty"`
	SourceIPs []string `json:"source_ips"`
}

// Target is to what a firewall is applied, or to what a load balancer sends: a server, or all servers
// that a label selector selects.
type Target struct {
	Type          string    `json:"type"`
	LabelSelector *Selector `json:"label_selector,omitempty"`
	Server        *Object   `json:"server,omitempty"`
	UsePrivateIP  *bool     `json:"use_private_ip,omitempty"`
}

// Selector is a label selector.
type Selector struct {
	Selector string `json:"selector"`
}

// LoadBalancer is a load balancer.
type LoadBalancer struct {
	Object
	Location  Object `json:"location"`
	PublicNet struct {
		Enabled bool `json:"enabled"`
		IPv4    struct {
			IP string `json:"ip"`
		} `json:"ipv4"`
	} `json:"public_net"`
	PrivateNet []Attachment      `json:"private_net"`
	Services   []BalancerService `json:"services"`
	Targets    []Target          `json:"targets"`
}

// BalancerService is a port at which a load balancer serves.
type BalancerService struct {
	Protocol        string      `json:"protocol"`
	ListenPort      int         `json:"listen_port"`
	DestinationPort int         `json:"destination_port"`
	ProxyProtocol   bool        `json:"proxyprotocol"`
	HealthCheck     HealthCheck `json:"health_check"`
}

// HealthCheck says how a load balancer finds out which targets serve. The times are in seconds.
type HealthCheck struct {
	Protocol string `json:"protocol"`
	Port     int    `json:"port"`
	Interval int    `json:"interval"`
	Timeout  int    `json:"timeout"`
	Retries  int    `json:"retries"`
}

// Volume is a disk.
type Volume struct {
	Object
	Size     int    `json:"size"` // GB
	Location Object `json:"location"`
	Server   *int64 `json:"server"`
}

// PlacementGroup says how its servers are placed on hosts.
type PlacementGroup struct {
	Object
	Type    string  `json:"type"`
	Servers []int64 `json:"servers"`
}

// SSHKey is a public key that new servers get.
type SSHKey struct {
	Object
	Fingerprint string `json:"fingerprint"`
	PublicKey   string `json:"public_key"`
}

// Location is where servers are.
type Location struct {
	Name        string `json:"name"`
	NetworkZone string `json:"network_zone"`
}

// Deprecation says since when, and until when, a thing is offered.
type Deprecation struct {
	UnavailableAfter time.Time `json:"unavailable_after"`
}

// ServerType is a machine type.
type ServerType struct {
	Name         string  `json:"name"`
	Architecture string  `json:"architecture"` // x86 or arm
	Cores        int     `json:"cores"`
	Memory       float64 `json:"memory"` // GB
	Locations    []struct {
		Name        string       `json:"name"`
		Deprecation *Deprecation `json:"deprecation"`
	} `json:"locations"`
}

// Image is what a server's disk is created from.
type Image struct {
	ID           int64   `json:"id"`
	Name         string  `json:"name"`         // empty for a snapshot
	Architecture string  `json:"architecture"` // x86 or arm
	Deprecated   *string `json:"deprecated"`   // since when
}
