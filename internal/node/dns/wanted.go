package dns

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"kops.local/kops/internal/contract/labels"
)

// The annotations that name what is published, in a list with commas.
const (
	Internal = "dns.alpha.kubernetes.io/internal"
	External = "dns.alpha.kubernetes.io/external"
)

// mostValues bounds a set. It is the least of what providers allow, Route 53's quota of
// records in a set; an answer with more would be over 6 KB.
const mostValues = 400

// mostName is the length of a name that leaves room for a mark's label within the 253
// of a name (RFC 1035).
const mostName = 253 - len("_kops-cname.")

// Seen is what the cluster has.
type Seen struct {
	Nodes     []*corev1.Node
	Pods      []*corev1.Pod
	Services  []*corev1.Service
	Ingresses []*networkingv1.Ingress
}

// Families are the kinds of addresses at which machines of the cluster reach each other.
type Families struct{ IPv4, IPv6 bool }

// Refusal is a name that is not published.
type Refusal struct{ Name, Why string }

// wanted collects values.
type wanted struct {
	families Families
	nodes    map[string]*corev1.Node
	values   map[Key][]string
	refused  map[Refusal]bool
}

// Wanted computes the record sets of what the cluster has, sorted, and which names
// cannot be published.
func (f Families) Wanted(seen Seen) ([]Set, []Refusal) {
	w := &wanted{families: f, nodes: map[string]*corev1.Node{}, values: map[Key][]string{}, refused: map[Refusal]bool{}}
	for _, n := range seen.Nodes {
		w.nodes[n.Name] = n
	}
	for _, p := range seen.Pods {
		w.pod(p)
	}
	for _, s := range seen.Services {
		w.service(s)
	}
	for _, i := range seen.Ingresses {
		w.ingress(i)
	}
	return w.sets()
}

// pod publishes a pod that has the addresses of its machine. The pods of a machine that
// is gone are shown for a while after its node.
func (w *wanted) pod(p *corev1.Pod) {
	node := w.nodes[p.Spec.NodeName]
	if !p.Spec.HostNetwork || node == nil || p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded {
		return
	}
	for _, name := range names(p.Annotations[External]) {
		w.add(name, externalOf(node)...)
	}
	var own []string
	for _, ip := range p.Status.PodIPs {
		if len(p.Status.PodIPs) == 1 || slices.Contains(addresses(node, corev1.NodeInternalIP), ip.IP) {
			own = append(own, ip.IP)
		}
	}
	if len(p.Status.PodIPs) == 0 && p.Status.PodIP != "" {
		own = append(own, p.Status.PodIP)
	}
	for _, name := range names(p.Annotations[Internal]) {
		w.add(name, w.internal(own)...)
	}
}

// service publishes the load balancer of a Service, or all nodes with its port. Both
// annotations say the same of a load balancer, and of ports they contradict each other.
func (w *wanted) service(s *corev1.Service) {
	internal, external := names(s.Annotations[Internal]), names(s.Annotations[External])
	switch s.Spec.Type {
	case corev1.ServiceTypeLoadBalancer:
		for _, name := range slices.Concat(internal, external) {
			for _, b := range s.Status.LoadBalancer.Ingress {
				w.balancer(name, b.IP, b.Hostname)
			}
		}
	case corev1.ServiceTypeNodePort:
		if len(internal) > 0 && len(external) > 0 {
			for _, name := range slices.Concat(internal, external) {
				w.refuse(name, fmt.Sprintf("the Service %s/%s has both annotations, of which a NodePort may have one", s.Namespace, s.Name))
			}
			return
		}
		for _, n := range w.nodes {
			if isWorker(n) {
				for _, name := range internal {
					w.add(name, w.internal(addresses(n, corev1.NodeInternalIP))...)
				}
				for _, name := range external {
					w.add(name, externalOf(n)...)
				}
			}
		}
	}
}

// ingress publishes the load balancer of an Ingress under all its hosts.
func (w *wanted) ingress(i *networkingv1.Ingress) {
	for _, r := range i.Spec.Rules {
		if r.Host == "" {
			continue
		}
		for _, b := range i.Status.LoadBalancer.Ingress {
			w.balancer(Canonical(r.Host), b.IP, b.Hostname)
		}
	}
}

// balancer publishes what a load balancer has: a name, or an address.
func (w *wanted) balancer(name, ip, host string) {
	switch {
	case host != "" && w.valid(name):
		k := Key{name, CNAME}
		w.values[k] = append(w.values[k], Canonical(host))
	case host == "" && ip != "":
		w.add(name, ip)
	}
}

// add publishes addresses.
func (w *wanted) add(name string, ips ...string) {
	if !w.valid(name) {
		return
	}
	for _, ip := range ips {
		a, err := netip.ParseAddr(ip)
		if err != nil || a.IsLoopback() || a.IsUnspecified() {
			continue
		}
		k := Key{name, A}
		if a.Is6() {
			k.Type = AAAA
		}
		w.values[k] = append(w.values[k], ip)
	}
}

// valid refuses what is no name.
func (w *wanted) valid(name string) bool {
	labels := strings.Split(name, ".")
	bad := len(labels) < 2 || len(name) > mostName
	for i, l := range labels {
		bad = bad || len(l) == 0 || len(l) > 63 || (l != "*" || i > 0) && strings.Trim(l, "abcdefghijklmnopqrstuvwxyz0123456789-_") != ""
	}
	if bad {
		w.refuse(name, fmt.Sprintf("it is no name of a zone's; a name has labels of letters, digits and hyphens, and at most %d characters", mostName))
	}
	return !bad
}

func (w *wanted) refuse(name, why string) { w.refused[Refusal{name, why}] = true }

// sets returns what was collected.
func (w *wanted) sets() ([]Set, []Refusal) {
	var out []Set
	for k, values := range w.values {
		s := NewSet(k.Name, k.Type, TTL, values...)
		if k.Type == CNAME {
			if len(w.values[Key{k.Name, A}])+len(w.values[Key{k.Name, AAAA}]) > 0 {
				w.refuse(k.Name, "it has addresses, and a name that it would lead to: "+s.Values[0]+"; the addresses are published")
				continue
			}
			if len(s.Values) > 1 {
				w.refuse(k.Name, "it would lead to several names, of which the first is published: "+strings.Join(s.Values, ", "))
				s.Values = s.Values[:1]
			}
		}
		if n := len(s.Values); n > mostValues {
			w.refuse(k.Name, fmt.Sprintf("it has %d addresses, of which %d are published; a load balancer has fewer", n, mostValues))
			s.Values = s.Values[:mostValues]
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Set) int { return compareKeys(a.Key, b.Key) })
	return out, slices.SortedFunc(maps.Keys(w.refused), compareRefusals)
}

func compareRefusals(a, b Refusal) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Why, b.Why))
}

// internal are those of addresses that machines of the cluster use.
func (w *wanted) internal(ips []string) []string {
	return slices.DeleteFunc(slices.Clone(ips), func(ip string) bool {
		a, err := netip.ParseAddr(ip)
		return err != nil || a.Is4() && !w.families.IPv4 || a.Is6() && !w.families.IPv6
	})
}

// names reads an annotation.
func names(list string) []string {
	var out []string
	for name := range strings.SplitSeq(list, ",") {
		if name = Canonical(name); name != "" {
			out = append(out, name)
		}
	}
	return out
}

// addresses are those of a node of one type.
func addresses(n *corev1.Node, t corev1.NodeAddressType) []string {
	var out []string
	for _, a := range n.Status.Addresses {
		if a.Type == t {
			out = append(out, a.Address)
		}
	}
	return out
}

// externalOf are the addresses of a node that the world can reach. One of IPv6 needs no
// other that is translated to it.
func externalOf(n *corev1.Node) []string {
	out := addresses(n, corev1.NodeExternalIP)
	for _, ip := range addresses(n, corev1.NodeInternalIP) {
		if a, err := netip.ParseAddr(ip); err == nil && a.Is6() {
			out = append(out, ip)
		}
	}
	return out
}

// isWorker reports that a node has the role node, which one without a role has too.
func isWorker(n *corev1.Node) bool {
	_, plane := n.Labels[labels.ControlPlane]
	_, api := n.Labels[labels.APIServer]
	return !plane && !api
}
