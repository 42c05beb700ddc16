package model

import (
	"strconv"
	"strings"

	"kops.local/kops/internal/contract/ports"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/gcename"
	"kops.local/kops/internal/platform/gce/kinds"
)

// Ports that are not defined by kops.
const (
	portSSH          = 22
	portBGP          = 179
	portHTTPS        = 443
	portVXLAN        = 8472 // Cilium's
	portNodeExporter = 9100
	portProxyMetrics = 10249
	portKubelet      = 10250
	portManager      = 10257
	portScheduler    = 10259
)

// any4 and any6 contain all addresses of a family.
const any4, any6 = "0.0.0.0/0", "::/0"

// probers returns the ranges from which Google's load balancers send health checks (Cloud Load
// Balancing, "Probe IP ranges and firewall rules").
func probers() []string {
	return []string{"35.191.0.0/16", "130.211.0.0/22", "209.85.204.0/22", "209.85.152.0/22"}
}

// rule allows traffic to the machines that have one of the tags in to, from ranges, or from
// machines that have one of tags.
type rule struct {
	name   string
	ranges []string
	tags   []string
	to     []string
	allow  []kinds.Allowed
	// twin adds a second rule for the IPv6 ranges; a family's rule is disabled if it has no ranges.
	// Without twin, all ranges are of one family.
	twin bool
}

// firewalls returns the rules of the cluster's network.
func (m *model) firewalls() ([]resource.Node, error) {
	rules := m.internalRules()
	rules = append(rules, m.podRules()...)
	rules = append(rules, m.sshRules()...)
	rules = append(rules, m.apiRules()...)
	var nodes []resource.Node
	for _, r := range rules {
		if !r.twin {
			nodes = append(nodes, m.firewall(r, r.name, r.ranges))
			continue
		}
		v4, v6 := splitFamilies(r.ranges)
		nodes = append(nodes, m.firewall(r, r.name, v4))
		r.allow = toIPv6(r.allow)
		nodes = append(nodes, m.firewall(r, r.name+"-ipv6", v6))
	}
	return nodes, nil
}

func (m *model) firewall(r rule, name string, ranges []string) resource.Node {
	f := kinds.Firewall{Name: m.suffixed(name), Network: m.networkID(), Allow: r.allow,
		SourceRanges: ranges, SourceTags: r.tags, TargetTags: r.to}
	if len(ranges) == 0 && len(r.tags) == 0 { // without a source, any source would be allowed
		f.Disabled, f.SourceRanges = true, []string{any4}
		if strings.HasSuffix(name, "-ipv6") {
			f.SourceRanges = []string{any6}
		}
	}
	return kinds.Firewalls.New(f.Name, f)
}

// splitFamilies splits ranges by address family.
func splitFamilies(ranges []string) (v4, v6 []string) {
	for _, r := range ranges {
		if strings.Contains(r, ":") {
			v6 = append(v6, r)
		} else {
			v4 = append(v4, r)
		}
	}
	return v4, v6
}

// toIPv6 returns the allowed traffic with ICMP replaced by ICMPv6, which has only a number.
func toIPv6(allow []kinds.Allowed) []kinds.Allowed {
	out := make([]kinds.Allowed, len(allow))
	for i, a := range allow {
		if a.Protocol == "icmp" {
			a.Protocol = "58"
		}
		out[i] = a
	}
	return out
}

func tcp(numbers ...int) []kinds.Allowed { return allowPorts("tcp", numbers...) }
func udp(numbers ...int) []kinds.Allowed { return allowPorts("udp", numbers...) }

// allowPorts returns one entry per port.
func allowPorts(protocol string, numbers ...int) []kinds.Allowed {
	var out []kinds.Allowed
	for _, n := range numbers {
		out = append(out, kinds.Allowed{Protocol: protocol, Ports: []string{strconv.Itoa(n)}})
	}
	return out
}

// allProtocols returns every protocol that machines use among each other.
func (m *model) allProtocols() []kinds.Allowed {
	var out []kinds.Allowed
	for _, p := range []string{"tcp", "udp", "icmp", "esp", "ah", "sctp"} {
		out = append(out, kinds.Allowed{Protocol: p})
	}
	if m.spec.Networking.Calico != nil {
		out = append(out, kinds.Allowed{Protocol: "ipip"})
	}
	return out
}

// The network tags of control planes; of workers; of bastions; of all machines with an API server;
// and of those together with older control planes.
func (m *model) tagControlPlane() []string {
	return []string{gcename.Tag(gcename.ControlPlane, m.name)}
}
func (m *model) tagNode() []string    { return []string{gcename.Tag(gcename.Node, m.name)} }
func (m *model) tagBastion() []string { return []string{gcename.Tag(gcename.Bastion, m.name)} }

func (m *model) tagServers() []string {
	tags := m.tagControlPlane()
	if m.hasAPIServers() {
		tags = append(tags, gcename.Tag(gcename.APIServer, m.name))
	}
	return tags
}

func (m *model) tagMasters() []string {
	return append(m.tagServers(), gcename.Tag(gcename.Master, m.name))
}

// internalRules allow the cluster's machines to reach each other.
func (m *model) internalRules() []rule {
	return []rule{
		{name: "node-to-node", tags: m.tagNode(), to: m.tagNode(), allow: m.allProtocols()},
		{name: "master-to-master", tags: m.tagMasters(), to: m.tagMasters(), allow: m.allProtocols()},
		{name: "master-to-node", tags: m.tagMasters(), to: m.tagNode(), allow: m.allProtocols()},
		{name: "node-to-master", tags: m.tagNode(), to: m.tagMasters(), allow: m.nodeToMaster()},
	}
}

// nodeToMaster returns what workers may reach on a control plane.
func (m *model) nodeToMaster() []kinds.Allowed {
	out := tcp(portHTTPS, portKubelet, ports.Controller, portManager, portScheduler, portProxyMetrics,
		2382, 2384, portNodeExporter) // 2382 and 2384 are etcd peer ports, which kOps uses for Cilium's etcd
	if m.spec.Networking.Calico != nil {
		out = append(append(out, kinds.Allowed{Protocol: "ipip"}), tcp(portBGP)...)
	}
	if m.spec.Networking.Cilium != nil {
		out = append(out, udp(portVXLAN)...)
	}
	if m.ciliumEtcd() {
		out = append(out, tcp(etcdPort("cilium"))...)
	}
	return out
}

// podRules allow traffic from pods that have addresses in the network.
func (m *model) podRules() []rule {
	n := m.spec.Networking
	if m.spec.IPv6Only() || n.Kubenet == nil && !m.usesAliasRanges() {
		return nil
	}
	rules := []rule{{name: "pod-cidrs-to-node", ranges: []string{n.PodCIDR}, to: m.tagNode(), allow: m.allProtocols(), twin: true}}
	if m.usesAliasRanges() {
		rules = append(rules, rule{name: "pod-cidrs-to-https-api", ranges: []string{n.PodCIDR}, to: m.tagServers(), allow: tcp(portHTTPS)})
	}
	return rules
}

// sshRules allow users to log in, directly if there is no bastion.
func (m *model) sshRules() []rule {
	ssh, access := tcp(portSSH), m.spec.SSHAccess
	if !m.hasBastion() {
		return []rule{
			{name: "ssh-external-to-master", ranges: access, to: m.tagMasters(), allow: ssh, twin: true},
			{name: "ssh-external-to-node", ranges: access, to: m.tagNode(), allow: ssh, twin: true},
		}
	}
	return []rule{
		{name: "ssh-external-to-bastion", ranges: access, to: m.tagBastion(), allow: ssh, twin: true},
		{name: "bastion-to-master-ssh", tags: m.tagBastion(), to: m.tagMasters(), allow: ssh, twin: true},
		{name: "bastion-to-node-ssh", tags: m.tagBastion(), to: m.tagNode(), allow: ssh, twin: true},
	}
}

// apiRules allow users to reach NodePort Services and the API, and machines to reach the control
// plane's services next to it.
func (m *model) apiRules() []rule {
	access := m.spec.API.Access
	rules := []rule{{name: "nodeport-external-to-node", ranges: m.spec.NodePortAccess, to: m.tagNode(), twin: true,
		allow: []kinds.Allowed{{Protocol: "tcp", Ports: []string{m.nodePorts()}}, {Protocol: "udp", Ports: []string{m.nodePorts()}}}}}
	if !m.hasLoadBalancer() {
		return append(rules, rule{name: "kubernetes-master-https", ranges: access, to: m.tagMasters(), allow: tcp(portHTTPS), twin: true})
	}
	rules = append(rules,
		rule{name: "lb-health-checks", ranges: probers(), to: m.tagServers(), allow: []kinds.Allowed{{Protocol: "tcp"}}},
		rule{name: "https-api", ranges: access, to: m.tagServers(), allow: tcp(portHTTPS), twin: true})
	if m.noDNS() {
		rules = append(rules, rule{name: "kops-controller", ranges: access, to: m.tagControlPlane(), allow: tcp(ports.Controller), twin: true})
	}
	if m.ciliumEtcd() {
		rules = append(rules, rule{name: "cilium-etcd", ranges: access, to: m.tagControlPlane(), allow: tcp(etcdPort("cilium")), twin: true})
	}
	return rules
}

// nodePorts returns the port range of NodePort Services, by default Kubernetes' own.
func (m *model) nodePorts() string {
	if a := m.spec.KubeAPIServer; a != nil && a.ServiceNodePortRange != "" {
		return strings.ReplaceAll(a.ServiceNodePortRange, " ", "")
	}
	return "30000-32767"
}
