package access_test

import (
	"fmt"
	"slices"
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/model/access"
)

func cluster(change func(*api.ClusterSpec)) *api.Cluster {
	c := &api.Cluster{Spec: api.ClusterSpec{
		API: api.APISpec{Access: []string{"192.0.2.0/24"}}, SSHAccess: []string{"198.51.100.0/24", "2001:db8::/32"}, NodePortAccess: []string{"0.0.0.0/0"},
		Networking: api.NetworkingSpec{PodCIDR: "100.96.0.0/11", Topology: &api.TopologySpec{DNS: api.DNSNone}, Cilium: &api.CiliumNetworkingSpec{}},
	}}
	change(&c.Spec)
	return c
}

func groups(roles ...api.InstanceGroupRole) []*api.InstanceGroup {
	var out []*api.InstanceGroup
	for i, r := range roles {
		g := &api.InstanceGroup{Spec: api.InstanceGroupSpec{Role: r}}
		g.Name = fmt.Sprint(len(roles)-i, r)
		out = append(out, g)
	}
	return out
}

// A cloud of single servers whose private network is not filtered has two firewalls, for what users may
// reach, and a load balancer with a service for each door.
func ExampleFlows() {
	c := cluster(func(*api.ClusterSpec) {})
	firewalls := map[access.Party]string{access.Servers: "control-plane", access.Nodes: "nodes"}
	for _, f := range access.Flows(c, groups(api.RoleControlPlane, api.RoleNode)) {
		if name := firewalls[f.To]; f.From == access.Users && name != "" && len(f.Ranges) > 0 {
			fmt.Println("firewall", name, "in", f.Protocol, f.Ports, f.Ranges)
		}
	}
	for _, d := range access.Doors(c) {
		fmt.Println("service tcp", d.Port, "of", d.Backends)
	}
	// Output:
	// firewall control-plane in tcp 22 [198.51.100.0/24 2001:db8::/32]
	// firewall nodes in tcp 22 [198.51.100.0/24 2001:db8::/32]
	// firewall nodes in tcp 30000-32767 [0.0.0.0/0]
	// firewall nodes in udp 30000-32767 [0.0.0.0/0]
	// firewall control-plane in tcp 443 [192.0.2.0/24]
	// service tcp 443 of servers
	// service tcp 3988 of control planes
}

// flow writes a flow in a line.
func flow(f access.Flow) string {
	return fmt.Sprint(f.From, f.Ranges, " → ", f.To, " ", f.Protocol, " ", f.Ports)
}

// base are the flows of the cluster without changes.
func base() []string {
	return []string{
		"nodes[] → nodes  0", "servers[] → servers  0", "servers[] → nodes  0",
		"nodes[] → servers tcp 443", "nodes[] → servers tcp 10250", "nodes[] → servers tcp 3988", "nodes[] → servers tcp 10257",
		"nodes[] → servers tcp 10259", "nodes[] → servers tcp 10249", "nodes[] → servers tcp 9100", "nodes[] → servers udp 8472",
		"users[198.51.100.0/24 2001:db8::/32] → servers tcp 22", "users[198.51.100.0/24 2001:db8::/32] → nodes tcp 22",
		"users[0.0.0.0/0] → nodes tcp 30000-32767", "users[0.0.0.0/0] → nodes udp 30000-32767",
		"users[192.0.2.0/24] → servers tcp 443",
	}
}

// TestFlows: each change of the cluster adds some flows to the table, and removes others.
func TestFlows(t *testing.T) {
	network := func(n api.NetworkingSpec) func(*api.ClusterSpec) {
		return func(s *api.ClusterSpec) {
			n.PodCIDR, n.Topology = s.Networking.PodCIDR, s.Networking.Topology
			s.Networking = n
		}
	}
	const vxlan, podsToNodes = "nodes[] → servers udp 8472", "pods[100.96.0.0/11] → nodes  0"
	atBalancer := []string{"users[192.0.2.0/24] → load balancer tcp 443", "nodes[] → load balancer tcp 443", "nodes[] → load balancer tcp 3988", "load balancer[] → servers tcp 443", "load balancer[] → control planes tcp 3988"}
	for name, c := range map[string]struct {
		change       func(*api.ClusterSpec)
		roles        []api.InstanceGroupRole
		more, missed []string
	}{
		"nothing":     {},
		"kubenet":     {change: network(api.NetworkingSpec{Kubenet: &api.KubenetNetworkingSpec{}}), more: []string{podsToNodes}, missed: []string{vxlan}},
		"kindnet":     {change: network(api.NetworkingSpec{Kindnet: &api.KindnetNetworkingSpec{}}), more: []string{podsToNodes, "pods[100.96.0.0/11] → servers tcp 443"}, missed: []string{vxlan}},
		"kube-router": {change: network(api.NetworkingSpec{KubeRouter: &api.KuberouterNetworkingSpec{}}), more: []string{"nodes[] → servers ipip 0", "nodes[] → servers tcp 179"}, missed: []string{vxlan}},
		"Calico":      {change: network(api.NetworkingSpec{Calico: &api.CalicoNetworkingSpec{EncapsulationMode: "vxlan"}}), more: []string{"nodes[] → servers ipip 0", "nodes[] → servers tcp 179", "nodes[] → servers udp 4789"}, missed: []string{vxlan}},
		"flannel":     {change: network(api.NetworkingSpec{Flannel: &api.FlannelNetworkingSpec{Backend: "vxlan"}})},
		"flannel UDP": {change: network(api.NetworkingSpec{Flannel: &api.FlannelNetworkingSpec{}}), more: []string{"nodes[] → servers udp 8285"}, missed: []string{vxlan}},
		"VPC":         {change: network(api.NetworkingSpec{AmazonVPC: &api.AmazonVPCNetworkingSpec{}}), more: []string{"nodes[] → servers  0"}, missed: []string{vxlan}},
		"geneve":      {change: func(s *api.ClusterSpec) { s.Networking.Cilium.Tunnel = "geneve" }, more: []string{"nodes[] → servers udp 6081"}},
		"etcd":        {change: func(s *api.ClusterSpec) { s.Networking.Cilium.EtcdManaged = true }, more: []string{"nodes[] → servers tcp 4003"}},
		"no users": {change: func(s *api.ClusterSpec) { s.SSHAccess = nil }, more: []string{"users[] → servers tcp 22", "users[] → nodes tcp 22"},
			missed: []string{"users[198.51.100.0/24 2001:db8::/32] → servers tcp 22", "users[198.51.100.0/24 2001:db8::/32] → nodes tcp 22"}},
		"bastions": {roles: []api.InstanceGroupRole{api.RoleBastion}, more: []string{"users[198.51.100.0/24 2001:db8::/32] → bastions tcp 22", "bastions[] → servers tcp 22", "bastions[] → nodes tcp 22"},
			missed: []string{"users[198.51.100.0/24 2001:db8::/32] → servers tcp 22", "users[198.51.100.0/24 2001:db8::/32] → nodes tcp 22"}},
		"API servers":   {roles: []api.InstanceGroupRole{api.RoleAPIServer}},
		"load balancer": {change: func(s *api.ClusterSpec) { s.API.LoadBalancer = &api.LoadBalancerAccessSpec{} }, more: atBalancer, missed: []string{"users[192.0.2.0/24] → servers tcp 443"}},
		"load balancer, API servers, etcd": {change: func(s *api.ClusterSpec) {
			s.API.LoadBalancer, s.Networking.Cilium.EtcdManaged = &api.LoadBalancerAccessSpec{}, true
		}, roles: []api.InstanceGroupRole{api.RoleAPIServer}, more: append([]string{"nodes[] → servers tcp 4003", "nodes[] → load balancer tcp 4003", "load balancer[] → control planes tcp 4003",
			"API servers[] → load balancer tcp 443", "API servers[] → load balancer tcp 3988", "API servers[] → load balancer tcp 4003"}, atBalancer...), missed: []string{"users[192.0.2.0/24] → servers tcp 443"}},
		"load balancer with names": {change: func(s *api.ClusterSpec) {
			s.API.LoadBalancer, s.Networking.Topology = &api.LoadBalancerAccessSpec{}, nil
		}, more: []string{atBalancer[0], atBalancer[3]}, missed: []string{"users[192.0.2.0/24] → servers tcp 443"}},
	} {
		if c.change == nil {
			c.change = func(*api.ClusterSpec) {}
		}
		want := map[string]int{}
		for _, f := range append(base(), c.more...) {
			want[f]++
		}
		for _, f := range c.missed {
			want[f]--
		}
		for _, f := range access.Flows(cluster(c.change), groups(append([]api.InstanceGroupRole{api.RoleControlPlane, api.RoleNode}, c.roles...)...)) {
			want[flow(f)]--
			if f.Why == "" {
				t.Errorf("%s: %s has no reason", name, flow(f))
			}
		}
		for f, n := range want {
			if n != 0 {
				t.Errorf("%s: %s: %d times too few", name, f, n)
			}
		}
	}
}

func TestDoors(t *testing.T) {
	ports := func(change func(*api.ClusterSpec)) (out []int) {
		for _, d := range access.Doors(cluster(change)) {
			out = append(out, d.Port)
		}
		return out
	}
	withEtcd := func(s *api.ClusterSpec) { s.Networking.Cilium.EtcdManaged = true }
	if got := ports(func(*api.ClusterSpec) {}); !slices.Equal(got, []int{443, 3988}) {
		t.Error(got)
	}
	if got := ports(withEtcd); !slices.Equal(got, access.DoorPorts()) || !slices.Equal(got, []int{443, 3988, 4003}) {
		t.Error(got)
	}
	if got := ports(func(s *api.ClusterSpec) { withEtcd(s); s.Networking.Topology.DNS = api.DNSPrivate }); !slices.Equal(got, []int{443}) {
		t.Errorf("with names: %v", got)
	}
}

func TestNodePorts(t *testing.T) {
	for text, want := range map[string]access.Range{"": access.Ports(30000, 32767), "28000-29000": access.Ports(28000, 29000), "28000+10": access.Ports(28000, 28010), "31000": access.Port(31000)} {
		s := &api.ClusterSpec{KubeAPIServer: &api.KubeAPIServerConfig{ServiceNodePortRange: text}}
		if got := access.NodePorts(s); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	if got := access.NodePorts(&api.ClusterSpec{}); got != access.Ports(30000, 32767) {
		t.Error(got)
	}
}

func TestGroupsAreSorted(t *testing.T) {
	all := groups(api.RoleNode, api.RoleControlPlane, api.RoleBastion, api.RoleNode)
	var names []string
	for _, g := range access.GroupsOf(all, api.RoleNode, api.RoleBastion) {
		names = append(names, g.Name)
	}
	if !slices.Equal(names, []string{"1Node", "2Bastion", "4Node"}) || all[0].Name != "4Node" || !access.HasBastions(all) || access.HasBastions(all[:2]) {
		t.Error(names)
	}
}
