package model

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/ports"
	"kops.local/kops/internal/model/access"
	"kops.local/kops/internal/platform/gce/gcename"
	"kops.local/kops/internal/platform/gce/kinds"
	"kops.local/kops/internal/test/accesstest"
)

// reviewed are the differences between the firewall rules and the table of who may reach whom. Clusters
// that kOps created have these rules.
func reviewed() *accesstest.Judge {
	cilium, calico, noDNS := access.CiliumEtcdDoor().Port, func(s *api.ClusterSpec) bool { return s.Networking.Calico != nil }, func(s *api.ClusterSpec) bool { return s.DNSType() == api.DNSNone }
	const tunnels = "kOps' rules have only the tunnels of Cilium's VXLAN and of Calico without VXLAN"
	return &accesstest.Judge{
		Wider: []accesstest.Exception{
			{Ranges: probers(), To: access.Servers, Protocol: access.TCP, Why: "health checks of any port are allowed"},
			{From: access.Users, To: access.ControlPlanes, Protocol: access.TCP, Ports: access.Port(ports.Controller), When: noDNS, Why: "the balancer's door of kops-controller is open to users"},
			{From: access.Users, To: access.ControlPlanes, Protocol: access.TCP, Ports: access.Port(cilium), When: func(s *api.ClusterSpec) bool { return access.CiliumEtcd(s) }, Why: "the balancer's door of Cilium's etcd is open to users"},
			{From: access.Nodes, To: access.Servers, Protocol: access.TCP, Ports: access.Port(2382), Why: "kOps opens a port for metrics of etcd, which is the peer port of Cilium's etcd now"},
			{From: access.Nodes, To: access.Servers, Protocol: access.TCP, Ports: access.Port(2384), Why: "kOps opens a port for metrics of etcd, which nothing uses"},
		},
		Narrower: []accesstest.Exception{
			{Protocol: accesstest.ICMPv6, Why: "rules between machines list protocols, without ICMPv6"},
			{Protocol: accesstest.Other, Why: "rules between machines list protocols"},
			{Protocol: access.IPIP, When: func(s *api.ClusterSpec) bool { return !calico(s) }, Why: "rules between machines list protocols, IPIP only with Calico"},
			{From: access.Nodes, To: access.Servers, Protocol: access.TCP, Ports: access.Port(ports.BGP), When: func(s *api.ClusterSpec) bool { return s.Networking.KubeRouter != nil }, Why: tunnels + ": kube-router"},
			{From: access.Nodes, To: access.Servers, Protocol: access.UDP, When: func(s *api.ClusterSpec) bool { return s.Networking.Flannel != nil }, Why: tunnels + ": flannel"},
			{From: access.Nodes, To: access.Servers, Protocol: access.UDP, When: calico, Why: tunnels + ": Calico"},
			{From: access.Nodes, To: access.Servers, Protocol: access.UDP, Ports: access.Port(ports.Geneve), Why: tunnels + ": Cilium"},
		},
	}
}

// Nothing in the table of who may reach whom is closed, and nothing else is open.
func TestFirewallsAreTheTable(t *testing.T) {
	base, judge := changedCluster(t, ""), reviewed()
	for _, v := range accesstest.Variants(append(accesstest.Networks(), "gcp")...) {
		in := base
		in.Cluster = base.Cluster.DeepCopy()
		in.Groups = v.Change(in.Cluster, base.Groups)
		m, err := newModel(in)
		if err != nil {
			t.Fatal(err)
		}
		judge.Check(t, v.Name, in.Cluster, in.Groups, m.passedOn(access.Flows(in.Cluster, in.Groups)), m.open(t))
	}
	judge.Done(t)
}

// passedOn returns flows without the load balancer, which passes connections on with their own source.
func (m *model) passedOn(flows []access.Flow) []access.Flow {
	var out []access.Flow
	for _, f := range flows {
		if f.To == access.Balancer {
			for _, d := range access.Doors(m.Cluster) {
				if access.Port(d.Port) == f.Ports {
					f.To = d.Backends
				}
			}
		}
		if f.From == access.Balancer {
			f.From, f.Ranges = "", probers()
		}
		out = append(out, f)
	}
	return out
}

// open returns what the firewall rules allow between machines with the tags that groups have.
func (m *model) open(t *testing.T) []access.Flow {
	t.Helper()
	nodes, err := m.firewalls()
	if err != nil {
		t.Fatal(err)
	}
	party := map[api.InstanceGroupRole]access.Party{api.RoleControlPlane: access.ControlPlanes, api.RoleAPIServer: access.APIServers, api.RoleNode: access.Nodes, api.RoleBastion: access.Bastions}
	tagged := func(tags []string) (out []access.Party) {
		for _, g := range m.Groups {
			if slices.ContainsFunc(machineRoles(g), func(role string) bool { return slices.Contains(tags, gcename.Tag(role, m.name)) }) {
				out = append(out, party[g.Spec.Role])
			}
		}
		return out
	}
	var out []access.Flow
	for _, n := range nodes {
		w := n.Want.(*kinds.Firewall)
		if w.Disabled {
			continue
		}
		if v4, v6 := splitFamilies(w.SourceRanges); len(v4) > 0 && len(v6) > 0 {
			t.Errorf("%s has ranges of both families, which the API rejects", w.Name)
		}
		from := tagged(w.SourceTags)
		if len(w.SourceRanges) > 0 {
			from = append(from, access.Users)
		}
		for _, to := range tagged(w.TargetTags) {
			for _, source := range from {
				for _, a := range w.Allow {
					f := access.Flow{From: source, To: to, Protocol: access.Protocol(a.Protocol), Ports: parsePorts(t, a.Ports)}
					if source == access.Users {
						f.Ranges = w.SourceRanges
					}
					if a.Protocol == "58" {
						f.Protocol = accesstest.ICMPv6
					}
					out = append(out, f)
				}
			}
		}
	}
	return out
}

func parsePorts(t *testing.T, list []string) access.Range {
	t.Helper()
	if len(list) == 0 {
		return access.Range{}
	}
	low, high, isRange := strings.Cut(list[0], "-")
	if !isRange {
		high = low
	}
	first, err := strconv.Atoi(low)
	last, err2 := strconv.Atoi(high)
	if err != nil || err2 != nil || len(list) > 1 {
		t.Fatalf("the ports %v", list)
	}
	return access.Ports(first, last)
}
