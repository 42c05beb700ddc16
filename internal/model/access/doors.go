package access

import (
	"slices"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/ports"
)

// Door is a port at which others reach the control plane: on the load balancer of the API and, with
// the same number, on the machines behind it.
type Door struct {
	// Name is unique in a cluster.
	Name string
	Port int
	// Health is a path that answers over TLS, with status 200 and without credentials, if the machine
	// serves. If empty, one that accepts connections does.
	Health string
	// Clients may connect, in addition to health checks.
	Clients []Party
	// Backends are the machines that serve.
	Backends Party
}

// Doors returns the doors of a cluster's control plane, the API's first. If DNS publishes names, the
// others are open on the machines themselves, to which their names lead.
func Doors(c *api.Cluster) []Door {
	all := allDoors()
	switch {
	case c.Spec.DNSType() != api.DNSNone:
		all[0].Clients = []Party{Users}
		return all[:1]
	case !CiliumEtcd(&c.Spec):
		return all[:2]
	}
	return all
}

// DoorPorts returns the ports of every door that a cluster may have.
func DoorPorts() []int {
	var out []int
	for _, d := range allDoors() {
		out = append(out, d.Port)
	}
	return out
}

func allDoors() []Door {
	return []Door{
		{Name: "api", Port: ports.API, Clients: []Party{Users, Nodes, APIServers}, Backends: Servers},
		{Name: "kops-controller", Port: ports.Controller, Health: "/healthz", Clients: []Party{Nodes, APIServers}, Backends: ControlPlanes},
		CiliumEtcdDoor(),
	}
}

// CiliumEtcdDoor returns the door at which Cilium's agents reach their etcd.
func CiliumEtcdDoor() Door {
	etcd, _ := ports.OfEtcd("cilium") // it is known
	return Door{Name: "cilium-etcd", Port: etcd.Client, Clients: []Party{Nodes, APIServers}, Backends: ControlPlanes}
}

// serving returns how users reach the API, and what reaches the doors of its load balancer.
func serving(c *api.Cluster, groups []*api.InstanceGroup) []Flow {
	users := Flow{From: Users, To: Servers, Ranges: c.Spec.API.Access, Protocol: TCP, Ports: Port(ports.API), Why: "API"}
	if c.Spec.API.LoadBalancer == nil {
		return []Flow{users}
	}
	users.To = Balancer
	flows := []Flow{users}
	doors := Doors(c)
	for _, from := range []Party{Nodes, APIServers} {
		if from == APIServers && len(GroupsOf(groups, api.RoleAPIServer)) == 0 {
			continue
		}
		for _, d := range doors {
			if slices.Contains(d.Clients, from) {
				flows = append(flows, Flow{From: from, To: Balancer, Protocol: TCP, Ports: Port(d.Port), Why: d.Name})
			}
		}
	}
	for _, d := range doors {
		flows = append(flows, Flow{From: Balancer, To: d.Backends, Protocol: TCP, Ports: Port(d.Port), Why: d.Name})
	}
	return flows
}
