package network

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/model/access"
	"kops.local/kops/internal/platform/local/localcloud"
	"kops.local/kops/internal/platform/local/site"
	"kops.local/kops/internal/test/accesstest"
)

const (
	testBridge  = site.BridgePrefix + "abc"
	otherBridge = site.BridgePrefix + "def"
)

// reviewed are the differences between the host's rules and the table of who may reach whom. The host
// itself is the load balancer of the API.
func reviewed() *accesstest.Judge {
	every := "all machines are on one bridge, and the host does not tell them apart: "
	doors := func(s *api.ClusterSpec) bool { return !access.CiliumEtcd(s) }
	toHost := func(p access.Protocol, port int, when func(*api.ClusterSpec) bool, why string) accesstest.Exception {
		return accesstest.Exception{To: access.Balancer, Protocol: p, Ports: access.Port(port), When: when, Why: why}
	}
	return &accesstest.Judge{
		Wider: []accesstest.Exception{
			{From: access.Nodes, To: access.Servers, Why: every + "nodes and control planes"},
			{From: access.ControlPlanes, To: access.Balancer, Protocol: access.TCP, Ports: access.Port(443), Why: every + "the API"},
			{From: access.ControlPlanes, To: access.Balancer, Protocol: access.TCP, Ports: access.Port(3988), Why: every + "kops-controller"},
			{From: access.ControlPlanes, To: access.Balancer, Protocol: access.TCP, Ports: access.Port(4003), Why: every + "Cilium's etcd"},
			toHost(access.TCP, 4003, doors, "the door of Cilium's etcd is open in every cluster"),
			toHost(access.TCP, localcloud.MirrorPort, nil, "machines fetch files and images from the host"),
			toHost(access.TCP, 53, nil, "machines ask the host's resolver, over TCP"),
			toHost(access.UDP, 53, nil, "machines ask the host's resolver"),
			{To: access.Balancer, Protocol: accesstest.ICMP, Why: "machines may ping the host"},
			{From: access.Balancer, Why: "what the host sends itself is not filtered"},
		},
		Narrower: []accesstest.Exception{
			{From: access.Users, To: access.Servers, Why: "nothing outside reaches control planes, and users of this host need no permission"},
			{From: access.Users, To: access.Nodes, Why: "nothing outside reaches nodes, and users of this host need no permission"},
			{From: access.Users, To: access.Balancer, Why: "whether others reach the host is up to its own rules"},
		},
	}
}

// Nothing in the table of who may reach whom is closed, and nothing else is open.
func TestRulesOfTheHostAreTheTable(t *testing.T) {
	cidr, judge := netip.MustParsePrefix("10.77.0.0/24"), reviewed()
	group := func(name string, role api.InstanceGroupRole) *api.InstanceGroup {
		g := &api.InstanceGroup{Spec: api.InstanceGroupSpec{Role: role}}
		g.Name = name
		return g
	}
	base := []*api.InstanceGroup{group("control-plane", api.RoleControlPlane), group("nodes", api.RoleNode)}
	for _, v := range accesstest.Variants("cni", "kubenet", "cilium vxlan", "cilium etcd", "flannel vxlan", "kuberouter") {
		c := &api.Cluster{}
		groups := v.Change(c, base)
		if len(groups) > len(base) || c.Spec.API.LoadBalancer == nil || c.Spec.DNSType() != api.DNSNone || c.Spec.IPv6Only() {
			continue // there are no such clusters on this host
		}
		var table []access.Flow
		for _, f := range access.Flows(c, groups) {
			if f.From == access.Pods { // a machine of this host has no address but its own and those of its pods
				f.From, f.Ranges = access.Nodes, nil
			}
			table = append(table, f)
		}
		judge.Check(t, v.Name, c, groups, table, open(machineRules(testBridge, cidr), Gateway(cidr).Addr().String()))
	}
	judge.Done(t)
	for name, p := range map[string]packet{
		"another cluster's machines to machines": {chain: "FORWARD", in: otherBridge, out: testBridge, protocol: "tcp", port: 10250},
		"machines to another cluster's":          {chain: "FORWARD", in: testBridge, out: otherBridge, protocol: "tcp", port: 10250},
		"others to machines":                     {chain: "FORWARD", in: "eth0", out: testBridge, protocol: "tcp", port: 443},
		"machines to another address":            {chain: "INPUT", in: testBridge, destination: "192.0.2.1", protocol: "tcp", port: 443},
	} {
		if p.isAccepted(machineRules(testBridge, cidr)) {
			t.Errorf("%s: accepted", name)
		}
	}
	if p := (packet{chain: "FORWARD", in: testBridge, out: "eth0", protocol: "udp", port: 123}); !p.isAccepted(machineRules(testBridge, cidr)) {
		t.Error("machines do not reach the world")
	}
}

// packet is the first packet of a connection that the host's firewall sees.
type packet struct {
	chain, in, out, destination string
	protocol                    access.Protocol
	port                        int
}

// open returns what rules accept: between machines, and to the host's address in their network. What the
// host sends itself is not filtered.
func open(rules []rule, gateway string) []access.Flow {
	machines := []access.Party{access.ControlPlanes, access.Nodes}
	var out []access.Flow
	for _, to := range machines {
		out = append(out, access.Flow{From: access.Balancer, To: to})
	}
	for _, protocol := range []access.Protocol{access.TCP, access.UDP, access.IPIP, accesstest.ICMP, accesstest.ICMPv6, "esp", "ah", "sctp", accesstest.Other} {
		last := 1
		if protocol == access.TCP || protocol == access.UDP {
			last = 65535
		}
		between, toHost := packet{chain: "FORWARD", in: testBridge, out: testBridge, protocol: protocol}, packet{chain: "INPUT", in: testBridge, destination: gateway, protocol: protocol}
		for _, from := range machines {
			for _, ports := range accepted(between, rules, last) {
				for _, to := range machines {
					out = append(out, access.Flow{From: from, To: to, Protocol: protocol, Ports: ports})
				}
			}
			for _, ports := range accepted(toHost, rules, last) {
				out = append(out, access.Flow{From: from, To: access.Balancer, Protocol: protocol, Ports: ports})
			}
		}
	}
	return out
}

// accepted returns the ports from 1 at which packets are accepted.
func accepted(p packet, rules []rule, last int) (out []access.Range) {
	for p.port = 1; p.port <= last; p.port++ {
		if !p.isAccepted(rules) {
			continue
		}
		if n := len(out); n > 0 && out[n-1].Last == p.port-1 {
			out[n-1].Last = p.port
			continue
		}
		out = append(out, access.Port(p.port))
	}
	return out
}

// isAccepted reports whether the first rule that matches a packet accepts it.
func (p packet) isAccepted(rules []rule) bool {
	for _, r := range rules {
		if r.table == "filter" && r.chain == p.chain && p.matches(r.args) {
			return r.args[len(r.args)-1] == "ACCEPT"
		}
	}
	return false
}

func (p packet) matches(args []string) bool {
	for i := 0; i < len(args)-1; i += 2 {
		value := args[i+1]
		matches := true
		switch args[i] {
		case "-i":
			matches = isInterface(value, p.in)
		case "-o":
			matches = isInterface(value, p.out)
		case "-d":
			matches = value == p.destination
		case "-p":
			matches = value == string(p.protocol)
		case "--dport", "--dports":
			matches = slices.Contains(strings.Split(value, ","), strconv.Itoa(p.port))
		case "--ctstate":
			matches = false // the packet is the first of its connection
		case "-m", "--comment", "-j":
		default:
			panic("the option " + args[i] + " is not known to this test")
		}
		if !matches {
			return false
		}
	}
	return true
}

func isInterface(pattern, name string) bool {
	prefix, isPrefix := strings.CutSuffix(pattern, "+")
	return pattern == name || isPrefix && strings.HasPrefix(name, prefix)
}
