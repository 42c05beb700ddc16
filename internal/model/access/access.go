// Package access is the table of who may reach whom in a cluster, and of the doors of its control
// plane. Each platform writes it in its own words, such as the rules of a firewall.
//
// The table has what comes in: machines may reach everything outside of the cluster.
//
// It must not know how a platform filters traffic, nor whether it does.
package access

import (
	"slices"
	"strconv"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/ports"
)

// Party is one end of a flow.
type Party string

// The machines of a cluster, by role, and all others.
const (
	// ControlPlanes run the whole control plane, APIServers only an API server; Servers are both.
	ControlPlanes Party = "control planes"
	APIServers    Party = "API servers"
	Servers       Party = "servers"
	Nodes         Party = "nodes"
	Bastions      Party = "bastions"
	// Users have the addresses of the flow, which may be outside of the cluster.
	Users Party = "users"
	// Pods have the addresses of the flow, in the machines' network. Other pods, and pods whose
	// machine decides what they reach, are part of the machine.
	Pods Party = "pods"
	// Balancer is the load balancer of the API. What comes from it are connections that it was sent,
	// and health checks; only health checks if it passes connections on with their own source.
	Balancer Party = "load balancer"
)

// Protocol is a protocol above IP; empty means all.
type Protocol string

// IPIP encapsulates IPv4 in IPv4 (RFC 2003).
const (
	TCP  Protocol = "tcp"
	UDP  Protocol = "udp"
	IPIP Protocol = "ipip"
)

// Range is a range of ports.
type Range struct{ First, Last int }

// Port returns the range of one port, and Ports that of several.
func Port(number int) Range       { return Range{number, number} }
func Ports(first, last int) Range { return Range{first, last} }

func (r Range) String() string {
	if r.First == r.Last {
		return strconv.Itoa(r.First)
	}
	return strconv.Itoa(r.First) + "-" + strconv.Itoa(r.Last)
}

// Flow is allowed traffic: From may open connections to To.
type Flow struct {
	From, To Party
	// Ranges are the addresses of Users or Pods, as in the spec; without any, nobody may.
	Ranges   []string
	Protocol Protocol
	// Ports are the ports of TCP or UDP; zero means all.
	Ports Range
	// Why names what listens there, or what the traffic is for.
	Why string
}

// Flows returns who may reach whom in a cluster. Flows between the same parties follow each other.
func Flows(c *api.Cluster, groups []*api.InstanceGroup) []Flow {
	s := &c.Spec
	return slices.Concat(machines(s), pods(s), ssh(s, groups), nodePorts(s), serving(c, groups))
}

// machines returns the traffic between machines: everything, but nodes reach only some ports of servers.
func machines(s *api.ClusterSpec) []Flow {
	flows := []Flow{
		{From: Nodes, To: Nodes, Why: "pods, kubelets, and what users run"},
		{From: Servers, To: Servers, Why: "etcd, pods, kubelets"},
		{From: Servers, To: Nodes, Why: "kubelets, pods, webhooks"},
	}
	toServers := func(protocol Protocol, port int, why string) {
		flows = append(flows, Flow{From: Nodes, To: Servers, Protocol: protocol, Ports: Port(port), Why: why})
	}
	toServers(TCP, ports.API, "API")
	toServers(TCP, ports.Kubelet, "kubelets, for the metrics of pods")
	toServers(TCP, ports.Controller, "kops-controller, to join")
	toServers(TCP, ports.ControllerManager, "metrics of the controller manager")
	toServers(TCP, ports.Scheduler, "metrics of the scheduler")
	toServers(TCP, ports.ProxyMetrics, "metrics of kube-proxy")
	toServers(TCP, ports.NodeExporter, "metrics of machines")
	n := &s.Networking
	if n.Calico != nil || n.KubeRouter != nil {
		flows = append(flows, Flow{From: Nodes, To: Servers, Protocol: IPIP, Why: "tunnel of the pod network"})
		toServers(TCP, ports.BGP, "routes of the pod network")
	}
	for _, port := range tunnels(n) {
		toServers(UDP, port, "tunnel of the pod network")
	}
	if CiliumEtcd(s) {
		toServers(TCP, CiliumEtcdDoor().Port, "etcd of Cilium")
	}
	if n.AmazonVPC != nil {
		flows = append(flows, Flow{From: Nodes, To: Servers, Why: "pods, which have addresses of the machines' interfaces"})
	}
	return flows
}

// tunnels returns the UDP ports of the pod network's tunnels. Cilium's VXLAN is open whatever its
// tunnel is, so that a cluster can change it without being cut.
func tunnels(n *api.NetworkingSpec) []int {
	var out []int
	if k := n.Cilium; k != nil {
		out = append(out, ports.VXLAN)
		if k.Tunnel == "geneve" {
			out = append(out, ports.Geneve)
		}
	}
	if f := n.Flannel; f != nil && f.Backend == "vxlan" {
		out = append(out, ports.VXLAN)
	} else if f != nil {
		out = append(out, ports.FlannelUDP)
	}
	if k := n.Calico; k != nil && k.EncapsulationMode == "vxlan" {
		out = append(out, ports.CalicoVXLAN)
	}
	return out
}

// pods returns the traffic of pods that have addresses in the machines' network. With kubenet, they
// reach other machines' addresses under their own machine's address.
func pods(s *api.ClusterSpec) []Flow {
	n := &s.Networking
	routed := n.GCP != nil || n.Kindnet != nil
	if s.IPv6Only() || n.Kubenet == nil && !routed {
		return nil
	}
	flows := []Flow{{From: Pods, To: Nodes, Ranges: []string{n.PodCIDR}, Why: "pods of other machines"}}
	if routed {
		flows = append(flows, Flow{From: Pods, To: Servers, Ranges: []string{n.PodCIDR}, Protocol: TCP, Ports: Port(ports.API), Why: "API"})
	}
	return flows
}

// ssh returns how users log in: through bastions if the cluster has any.
func ssh(s *api.ClusterSpec, groups []*api.InstanceGroup) []Flow {
	login := Flow{From: Users, Ranges: s.SSHAccess, Protocol: TCP, Ports: Port(ports.SSH), Why: "SSH"}
	var flows []Flow
	if HasBastions(groups) {
		login.To = Bastions
		flows = append(flows, login)
		login.From, login.Ranges = Bastions, nil
	}
	for _, to := range []Party{Servers, Nodes} {
		login.To = to
		flows = append(flows, login)
	}
	return flows
}

func nodePorts(s *api.ClusterSpec) []Flow {
	flow := Flow{From: Users, To: Nodes, Ranges: s.NodePortAccess, Protocol: TCP, Ports: NodePorts(s), Why: "Services of type NodePort"}
	other := flow
	other.Protocol = UDP
	return []Flow{flow, other}
}
