// Package routes is the pod network of clusters whose machines share one network
// segment: on each machine it writes the configuration of the reference CNI
// plugins for the node's own pod range, and maintains a route to the range of
// every other node.
//
// The controller manager assigns the ranges to nodes. The package must not run
// with the kubelet's rights, which may read no node but its own.
package routes

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Route is a route to the pods of one node.
type Route struct {
	// Pods is the node's pod range.
	Pods netip.Prefix
	// Via is the node's own address, of the same family. A route without it is unreachable:
	// it rejects packets that no route to a node matches.
	Via netip.Addr
}

// Network defines the pod ranges, as configured in the controller manager. A node's
// kubelet may claim a range when it registers: a range outside the network, or of
// another size, would divert the machines' own traffic.
type Network struct {
	// Pods are the cluster's pod ranges.
	Pods []netip.Prefix
	// Bits is the prefix length of a node's IPv4 range, Bits6 of its IPv6 range.
	Bits, Bits6 int
}

// contains reports whether a range can be a node's.
func (n Network) contains(r netip.Prefix) bool {
	bits := n.Bits
	if r.Addr().Is6() {
		bits = n.Bits6
	}
	return r.Bits() == bits && slices.ContainsFunc(n.Pods, func(all netip.Prefix) bool { return all.Bits() <= r.Bits() && all.Contains(r.Addr()) })
}

// Bounds returns the routes that keep packets for pod addresses among the nodes: without
// them, packets for a node that is gone would take the machine's default route, to
// outsiders.
func (n Network) Bounds() []Route {
	var out []Route
	for _, all := range n.Pods {
		if !n.contains(all) { // otherwise it is the range of the only node
			out = append(out, Route{Pods: all.Masked()})
		}
	}
	return out
}

// Desired returns the routes that a node needs to reach the other nodes' pods, sorted, and at
// most one per range: the route to the older node. Nodes without a range in the network or
// without an internal address get no route, nor do ranges that overlap the node's own.
func (n Network) Desired(nodes []*corev1.Node, self string) []Route {
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b *corev1.Node) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	var own []netip.Prefix
	for _, node := range nodes {
		if node.Name == self {
			own = Ranges(node)
		}
	}
	var out []Route
	for _, node := range nodes {
		if node.Name == self || node.DeletionTimestamp != nil {
			continue
		}
		for _, pods := range Ranges(node) {
			via, ok := address(node, pods.Addr().Is4())
			if ok && n.contains(pods) && !slices.ContainsFunc(own, pods.Overlaps) {
				out = append(out, Route{pods, via})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Route) int { return a.Pods.Compare(b.Pods) })
	return slices.CompactFunc(out, func(a, b Route) bool { return a.Pods == b.Pods })
}

// Ranges returns a node's pod ranges; unparsable ones are left out.
func Ranges(n *corev1.Node) []netip.Prefix {
	texts := n.Spec.PodCIDRs
	if len(texts) == 0 && n.Spec.PodCIDR != "" {
		texts = []string{n.Spec.PodCIDR}
	}
	var out []netip.Prefix
	for _, t := range texts {
		if p, err := netip.ParsePrefix(t); err == nil {
			out = append(out, p.Masked())
		}
	}
	return out
}

// address returns a node's first internal address of a family.
func address(n *corev1.Node, v4 bool) (netip.Addr, bool) {
	for _, a := range n.Status.Addresses {
		if a.Type != corev1.NodeInternalIP {
			continue
		}
		if ip, err := netip.ParseAddr(a.Address); err == nil && ip.Is4() == v4 {
			return ip, true
		}
	}
	return netip.Addr{}, false
}

// Kernel is a routing table.
type Kernel interface {
	// Routes lists the routes that Set has created, in this process or an earlier one.
	Routes() ([]Route, error)
	// Set creates a route, or changes the one to the same range.
	Set(r Route) error
	// Remove removes a route; it is not an error if it does not exist.
	Remove(r Route) error
}
