package model

import (
	"slices"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/ports"
	"kops.local/kops/internal/model/access"
)

// rules returns all firewall rules of a cluster.
func (m *model) rules() []rule {
	rules := m.egressRules()
	for _, f := range m.flows() {
		rules = append(rules, m.flowRules(f)...)
		rules = append(rules, m.passedTLSRules(f)...)
		rules = append(rules, m.pathMTURules(f)...)
	}
	if m.bastionLB != nil {
		rules = append(rules, m.bastionRules()...)
	}
	return rules
}

// egressRules allow all outgoing traffic.
func (m *model) egressRules() []rule {
	var rules []rule
	for _, g := range m.allGroups() {
		for _, cidr := range []string{anyIPv4, anyIPv6} {
			rules = append(rules, rule{group: g, egress: true, peer: peer{cidr: cidr}})
		}
	}
	return rules
}

// flows returns the table of who may reach whom as it is on AWS: nodes reach the load balancer of the
// API at any port, and almost any port of control planes. Pods are part of their machine, whose network
// interface has the security group. For users of bastions, see bastionRules.
func (m *model) flows() []access.Flow {
	var flows []access.Flow
	for _, run := range runs(access.Flows(m.Cluster, m.Groups)) {
		switch f := run[0]; {
		case f.From == access.Pods, f.To == access.Bastions,
			f.From == access.APIServers: // validation rejects API servers that need the load balancer
			continue
		case f.From == access.Nodes && f.To == access.Balancer:
			run = []access.Flow{{From: f.From, To: f.To}}
		case f.From == access.Nodes && f.To == access.Servers:
			run = append(m.nodesToServers(), slices.DeleteFunc(run, func(f access.Flow) bool { return f.Ports != access.Range{} })...)
		case f.From == access.Users:
			run = byRange(run)
		}
		flows = append(flows, run...)
	}
	return flows
}

// runs splits flows into those that follow each other from one party, to one party or for one reason.
func runs(flows []access.Flow) [][]access.Flow {
	var out [][]access.Flow
	for i, f := range flows {
		if last := len(out) - 1; i > 0 && out[last][0].From == f.From && (out[last][0].To == f.To || out[last][0].Why == f.Why) {
			out[last] = append(out[last], f)
			continue
		}
		out = append(out, []access.Flow{f})
	}
	return out
}

// byRange returns the flows of one range of addresses after another.
func byRange(flows []access.Flow) []access.Flow {
	var out []access.Flow
	for _, cidr := range flows[0].Ranges {
		for _, f := range flows {
			f.Ranges = []string{cidr}
			out = append(out, f)
		}
	}
	return out
}

// passedTLSRules return the rules of the port that passes TLS through, for a flow of a load balancer that
// terminates TLS on the usual port.
func (m *model) passedTLSRules(f access.Flow) []rule {
	if f.From != access.Balancer && f.To != access.Balancer || f.Ports != access.Port(ports.API) || m.apiLB.spec.SSLCertificate == "" {
		return nil
	}
	f.Ports = access.Port(portHTTPSPassed)
	return m.flowRules(f)
}

// nodesToServers returns the ports of control planes that nodes reach: all but etcd's.
func (m *model) nodesToServers() []access.Flow {
	var flows []access.Flow
	for _, gap := range portGaps(m.blockedPorts()) {
		flows = append(flows, access.Flow{From: access.Nodes, To: access.Servers, Protocol: access.TCP, Ports: gap})
	}
	return append(flows, access.Flow{From: access.Nodes, To: access.Servers, Protocol: access.UDP, Ports: access.Ports(1, 65535)})
}

// blockedPorts returns the TCP ports of control planes that nodes must not reach: etcd's. The ports
// of etcd-manager stay open, as in clusters that kOps created: the names of the rules contain the
// gaps, so other gaps would close and reopen every range in a running cluster. Those ports are
// protected by certificates of a separate authority.
func (m *model) blockedPorts() []int {
	var blocked []int
	for _, name := range []string{"main", "events", "leases", "cilium"} {
		etcd, _ := ports.OfEtcd(name) // they are known
		switch {
		case name == "cilium":
			if access.CiliumEtcd(m.spec) {
				blocked = append(blocked, etcd.Peer) // its agents are clients
			}
		case name != "leases" || slices.ContainsFunc(m.spec.EtcdClusters, func(e api.EtcdClusterSpec) bool { return e.Name == name }):
			blocked = append(blocked, etcd.Client, etcd.Peer)
		}
	}
	return blocked
}

// flowRules returns the rules that allow a flow.
func (m *model) flowRules(f access.Flow) []rule {
	r := rule{protocol: string(f.Protocol), from: f.Ports.First, to: f.Ports.Last}
	if f.Protocol == access.IPIP {
		r.protocol = ipInIP
	}
	rules := rulesBetween(m.groupsFor(f.From), m.groupsFor(f.To), r)
	for _, cidr := range f.Ranges {
		rules = append(rules, rulesFrom(cidr, m.groupsFor(f.To), r)...)
	}
	for i := range rules {
		rules[i].name = fixedName(f, rules[i])
	}
	return rules
}

// fixedName returns the name of a rule of a flow, if it is not derived from the rule's ends.
func fixedName(f access.Flow, r rule) string {
	switch {
	case f.From == access.Nodes && f.To == access.Balancer:
		return "node-to-elb" + r.peer.group.suffix
	case f.From == access.Users && f.To == access.Nodes && f.Ports != access.Port(ports.SSH):
		return "nodeport-" + r.protocol + "-external-to-node-" + r.peer.cidr + r.group.suffix
	case f.From != access.Balancer:
		return ""
	}
	names := map[int]string{ports.API: "https-elb-to-master", portHTTPSPassed: "tcp-api-cp", ports.Controller: "kops-controller-elb-to-cp",
		access.CiliumEtcdDoor().Port: "etcd-cilium-elb-to-cp"}
	return names[r.from] + r.group.suffix
}

// rulesBetween returns the rule from each group in from to each group in to.
func rulesBetween(from, to []securityGroup, r rule) []rule {
	var rules []rule
	for _, dst := range to {
		for i := range from {
			r.group, r.peer = dst, peer{group: &from[i]}
			rules = append(rules, r)
		}
	}
	return rules
}

// rulesFrom returns the rule from an address range to each group.
func rulesFrom(cidr string, to []securityGroup, r rule) []rule {
	var rules []rule
	for _, dst := range to {
		r.group, r.peer = dst, peer{cidr: cidr}
		rules = append(rules, r)
	}
	return rules
}

// pathMTURules allow the messages of path MTU discovery of connections to the API's load balancer.
func (m *model) pathMTURules(f access.Flow) []rule {
	var rules []rule
	switch {
	case f.Ports != access.Port(ports.API):
	case f.From == access.Users && f.To == access.Balancer:
		for _, cidr := range f.Ranges {
			rules = append(rules, pathMTU("api-elb", cidr, m.apiLB.group)...)
		}
	case f.From == access.Balancer:
		for _, cp := range m.controlPlaneGroups() {
			into, back := tooBigV4(), tooBigV4()
			into.name, into.group, into.peer = "icmp-pmtu-elb-to-cp"+cp.suffix, cp, peer{group: &m.apiLB.group}
			back.name, back.group, back.peer = "icmp-pmtu-cp"+cp.suffix+"-to-elb", m.apiLB.group, peer{group: &cp}
			rules = append(rules, into, back)
		}
	}
	return rules
}

// pathMTU allows incoming messages of path MTU discovery from an address range. A prefix list may
// contain addresses of either family.
func pathMTU(what, cidr string, g securityGroup) []rule {
	var rules []rule
	p := peer{cidr: cidr}
	if !p.isIPv6() {
		r := tooBigV4()
		r.name = "icmp-pmtu-" + what + "-" + cidr
		rules = append(rules, rulesFrom(cidr, []securityGroup{g}, r)...)
	}
	if p.isIPv6() || p.isPrefixList() {
		r := tooBigV6()
		r.name = "icmpv6-pmtu-" + what + "-" + cidr
		rules = append(rules, rulesFrom(cidr, []securityGroup{g}, r)...)
	}
	return rules
}

// bastionRules allow users to reach the bastions' load balancer, and the load balancer to reach the
// bastions. Health checks come from its own subnets.
func (m *model) bastionRules() []rule {
	ssh := rule{protocol: "tcp", from: ports.SSH, to: ports.SSH}
	lb, bastions := []securityGroup{m.bastionLB.group}, m.bastionGroups()
	sources := slices.Clone(m.spec.SSHAccess)
	for _, s := range m.bastionLB.subnets {
		if cidr := m.subnetCIDR(s.subnet); cidr != "" {
			sources = append(sources, cidr)
		}
	}
	var rules []rule
	for _, cidr := range sources {
		rules = append(rules, rulesFrom(cidr, lb, ssh)...)
		rules = append(rules, pathMTU("ssh-nlb", cidr, m.bastionLB.group)...)
	}
	rules = append(rules, rulesBetween(lb, bastions, ssh)...)
	rules = append(rules, rulesBetween(lb, bastions, tooBigV4())...)
	return append(rules, rulesBetween(bastions, lb, tooBigV4())...)
}

// subnetCIDR returns the IPv4 range of a subnet; a shared subnet's may only be in the facts.
func (m *model) subnetCIDR(s *api.ClusterSubnetSpec) string {
	if s.CIDR != "" {
		return s.CIDR
	}
	return m.facts.Subnets[s.ID].CIDR
}
