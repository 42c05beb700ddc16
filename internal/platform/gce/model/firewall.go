package model

import (
	"strings"

	"kops.local/kops/internal/contract/ports"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model/access"
	"kops.local/kops/internal/platform/gce/gcename"
	"kops.local/kops/internal/platform/gce/kinds"
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
	rules := append(m.flowRules(), m.balancerRules()...)
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

// allow returns one entry of a rule; without ports, it allows all.
func allow(protocol access.Protocol, numbers access.Range) kinds.Allowed {
	a := kinds.Allowed{Protocol: string(protocol)}
	if numbers != (access.Range{}) {
		a.Ports = []string{numbers.String()}
	}
	return a
}

func tcp(port int) kinds.Allowed { return allow(access.TCP, access.Port(port)) }

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

// flowRules returns the rules for the table of who may reach whom, except at the load balancer, which
// passes connections on with their own source.
func (m *model) flowRules() []rule {
	var rules []rule
	for _, f := range access.Flows(m.Cluster, m.Groups) {
		if f.From == access.Balancer || f.To == access.Balancer || m.isClosed(f) {
			continue
		}
		name := ruleName(f)
		if last := len(rules) - 1; last >= 0 && rules[last].name == name {
			rules[last].allow = append(rules[last].allow, m.allowed(f)...)
			continue
		}
		r := rule{name: name, ranges: f.Ranges, tags: m.tags(f.From), to: m.tags(f.To), allow: m.allowed(f)}
		switch f.From {
		case access.Users, access.Bastions:
			r.twin = true
		case access.Pods:
			r.twin = f.To == access.Nodes
			if !r.twin {
				r.to = m.serverTags()
			}
		}
		rules = append(rules, r)
	}
	return rules
}

// ruleName returns the name of the rule to which a flow belongs.
func ruleName(f access.Flow) string {
	type ends [2]access.Party
	if f.Ports == access.Port(ports.SSH) {
		return map[ends]string{
			{access.Users, access.Servers}: "ssh-external-to-master", {access.Users, access.Nodes}: "ssh-external-to-node",
			{access.Users, access.Bastions}:   "ssh-external-to-bastion",
			{access.Bastions, access.Servers}: "bastion-to-master-ssh", {access.Bastions, access.Nodes}: "bastion-to-node-ssh",
		}[ends{f.From, f.To}]
	}
	return map[ends]string{
		{access.Nodes, access.Nodes}: "node-to-node", {access.Servers, access.Servers}: "master-to-master",
		{access.Servers, access.Nodes}: "master-to-node", {access.Nodes, access.Servers}: "node-to-master",
		{access.Pods, access.Nodes}: "pod-cidrs-to-node", {access.Pods, access.Servers}: "pod-cidrs-to-https-api",
		{access.Users, access.Nodes}: "nodeport-external-to-node", {access.Users, access.Servers}: "kubernetes-master-https",
	}[ends{f.From, f.To}]
}

// isClosed reports whether a flow is not allowed: the rules of clusters that kOps created have no tunnel
// from workers to control planes but Cilium's VXLAN and those of Calico without VXLAN.
func (m *model) isClosed(f access.Flow) bool {
	n := m.spec.Networking
	switch {
	case f.From != access.Nodes || f.To != access.Servers:
		return false
	case f.Protocol == access.IPIP || f.Ports == access.Port(ports.BGP):
		return n.Calico == nil
	case f.Protocol == access.UDP:
		return n.Cilium == nil || f.Ports != access.Port(ports.VXLAN)
	}
	return false
}

// allowed returns a flow's part of a rule.
func (m *model) allowed(f access.Flow) []kinds.Allowed {
	switch {
	case f.Protocol == "":
		return m.allProtocols()
	case f.Ports == access.Port(ports.NodeExporter): // kOps' rules also have ports for metrics of etcd
		return []kinds.Allowed{tcp(2382), tcp(2384), tcp(ports.NodeExporter)}
	}
	return []kinds.Allowed{allow(f.Protocol, f.Ports)}
}

// tags returns the network tags of machines; the last one of servers is for older control planes.
func (m *model) tags(p access.Party) []string {
	switch p {
	case access.Servers:
		return append(m.serverTags(), gcename.Tag(gcename.Master, m.name))
	case access.ControlPlanes:
		return []string{gcename.Tag(gcename.ControlPlane, m.name)}
	case access.Nodes:
		return []string{gcename.Tag(gcename.Node, m.name)}
	case access.Bastions:
		return []string{gcename.Tag(gcename.Bastion, m.name)}
	}
	return nil
}

func (m *model) serverTags() []string {
	tags := m.tags(access.ControlPlanes)
	if m.hasAPIServers() {
		tags = append(tags, gcename.Tag(gcename.APIServer, m.name))
	}
	return tags
}

// balancerRules allow what comes through the load balancer: health checks, and users at every door, as
// in clusters that kOps created.
func (m *model) balancerRules() []rule {
	if !m.hasLoadBalancer() {
		return nil
	}
	rules := []rule{{name: "lb-health-checks", ranges: probers(), to: m.serverTags(), allow: []kinds.Allowed{{Protocol: "tcp"}}}}
	for _, d := range m.doors() {
		r := rule{name: d.Name, ranges: m.spec.API.Access, to: m.tags(d.Backends), allow: []kinds.Allowed{tcp(d.Port)}, twin: true}
		if d.Backends == access.Servers {
			r.name, r.to = "https-api", m.serverTags()
		}
		rules = append(rules, r)
	}
	return rules
}
