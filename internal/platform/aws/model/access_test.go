package model

import (
	"slices"
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/ports"
	"kops.local/kops/internal/model/access"
	"kops.local/kops/internal/platform/aws/kinds"
	"kops.local/kops/internal/test/accesstest"
)

// bastionBalancer is the load balancer of bastions.
const bastionBalancer access.Party = "load balancer of bastions"

// balancerSubnet is the range of the subnet in which it is.
const balancerSubnet = "172.20.0.0/22"

// reviewed are the differences between the rules of security groups and the table of who may reach
// whom. Clusters that kOps created have these rules.
func reviewed() *accesstest.Judge {
	noDNS := func(s *api.ClusterSpec) bool { return s.DNSType() == api.DNSNone }
	tls := func(s *api.ClusterSpec) bool {
		return s.API.LoadBalancer != nil && s.API.LoadBalancer.SSLCertificate != ""
	}
	noLeases := func(s *api.ClusterSpec) bool {
		return !slices.ContainsFunc(s.EtcdClusters, func(e api.EtcdClusterSpec) bool { return e.Name == "leases" })
	}
	toServers := func(protocol access.Protocol, first, last int, when func(*api.ClusterSpec) bool, why string) accesstest.Exception {
		return accesstest.Exception{From: access.Nodes, To: access.Servers, Protocol: protocol, Ports: access.Ports(first, last), When: when, Why: "nodes reach every port of servers but etcd's: " + why}
	}
	const (
		mtu   = "messages of path MTU discovery: "
		group = "the security group of control planes is also that of API servers: "
	)
	return &accesstest.Judge{
		Wider: []accesstest.Exception{
			toServers(access.TCP, 1, 2379, nil, "up to main's peers"),
			toServers(access.TCP, 2382, 2382, func(s *api.ClusterSpec) bool { return !access.CiliumEtcd(s) }, "without Cilium's peers"),
			toServers(access.TCP, 2383, 2383, noLeases, "without peers of leases"),
			toServers(access.TCP, 2384, 4000, nil, "up to main's clients"),
			toServers(access.TCP, 4003, 4003, nil, "clients of Cilium's etcd"),
			toServers(access.TCP, 4004, 4004, noLeases, "without clients of leases"),
			toServers(access.TCP, 4005, 65535, nil, "the rest"),
			toServers(access.UDP, 1, 65535, nil, "UDP"),
			{From: access.Nodes, To: access.Balancer, When: noDNS, Why: "nodes reach the load balancer at any port"},
			{From: access.Users, To: access.Balancer, Protocol: accesstest.ICMP, Why: mtu + "to the load balancer"},
			{From: access.Users, To: access.Balancer, Protocol: accesstest.ICMPv6, Why: mtu + "to the load balancer, IPv6"},
			{From: access.Servers, To: access.Balancer, Protocol: accesstest.ICMP, Why: mtu + "from API servers"},
			{From: access.Balancer, To: access.Servers, Protocol: accesstest.ICMP, Why: mtu + "to API servers"},
			{From: access.Users, To: bastionBalancer, Protocol: accesstest.ICMP, Why: mtu + "to the load balancer of bastions"},
			{From: access.Users, To: bastionBalancer, Protocol: accesstest.ICMPv6, Why: mtu + "to the load balancer of bastions, IPv6"},
			{From: bastionBalancer, To: access.Bastions, Protocol: accesstest.ICMP, Why: mtu + "to bastions"},
			{From: access.Bastions, To: bastionBalancer, Protocol: accesstest.ICMP, Why: mtu + "from bastions"},
			{Ranges: []string{balancerSubnet}, To: bastionBalancer, Protocol: access.TCP, Ports: access.Port(ports.SSH), Why: "health checks of the load balancer of bastions"},
			{From: access.Balancer, To: access.APIServers, Protocol: access.TCP, Ports: access.Port(ports.Controller), When: noDNS, Why: group + "kops-controller"},
			{From: access.Balancer, To: access.APIServers, Protocol: access.TCP, Ports: access.Port(access.CiliumEtcdDoor().Port), When: noDNS, Why: group + "Cilium's etcd"},
			{From: access.Users, To: access.Balancer, Protocol: access.TCP, Ports: access.Port(portHTTPSPassed), When: tls, Why: "TLS is passed through at another port"},
			{From: access.Balancer, To: access.Servers, Protocol: access.TCP, Ports: access.Port(portHTTPSPassed), When: tls, Why: "kOps' rule for the port at which TLS is passed through"},
		},
		Narrower: []accesstest.Exception{
			{From: access.APIServers, To: access.Balancer, Why: "validation rejects API servers that need the load balancer"},
		},
	}
}

// Nothing in the table of who may reach whom is closed, and nothing else is open.
func TestSecurityGroupsAreTheTable(t *testing.T) {
	base, judge := read(t, aCluster().Documents(t, map[string]string{"groups": baseGroups, "cluster": `
subnets:
- {name: us-test-1a, cidr: 172.20.32.0/19, type: Private, zone: us-test-1a}
- {name: utility, cidr: ` + balancerSubnet + `, type: Utility, zone: us-test-1a}
`})), reviewed()
	for _, certificate := range []string{"", "arn:aws:acm:us-test-1:000000000000:certificate/123"} {
		for _, v := range accesstest.Variants(append(accesstest.Networks(), "amazonvpc")...) {
			in := base
			in.Cluster = base.Cluster.DeepCopy()
			in.Groups = v.Change(in.Cluster, base.Groups)
			if lb := in.Cluster.Spec.API.LoadBalancer; lb != nil {
				lb.SSLCertificate = certificate
			} else if certificate != "" {
				continue
			}
			m, err := newModel(in)
			if err != nil {
				t.Fatal(err)
			}
			judge.Check(t, v.Name+" "+certificate, in.Cluster, in.Groups, bySecurityGroups(access.Flows(in.Cluster, in.Groups)), m.open(t))
		}
	}
	judge.Done(t)
}

// bySecurityGroups returns flows without pods, whose machine's network interface has the security group,
// and with the load balancer of bastions.
func bySecurityGroups(flows []access.Flow) []access.Flow {
	var out []access.Flow
	for _, f := range flows {
		switch {
		case f.From == access.Pods:
			f.From, f.Ranges = access.Nodes, nil
		case f.To == access.Bastions:
			behind := f
			behind.From, behind.Ranges = bastionBalancer, nil
			out = append(out, behind)
			f.To = bastionBalancer
		}
		out = append(out, f)
	}
	return out
}

// open returns what the rules of security groups allow, between machines and load balancers with the
// groups that they have. It also checks that all of them may reach everything outside.
func (m *model) open(t *testing.T) []access.Flow {
	t.Helper()
	party := map[api.InstanceGroupRole]access.Party{api.RoleControlPlane: access.ControlPlanes, api.RoleAPIServer: access.APIServers, api.RoleNode: access.Nodes, api.RoleBastion: access.Bastions}
	in := map[string][]access.Party{}
	for _, g := range m.Groups {
		id := m.securityGroupIDs(g)[0].String()
		in[id] = append(in[id], party[g.Spec.Role])
	}
	for lb, p := range map[*loadBalancer]access.Party{m.apiLB: access.Balancer, m.bastionLB: bastionBalancer} {
		if lb != nil {
			in[lb.group.id().String()] = []access.Party{p}
		}
	}
	nodes, err := m.securityGroups()
	if err != nil {
		t.Fatal(err)
	}
	var out []access.Flow
	outside := map[string]int{}
	for _, n := range nodes {
		w, isRule := n.Want.(*kinds.SecurityGroupRule)
		switch {
		case !isRule:
		case w.Type == "egress":
			outside[w.Group.String()]++
		default:
			for _, to := range in[w.Group.String()] {
				out = append(out, openTo(w, to, in[w.Source.String()])...)
			}
		}
	}
	for id := range in {
		if outside[id] != 2 {
			t.Errorf("%s has %d rules for what leaves it, not one for each family", id, outside[id])
		}
	}
	return out
}

// openTo returns what a rule allows.
func openTo(w *kinds.SecurityGroupRule, to access.Party, sources []access.Party) (out []access.Flow) {
	f := access.Flow{To: to, Protocol: access.Protocol(w.Protocol)}
	switch w.Protocol {
	case "-1":
		f.Protocol = ""
	case ipInIP:
		f.Protocol = access.IPIP
	case "tcp", "udp":
		f.Ports = access.Ports(w.FromPort, w.ToPort)
	}
	for _, f.From = range sources {
		out = append(out, f)
	}
	if f.Ranges = slices.Concat(w.CIDRs, w.IPv6CIDRs, w.PrefixLists); len(f.Ranges) > 0 {
		f.From = access.Users
		out = append(out, f)
	}
	return out
}
