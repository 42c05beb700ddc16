package accesstest

import (
	"slices"
	"strings"

	"kops.local/kops/api"
)

// Variant is a change to a cluster.
type Variant struct {
	Name   string
	Change func(*api.Cluster, []*api.InstanceGroup) []*api.InstanceGroup
}

// Variants returns all combinations of pod networks with the fields that decide who may reach whom. The
// first group of the cluster must be of a control plane, the second of nodes.
func Variants(networks ...string) []Variant {
	all := []Variant{{Change: func(_ *api.Cluster, g []*api.InstanceGroup) []*api.InstanceGroup { return slices.Clone(g) }}}
	for _, axis := range [][]Variant{networkings(networks), {
		spec("", func(s *api.ClusterSpec) { s.API.LoadBalancer = nil }),
		spec("load balancer", func(s *api.ClusterSpec) {
			s.API.LoadBalancer = &api.LoadBalancerAccessSpec{Type: api.LoadBalancerPublic}
		}),
	}, {
		spec("", func(s *api.ClusterSpec) { topology(s).DNS = api.DNSPublic }),
		spec("no DNS", func(s *api.ClusterSpec) { topology(s).DNS = api.DNSNone }),
	}, {
		{}, group("bastion", api.RoleBastion),
	}, {
		{}, group("API servers", api.RoleAPIServer),
	}, {
		spec("", func(s *api.ClusterSpec) { setUsers(s, []string{"0.0.0.0/0"}, nil) }),
		spec("both families, leases", func(s *api.ClusterSpec) {
			setUsers(s, []string{"192.0.2.0/24", "2001:db8::/32"}, []string{"198.51.100.0/24", "2001:db8:1::/48"})
			s.KubeAPIServer = &api.KubeAPIServerConfig{ServiceNodePortRange: "28000-29000"}
			s.EtcdClusters = append(slices.Clone(s.EtcdClusters), api.EtcdClusterSpec{Name: "leases"})
		}),
		spec("IPv6", func(s *api.ClusterSpec) {
			setUsers(s, []string{"::/0"}, []string{"::/0"})
			s.Networking.NonMasqueradeCIDR = "::/0"
		}),
	}} {
		all = combine(all, axis)
	}
	return all
}

func combine(a, b []Variant) (out []Variant) {
	for _, x := range a {
		for _, y := range b {
			name := strings.Trim(x.Name+", "+y.Name, ", ")
			out = append(out, Variant{name, func(c *api.Cluster, g []*api.InstanceGroup) []*api.InstanceGroup {
				g = x.Change(c, g)
				if y.Change != nil {
					g = y.Change(c, g)
				}
				return g
			}})
		}
	}
	return out
}

func spec(name string, change func(*api.ClusterSpec)) Variant {
	return Variant{name, func(c *api.Cluster, g []*api.InstanceGroup) []*api.InstanceGroup { change(&c.Spec); return g }}
}

// group adds a copy of the second group, in another role.
func group(name string, role api.InstanceGroupRole) Variant {
	return Variant{name, func(_ *api.Cluster, all []*api.InstanceGroup) []*api.InstanceGroup {
		g := all[1].DeepCopy()
		g.Name, g.Spec.Role = strings.ToLower(string(role)), role
		return append(all, g)
	}}
}

func topology(s *api.ClusterSpec) *api.TopologySpec {
	if s.Networking.Topology == nil {
		s.Networking.Topology = &api.TopologySpec{}
	}
	return s.Networking.Topology
}

func setUsers(s *api.ClusterSpec, access, nodePorts []string) {
	s.SSHAccess, s.API.Access, s.NodePortAccess = access, access, nodePorts
}

// networkings returns the pod networks with the names.
func networkings(names []string) []Variant {
	var out []Variant
	for _, name := range names {
		out = append(out, spec(name, func(s *api.ClusterSpec) {
			n := &s.Networking
			n.CNI, n.Kubenet, n.Flannel, n.Calico, n.KubeRouter, n.Cilium, n.AmazonVPC, n.GCP, n.Kindnet = nil, nil, nil, nil, nil, nil, nil, nil, nil
			n.PodCIDR = "100.96.0.0/11"
			switch kind, mode, _ := strings.Cut(name, " "); kind {
			case "cni":
				n.CNI = &api.CNINetworkingSpec{}
			case "kubenet":
				n.Kubenet = &api.KubenetNetworkingSpec{}
			case "flannel":
				n.Flannel = &api.FlannelNetworkingSpec{Backend: mode}
			case "calico":
				n.Calico = &api.CalicoNetworkingSpec{EncapsulationMode: mode}
			case "kuberouter":
				n.KubeRouter = &api.KuberouterNetworkingSpec{}
			case "cilium":
				n.Cilium = &api.CiliumNetworkingSpec{EtcdManaged: mode == "etcd"}
				if n.Cilium.Tunnel = mode; mode == "etcd" {
					n.Cilium.Tunnel = "vxlan"
				}
			case "amazonvpc":
				n.AmazonVPC = &api.AmazonVPCNetworkingSpec{}
			case "gcp":
				n.GCP = &api.GCPNetworkingSpec{}
			case "kindnet":
				n.Kindnet = &api.KindnetNetworkingSpec{}
			default:
				panic("there is no network " + name)
			}
		}))
	}
	return out
}

// Networks returns the names of pod networks that run on any platform, with their tunnels.
func Networks() []string {
	return []string{"cni", "kubenet", "flannel vxlan", "flannel udp", "calico ipip", "calico vxlan", "kuberouter", "cilium vxlan", "cilium geneve", "cilium etcd", "kindnet"}
}
