// Package routes is the pod network of clusters whose machines share one
// network segment: on each machine it writes the configuration of the reference
// CNI plugins for the node's own range of pod addresses, and keeps a route to
// the range of every other node.
//
// The ranges are those that the controller manager gives to nodes. It must not
// run as the kubelet, which may see no node but its own.
package routes

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Route leads to the pods of one node.
type Route struct {
	// Pods is the node's range of pod addresses.
	Pods netip.Prefix
	// Via is the node's own address, of the same family. A route without one leads nowhere:
	// packets are refused that no route to a node takes.
	Via netip.Addr
}

// Network is where the ranges of pods lie, as the controller manager was told. A node's
// kubelet may claim a range as it registers: one that lies elsewhere, or is of
// another size, would lead the machines' own traffic away.
type Network struct {
	// Pods are the cluster's ranges of pod addresses.
	Pods []netip.Prefix
	// Bits is the length of a node's range of IPv4 addresses, Bits6 of its IPv6 range.
	Bits, Bits6 int
}

// has reports whether a range can be a node's.
func (n Network) has(r netip.Prefix) bool {
	bits := n.Bits
	if r.Addr().Is6() {
		bits = n.Bits6
	}
	return r.Bits() == bits && slices.ContainsFunc(n.Pods, func(all netip.Prefix) bool { return all.Bits() <= r.Bits() && all.Contains(r.Addr()) })
}

// Bounds returns the routes that keep packets to addresses of pods among the nodes: without
// them, those for a node that is gone would take the machine's default route, to strangers.
func (n Network) Bounds() []Route {
	var out []Route
	for _, all := range n.Pods {
		if !n.has(all) { // else it is the range of the only node
			out = append(out, Route{Pods: all.Masked()})
		}
	}
	return out
}

// Desired returns the routes that a node needs to reach the pods of the others, sorted, and at
// most one to a range: the route to the older node. Nodes that have no range of the network or no
// internal address yet, and ranges that overlap the node's own, have none.
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
			if ok && n.has(pods) && !slices.ContainsFunc(own, pods.Overlaps) {
				out = append(out, Route{pods, via})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Route) int { return a.Pods.Compare(b.Pods) })
	return slices.CompactFunc(out, func(a, b Route) bool { return a.Pods == b.Pods })
}

// Ranges are the ranges of pod addresses of a node; those that cannot be read are left out.
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

// address is the first internal address of a node of a family.
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
	// Routes lists the routes that Set has made, by this process or an earlier one.
	Routes() ([]Route, error)
	// Set makes a route, or changes the one to the same range.
	Set(r Route) error
	// Remove removes a route; it is not an error if it does not exist.
	Remove(r Route) error
}
