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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/node/dns/records"
)

// The annotations with the names to publish, separated by commas.
const (
	Internal = "dns.alpha.kubernetes.io/internal"
	External = "dns.alpha.kubernetes.io/external"
)

// maxValues limits a record set. It is the lowest limit of all providers, Route 53's
// quota of records in a set; an answer with more would exceed 6 KB.
const maxValues = 400

// maxName is the maximum length of a name, which leaves room for a mark's label
// within DNS' limit of 253 (RFC 1035).
const maxName = 253 - len("_kops-cname.")

// Snapshot holds the cluster's objects.
type Snapshot struct {
	Nodes     []*corev1.Node
	Pods      []*corev1.Pod
	Services  []*corev1.Service
	Ingresses []*networkingv1.Ingress
}

// Families are the address families with which machines of the cluster reach each other.
type Families struct{ IPv4, IPv6 bool }

// Object is an object of the cluster that requests names.
type Object struct {
	APIVersion, Kind, Namespace, Name string
	UID                               types.UID
}

func object(apiVersion, kind string, m metav1.ObjectMeta) Object {
	return Object{apiVersion, kind, m.Namespace, m.Name, m.UID}
}

// Refusal is a name that is not published.
type Refusal struct {
	Name, Why string
	// Object is the one that may not publish the name. The zero Object stands for every
	// object that requests it.
	Object Object
}

// Desired is what the objects of a cluster request.
type Desired struct {
	// Sets are sorted.
	Sets    []records.Set
	Refused []Refusal
	// Requesters holds the objects that request a name.
	Requesters map[string][]Object
}

// collection gathers the values of names.
type collection struct {
	Rules
	nodes      map[string]*corev1.Node
	values     map[records.Key][]string
	refused    map[Refusal]bool
	requesters map[string][]Object
}

// Desired returns the record sets that the objects of a cluster request and may have.
func (r Rules) Desired(seen Snapshot) Desired {
	c := &collection{Rules: r, nodes: map[string]*corev1.Node{}, values: map[records.Key][]string{}, refused: map[Refusal]bool{}, requesters: map[string][]Object{}}
	for _, n := range seen.Nodes {
		c.nodes[n.Name] = n
	}
	for _, p := range seen.Pods {
		c.pod(p)
	}
	for _, s := range seen.Services {
		c.service(s)
	}
	for _, i := range seen.Ingresses {
		c.ingress(i)
	}
	return c.desired()
}

// pod publishes a pod that has the addresses of its machine. The pods of a machine that
// is gone are still listed for a while after its node was deleted.
func (c *collection) pod(p *corev1.Pod) {
	node := c.nodes[p.Spec.NodeName]
	if !p.Spec.HostNetwork || node == nil || p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded {
		return
	}
	from := requester{c, object("v1", "Pod", p.ObjectMeta), p.Namespace == metav1.NamespaceSystem && !isWorker(node)}
	for _, name := range from.permittedNames(names(p.Annotations[External])) {
		from.add(name, externalOf(node)...)
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
	for _, name := range from.permittedNames(names(p.Annotations[Internal])) {
		from.add(name, c.internal(own)...)
	}
}

// service publishes the load balancer of a Service, or all nodes with its port. For a
// load balancer both annotations mean the same; for ports they contradict each other.
func (c *collection) service(s *corev1.Service) {
	from := requester{c, object("v1", "Service", s.ObjectMeta), false}
	internal, external := names(s.Annotations[Internal]), names(s.Annotations[External])
	switch s.Spec.Type {
	case corev1.ServiceTypeLoadBalancer:
		for _, name := range from.permittedNames(slices.Concat(internal, external)) {
			for _, b := range s.Status.LoadBalancer.Ingress {
				from.balancer(name, b.IP, b.Hostname)
			}
		}
	case corev1.ServiceTypeNodePort:
		if len(internal) > 0 && len(external) > 0 {
			for _, name := range slices.Concat(internal, external) {
				from.refuse(name, fmt.Sprintf("the Service %s/%s has both annotations, but a NodePort may have only one", s.Namespace, s.Name))
			}
			return
		}
		internal, external = from.permittedNames(internal), from.permittedNames(external)
		for _, n := range c.nodes {
			if isWorker(n) {
				for _, name := range internal {
					from.add(name, c.internal(addresses(n, corev1.NodeInternalIP))...)
				}
				for _, name := range external {
					from.add(name, externalOf(n)...)
				}
			}
		}
	}
}

// ingress publishes the load balancer of an Ingress under all its hosts.
func (c *collection) ingress(i *networkingv1.Ingress) {
	from := requester{c, object("networking.k8s.io/v1", "Ingress", i.ObjectMeta), false}
	var hosts []string
	for _, r := range i.Spec.Rules {
		if r.Host != "" {
			hosts = append(hosts, records.Canonical(r.Host))
		}
	}
	for _, name := range from.permittedNames(hosts) {
		for _, b := range i.Status.LoadBalancer.Ingress {
			from.balancer(name, b.IP, b.Hostname)
		}
	}
}

// requester is an object whose names are being collected.
type requester struct {
	*collection
	Object
	// plane is set if the object is a pod of the control plane.
	plane bool
}

// balancer publishes a load balancer's name or address.
func (a requester) balancer(name, ip, host string) {
	switch {
	case host != "":
		k := records.Key{Name: name, Type: records.CNAME}
		a.values[k] = append(a.values[k], records.Canonical(host))
	case ip != "":
		a.add(name, ip)
	}
}

// add adds addresses to a name.
func (a requester) add(name string, ips ...string) {
	for _, text := range ips {
		ip, err := netip.ParseAddr(text)
		if err != nil || ip.IsLoopback() || ip.IsUnspecified() {
			continue
		}
		k := records.Key{Name: name, Type: records.A}
		if ip.Is6() {
			k.Type = records.AAAA
		}
		a.values[k] = append(a.values[k], text)
	}
}

// permittedNames returns the names that the object may publish. It decides before the object has
// an address, so that a user learns of a refused name at once.
func (a requester) permittedNames(names []string) []string {
	var out []string
	for _, name := range names {
		if a.isAllowed(name) {
			out = append(out, name)
		}
	}
	return out
}

// isAllowed reports whether the object may publish a name. It records the object, and the reason if
// it may not.
func (a requester) isAllowed(name string) bool {
	why := invalid(name)
	if why == "" {
		why = a.whyForbidden(a.Object, a.plane, name)
	}
	if why != "" {
		a.refuse(name, why)
		return false
	}
	if !slices.Contains(a.requesters[name], a.Object) {
		a.requesters[name] = append(a.requesters[name], a.Object)
	}
	return true
}

func (a requester) refuse(name, why string) { a.refused[Refusal{name, why, a.Object}] = true }

// invalid returns why a name is not a DNS name; empty if it is one.
func invalid(name string) string {
	labels := strings.Split(name, ".")
	bad := len(labels) < 2 || len(name) > maxName
	for i, l := range labels {
		bad = bad || len(l) == 0 || len(l) > 63 || (l != "*" || i > 0) && strings.Trim(l, "abcdefghijklmnopqrstuvwxyz0123456789-_") != ""
	}
	if !bad {
		return ""
	}
	return fmt.Sprintf("it is not a valid DNS name; a name has labels of letters, digits and hyphens, and at most %d characters", maxName)
}

// desired returns the collected names.
func (c *collection) desired() Desired {
	d := Desired{Requesters: c.requesters}
	for k, values := range c.values {
		s := records.NewSet(k.Name, k.Type, records.TTL, values...)
		if k.Type == records.CNAME {
			if len(c.values[records.Key{Name: k.Name, Type: records.A}])+len(c.values[records.Key{Name: k.Name, Type: records.AAAA}]) > 0 {
				c.limit(k.Name, "it has both addresses and a target name, "+s.Values[0]+"; only the addresses are published")
				continue
			}
			if len(s.Values) > 1 {
				c.limit(k.Name, "it would point to several names, and only the first is published: "+strings.Join(s.Values, ", "))
				s.Values = s.Values[:1]
			}
		}
		if n := len(s.Values); n > maxValues {
			c.limit(k.Name, fmt.Sprintf("it has %d addresses, and only %d are published; a load balancer has fewer", n, maxValues))
			s.Values = s.Values[:maxValues]
		}
		d.Sets = append(d.Sets, s)
	}
	slices.SortFunc(d.Sets, func(a, b records.Set) int { return records.CompareKeys(a.Key, b.Key) })
	d.Refused = slices.SortedFunc(maps.Keys(c.refused), compareRefusals)
	return d
}

// limit records that a name does not get everything that its objects request.
func (c *collection) limit(name, why string) { c.refused[Refusal{Name: name, Why: why}] = true }

func compareRefusals(a, b Refusal) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Why, b.Why), compareObjects(a.Object, b.Object))
}

func compareObjects(a, b Object) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}

// internal returns those of the addresses that machines of the cluster use.
func (c *collection) internal(ips []string) []string {
	return slices.DeleteFunc(slices.Clone(ips), func(ip string) bool {
		a, err := netip.ParseAddr(ip)
		return err != nil || a.Is4() && !c.Families.IPv4 || a.Is6() && !c.Families.IPv6
	})
}

// names parses an annotation.
func names(list string) []string {
	var out []string
	for name := range strings.SplitSeq(list, ",") {
		if name = records.Canonical(name); name != "" {
			out = append(out, name)
		}
	}
	return out
}

// addresses returns a node's addresses of one type.
func addresses(n *corev1.Node, t corev1.NodeAddressType) []string {
	var out []string
	for _, a := range n.Status.Addresses {
		if a.Type == t {
			out = append(out, a.Address)
		}
	}
	return out
}

// externalOf returns the addresses at which a node is reachable from outside. An IPv6
// address needs no separate external address.
func externalOf(n *corev1.Node) []string {
	out := addresses(n, corev1.NodeExternalIP)
	for _, ip := range addresses(n, corev1.NodeInternalIP) {
		if a, err := netip.ParseAddr(ip); err == nil && a.Is6() {
			out = append(out, ip)
		}
	}
	return out
}

// isWorker reports whether a node is a worker, as a node without a role is, too.
func isWorker(n *corev1.Node) bool {
	_, plane := n.Labels[labels.ControlPlane]
	_, api := n.Labels[labels.APIServer]
	return !plane && !api
}
