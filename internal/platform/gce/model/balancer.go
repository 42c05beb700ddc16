package model

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/ports"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model/access"
	"kops.local/kops/internal/platform/gce/kinds"
)

// internalRule is an internal forwarding rule, in each subnet that has API servers, to ports of a backend
// service's machines.
type internalRule struct {
	name    string // prefix of the rules' names, before the subnet's name
	address string // prefix of the addresses' names; several fronts may share an address
	backend string
	ports   []string
}

// backendService is a backend service: the machines of some groups, and how their health is checked.
type backendService struct {
	name, check string
	groups      []*api.InstanceGroup
	tcp, ssl    *kinds.CheckPort
}

// hasEtcdBalancer reports whether dedicated API servers reach etcd through a load balancer, because no
// DNS name leads there.
func (m *model) hasEtcdBalancer() bool { return m.hasLoadBalancer() && m.noDNS() && m.hasAPIServers() }

// doors returns the doors of the load balancer. Cilium's etcd is behind it even if names lead to the
// machines, as in clusters that kOps created.
func (m *model) doors() []access.Door {
	doors := access.Doors(m.Cluster)
	if access.CiliumEtcd(m.spec) && !m.noDNS() {
		doors = append(doors, access.CiliumEtcdDoor())
	}
	return doors
}

// backendServices returns the backend services behind the internal load balancer.
func (m *model) backendServices() []backendService {
	out := []backendService{{name: "api", check: "api", groups: m.servers(), tcp: &kinds.CheckPort{Port: ports.API}}}
	if m.hasAPIServers() {
		out = append(out, backendService{name: "kops-controller", check: "kops-controller", groups: m.groupsOf(api.RoleControlPlane), ssl: &kinds.CheckPort{Port: ports.Controller}})
	}
	if m.hasEtcdBalancer() {
		main, _ := ports.OfEtcd("main") // it is known
		out = append(out, backendService{name: "etcd", check: "etcd-main", groups: m.groupsOf(api.RoleControlPlane), tcp: &kinds.CheckPort{Port: main.Client}})
	}
	return out
}

// fronts returns the ports on which the internal load balancer listens.
func (m *model) fronts() []internalRule {
	var out []internalRule
	for _, d := range m.doors() {
		backend := "api"
		if d.Backends == access.ControlPlanes && m.hasAPIServers() { // which are behind that, too
			backend = "kops-controller"
		}
		out = append(out, internalRule{d.Name, "api", backend, portTexts(d.Port)})
	}
	if m.hasEtcdBalancer() {
		out = append(out, internalRule{"etcd", "etcd", "etcd", portTexts(m.etcdClientPorts()...)})
	}
	return out
}

// etcdClientPorts returns the client ports of the etcd clusters that API servers use.
func (m *model) etcdClientPorts() []int {
	var out []int
	for _, e := range m.spec.EtcdClusters {
		if p, ok := ports.OfEtcd(e.Name); ok && e.Name != "cilium" {
			out = append(out, p.Client)
		}
	}
	return out
}

func portTexts(numbers ...int) []string {
	var out []string
	for _, n := range numbers {
		out = append(out, strconv.Itoa(n))
	}
	return out
}

// serverSubnets returns the subnets of API servers, sorted by name.
func (m *model) serverSubnets() ([]*api.ClusterSubnetSpec, error) {
	var out []*api.ClusterSubnetSpec
	for _, g := range m.servers() {
		s, err := m.subnetOf(g)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *api.ClusterSubnetSpec) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// addresses returns the addresses of the load balancers. Machines learn them before they are in
// use.
func (m *model) addresses() ([]resource.Node, error) {
	if !m.hasLoadBalancer() {
		return nil, nil
	}
	subnets, err := m.serverSubnets()
	if err != nil {
		return nil, err
	}
	var nodes []resource.Node
	if m.isPublic() {
		nodes = append(nodes, kinds.Addresses.New(m.suffixed("api"), kinds.Address{Name: m.suffixed("api")}))
	}
	for _, f := range m.fronts() {
		if f.name != f.address {
			continue
		}
		for _, s := range subnets {
			name := m.suffixed(f.address + "-" + s.Name)
			nodes = append(nodes, kinds.Addresses.New(name, kinds.Address{
				Name: name, Type: "INTERNAL", Purpose: "SHARED_LOADBALANCER_VIP", Subnetwork: m.subnetID(s)}))
		}
	}
	return nodes, nil
}

// hosts returns the addresses at which a group's machines reach the control plane when no name is
// published: the internal addresses of the API, or of etcd.
func (m *model) hosts(g *api.InstanceGroup) ([]resource.Value, error) {
	if !m.hasLoadBalancer() || !m.noDNS() || g.IsControlPlane() || g.IsBastion() {
		return nil, nil
	}
	address := "api-"
	if g.HasAPIServer() {
		address = "etcd-"
	}
	subnets, err := m.serverSubnets()
	var hosts []resource.Value
	for _, s := range subnets {
		hosts = append(hosts, kinds.Addresses.Out(m.suffixed(address+s.Name), "address"))
	}
	return hosts, err
}

// pool returns the target pool behind the public load balancer, and its legacy health check.
func (m *model) pool() ([]resource.Node, error) {
	if !m.isPublic() {
		return nil, nil
	}
	name := m.suffixed("api")
	check := kinds.HTTPHealthChecks.New(name, kinds.HTTPHealthCheck{Name: name, Port: ports.APIHealth, Path: "/healthz"})
	return []resource.Node{check, kinds.TargetPools.New(name, kinds.TargetPool{Name: name, HealthChecks: []resource.Value{check.Out("id")}})}, nil
}

// pools returns the target pools that a group's machines join: if there are dedicated API servers,
// control planes do not serve the public.
func (m *model) pools(g *api.InstanceGroup) []resource.Value {
	serving := api.RoleControlPlane
	if m.hasAPIServers() {
		serving = api.RoleAPIServer
	}
	if !m.isPublic() || g.Spec.Role != serving {
		return nil
	}
	return []resource.Value{kinds.TargetPools.Out(m.suffixed("api"), "id")}
}

// balancers returns the load balancers themselves: their backends and forwarding rules.
func (m *model) balancers() ([]resource.Node, error) {
	if !m.hasLoadBalancer() {
		return nil, nil
	}
	var nodes []resource.Node
	for _, b := range m.backendServices() {
		n, err := m.backend(b)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n...)
	}
	if m.isPublic() {
		nodes = append(nodes, m.publicRule())
	}
	subnets, err := m.serverSubnets()
	if err != nil {
		return nil, err
	}
	for _, f := range m.fronts() {
		if f.name == "etcd" && len(subnets) > 1 {
			return nil, fmt.Errorf("API servers reach etcd at one address, but the machines of the control plane are in %d subnets; put their groups into one subnet", len(subnets))
		}
		for _, s := range subnets {
			nodes = append(nodes, m.internalRule(f, s))
		}
	}
	return nodes, nil
}

// backend returns a backend service and its health check.
func (m *model) backend(b backendService) ([]resource.Node, error) {
	check := kinds.HealthChecks.New(m.suffixed(b.check), kinds.HealthCheck{Name: m.suffixed(b.check), TCP: b.tcp, SSL: b.ssl})
	service := kinds.BackendService{Name: m.suffixed(b.name), Scheme: "INTERNAL", Protocol: "TCP", HealthChecks: []resource.Value{check.Out("id")}}
	for _, g := range b.groups {
		zone, err := m.zoneOf(g, "the load balancer needs each group's machines in one zone")
		if err != nil {
			return nil, err
		}
		service.Backends = append(service.Backends, kinds.Backend{BalancingMode: "CONNECTION",
			Group: kinds.InstanceGroupManagers.Out(m.groupName(g, zone), "instance_group")})
	}
	return []resource.Node{check, kinds.BackendServices.New(service.Name, service)}, nil
}

func (m *model) publicRule() resource.Node {
	name := m.suffixed("api")
	return kinds.ForwardingRules.New(name, kinds.ForwardingRule{
		Name: name, Address: kinds.Addresses.Out(name, "address"), Protocol: "TCP", Scheme: "EXTERNAL", PortRange: "443-443",
		Target: kinds.TargetPools.Out(name, "id"), Labels: m.labels("name", "api")})
}

func (m *model) internalRule(f internalRule, s *api.ClusterSubnetSpec) resource.Node {
	what := f.name + "-" + s.Name
	return kinds.ForwardingRules.New(m.suffixed(what), kinds.ForwardingRule{
		Name: m.suffixed(what), Address: kinds.Addresses.Out(m.suffixed(f.address+"-"+s.Name), "address"), Protocol: "TCP", Scheme: "INTERNAL",
		Ports: f.ports, Backend: kinds.BackendServices.Out(m.suffixed(f.backend), "id"),
		Network: m.networkID(), Subnet: m.subnetID(s), Labels: m.labels("name", what)})
}
