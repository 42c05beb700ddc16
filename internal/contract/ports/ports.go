// Package ports has the ports of machines on which programs and firewalls must agree. Those of a
// control plane are kOps', because users' firewalls are configured for them.
//
// It must not know who listens, nor who may connect.
package ports

// TCP ports of the machines of a control plane.
const (
	// API is the port of the API, with TLS.
	API = 443
	// Controller is the port at which kops-controller serves joining machines, with TLS.
	Controller = 3988
	// Callback is the port at which a joining machine, of any group, answers kops-controller's call, with
	// TLS, on platforms where that is how it proves its identity.
	Callback = 3987
	// APIHealth serves the health of a machine's API server, without TLS.
	APIHealth = 3990
	// ChannelsReady is where a machine finds out whether its add-ons are applied, without TLS.
	ChannelsReady = 3986
	// ControllerManager and Scheduler serve the health and the metrics of these programs, with TLS.
	ControllerManager = 10257
	Scheduler         = 10259
)

// Ports of all machines.
const (
	SSH = 22
	// Kubelet is the kubelet's API, with TLS.
	Kubelet = 10250
	// ProxyMetrics serves the metrics of kube-proxy, and NodeExporter those of a machine, if a user
	// has installed Prometheus' exporter; both without TLS.
	ProxyMetrics = 10249
	NodeExporter = 9100
	// BGP is where pod networks exchange routes.
	BGP = 179
)

// UDP ports of the tunnels of pod networks.
const (
	VXLAN       = 8472 // Linux' own port, of Cilium and flannel
	CalicoVXLAN = 4789
	FlannelUDP  = 8285
	Geneve      = 6081
)

// NodePorts is the port range of Services of type NodePort, unless a cluster has another.
const NodePorts = "30000-32767"

// Etcd has the ports of an etcd cluster: for clients, for members, for managers among each other,
// and for a manager to reach a member that does not serve anyone else yet.
type Etcd struct{ Client, Peer, Manager, Quarantine int }

// OfEtcd returns the ports of an etcd cluster by its name, such as main.
func OfEtcd(name string) (Etcd, bool) {
	switch name {
	case "main":
		return Etcd{4001, 2380, 3996, 3994}, true
	case "events":
		return Etcd{4002, 2381, 3997, 3995}, true
	case "cilium":
		return Etcd{4003, 2382, 3991, 3992}, true
	case "leases":
		return Etcd{4004, 2383, 4006, 4005}, true
	}
	return Etcd{}, false
}
