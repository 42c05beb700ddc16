// Package ports has the TCP ports of control planes on which programs and firewalls must agree.
// They are kOps', because users' firewalls are configured for them.
//
// It must not know who listens, nor who may connect.
package ports

// Ports of the machines of a control plane.
const (
	// Controller is the port at which kops-controller serves joining machines, with TLS.
	Controller = 3988
	// APIHealth serves the health of a machine's API server, without TLS.
	APIHealth = 3990
	// ChannelsReady is where a machine finds out whether its add-ons are applied, without TLS.
	ChannelsReady = 3986
)

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
