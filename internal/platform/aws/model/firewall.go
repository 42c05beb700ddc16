package model

import (
	"slices"
	"strconv"
	"strings"

	"kops.local/kops/api"
)

// rules returns all firewall rules of a cluster.
func (m *model) rules() []rule {
	rules := m.egressRules()
	rules = append(rules, m.internalRules()...)
	rules = append(rules, m.sshRules()...)
	rules = append(rules, m.nodePortRules()...)
	if m.apiLB == nil {
		for _, cidr := range m.spec.API.Access {
			for _, cp := range m.controlPlaneGroups() {
				rules = append(rules, rule{group: cp, peer: peer{cidr: cidr}, protocol: "tcp", from: portHTTPS, to: portHTTPS})
			}
		}
	} else {
		rules = append(rules, m.apiAccessRules()...)
		rules = append(rules, m.apiTargetRules()...)
	}
	if m.bastionLB != nil {
		rules = append(rules, m.bastionRules()...)
	}
	return rules
}

// egressRules allow all outgoing traffic.
func (m *model) egressRules() []rule {
	groups := slices.Concat(m.controlPlaneGroups(), m.nodeGroups(), m.bastionGroups())
	for _, lb := range []*loadBalancer{m.apiLB, m.bastionLB} {
		if lb != nil {
			groups = append(groups, lb.group)
		}
	}
	var rules []rule
	for _, g := range groups {
		for _, cidr := range []string{anyIPv4, anyIPv6} {
			rules = append(rules, rule{group: g, egress: true, peer: peer{cidr: cidr}})
		}
	}
	return rules
}

// internalRules allow all traffic between machines of the cluster, except from nodes to the ports
// reserved for control planes.
func (m *model) internalRules() []rule {
	nodes, planes := m.nodeGroups(), m.controlPlaneGroups()
	rules := rulesBetween(nodes, nodes, rule{})
	rules = append(rules, rulesBetween(planes, planes, rule{})...)
	rules = append(rules, rulesBetween(planes, nodes, rule{})...)
	for _, gap := range portGaps(m.blockedPorts()) {
		rules = append(rules, rulesBetween(nodes, planes, rule{protocol: "tcp", from: gap.from, to: gap.to})...)
	}
	rules = append(rules, rulesBetween(nodes, planes, rule{protocol: "udp", from: 1, to: 65535})...)
	net := m.spec.Networking
	if net.Calico != nil || net.KubeRouter != nil {
		rules = append(rules, rulesBetween(nodes, planes, rule{protocol: ipInIP})...)
	}
	if net.AmazonVPC != nil { // pods on both have addresses of the VPC
		rules = append(rules, rulesBetween(nodes, planes, rule{})...)
	}
	return rules
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

// blockedPorts returns the TCP ports of control planes that nodes must not reach: etcd's. The ports
// of etcd-manager stay open, as in clusters that kOps created: the names of the rules contain the
// gaps, so other gaps would close and reopen every range in a running cluster. Those ports are
// protected by certificates of a separate authority.
func (m *model) blockedPorts() []int {
	ports := []int{2380, 2381, 4001, 4002}
	if m.hasEtcd("leases") {
		ports = append(ports, 2383, 4004)
	}
	if m.ciliumEtcd() {
		ports = append(ports, 2382)
	}
	return ports
}

func (m *model) hasEtcd(name string) bool {
	return slices.ContainsFunc(m.spec.EtcdClusters, func(e api.EtcdClusterSpec) bool { return e.Name == name })
}

// ciliumEtcd reports whether Cilium on the nodes uses its own etcd on control planes.
func (m *model) ciliumEtcd() bool {
	return m.spec.Networking.Cilium != nil && m.spec.Networking.Cilium.EtcdManaged
}

// sshRules allow users' SSH access, directly if there is no bastion.
func (m *model) sshRules() []rule {
	ssh := rule{protocol: "tcp", from: portSSH, to: portSSH}
	machines := slices.Concat(m.controlPlaneGroups(), m.nodeGroups())
	if m.hasBastion() {
		return rulesBetween(m.bastionGroups(), machines, ssh)
	}
	var rules []rule
	for _, cidr := range m.spec.SSHAccess {
		rules = append(rules, rulesFrom(cidr, machines, ssh)...)
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

// nodePortRules allow users to reach services of type NodePort.
func (m *model) nodePortRules() []rule {
	first, last := m.nodePorts()
	var rules []rule
	for _, cidr := range m.spec.NodePortAccess {
		for _, protocol := range []string{"tcp", "udp"} {
			for _, g := range m.nodeGroups() {
				rules = append(rules, rule{name: "nodeport-" + protocol + "-external-to-node-" + cidr + g.suffix,
					group: g, peer: peer{cidr: cidr}, protocol: protocol, from: first, to: last})
			}
		}
	}
	return rules
}

// nodePorts returns the range of node ports, Kubernetes' default unless the spec has one.
func (m *model) nodePorts() (first, last int) {
	first, last = 30000, 32767
	if a := m.spec.KubeAPIServer; a != nil {
		low, high, _ := strings.Cut(a.ServiceNodePortRange, "-")
		if f, err := strconv.Atoi(strings.TrimSpace(low)); err == nil {
			if l, err := strconv.Atoi(strings.TrimSpace(high)); err == nil {
				first, last = f, l
			}
		}
	}
	return first, last
}

// apiAccessRules allow users to reach the API's load balancer.
func (m *model) apiAccessRules() []rule {
	var rules []rule
	lb := []securityGroup{m.apiLB.group}
	for _, cidr := range m.spec.API.Access {
		rules = append(rules, rulesFrom(cidr, lb, rule{protocol: "tcp", from: portHTTPS, to: portHTTPS})...)
		if m.apiLB.spec.SSLCertificate != "" {
			rules = append(rules, rulesFrom(cidr, lb, rule{protocol: "tcp", from: portHTTPSPassed, to: portHTTPSPassed})...)
		}
		rules = append(rules, pathMTU("api-elb", cidr, m.apiLB.group)...)
	}
	if m.apiLB.registersInstances {
		for _, g := range m.nodeGroups() {
			rules = append(rules, rule{name: "node-to-elb" + g.suffix, group: m.apiLB.group, peer: peer{group: &g}})
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

// apiTargetRules allow the API's load balancer to reach control planes.
func (m *model) apiTargetRules() []rule {
	var rules []rule
	lb := peer{group: &m.apiLB.group}
	for _, cp := range m.controlPlaneGroups() {
		tcp := func(name string, port int) rule {
			return rule{name: name + cp.suffix, group: cp, peer: lb, protocol: "tcp", from: port, to: port}
		}
		into, back := tooBigV4(), tooBigV4()
		into.name, into.group, into.peer = "icmp-pmtu-elb-to-cp"+cp.suffix, cp, lb
		back.name, back.group, back.peer = "icmp-pmtu-cp"+cp.suffix+"-to-elb", m.apiLB.group, peer{group: &cp}
		rules = append(rules, tcp("https-elb-to-master", portHTTPS), into, back)
		if m.apiLB.spec.SSLCertificate != "" {
			rules = append(rules, tcp("tcp-api-cp", portHTTPSPassed))
		}
		if m.apiLB.registersInstances {
			rules = append(rules, tcp("kops-controller-elb-to-cp", portKopsController))
			if m.ciliumEtcd() {
				rules = append(rules, tcp("etcd-cilium-elb-to-cp", portEtcdCilium))
			}
		}
	}
	return rules
}

// bastionRules allow users to reach the bastions' load balancer, and the load balancer to reach the
// bastions. Health checks come from its own subnets.
func (m *model) bastionRules() []rule {
	ssh := rule{protocol: "tcp", from: portSSH, to: portSSH}
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
