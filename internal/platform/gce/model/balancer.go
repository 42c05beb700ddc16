package model

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/ports"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/kinds"
)

// front is an internal forwarding rule in each subnet that has API servers: to ports of the
// machines of a backend service.
type front struct {
	name    string // the rules' begin with it, before the subnet's
	address string // so do the addresses' names; rules of several fronts share one
	backend string
	ports   []string
}

// back is the machines of some groups, and how they are asked whether they serve.
type back struct {
	name, check string
	groups      []*api.InstanceGroup
	tcp, ssl    *kinds.CheckPort
}

// etcdBalanced reports whether API servers that stand alone find etcd at a load balancer, as no name leads there.
func (m *model) etcdBalanced() bool { return m.balanced() && m.noDNS() && m.hasAPIServers() }

// backs are the backend services behind the internal load balancer.
func (m *model) backs() []back {
	out := []back{{name: "api", check: "api", groups: m.servers(), tcp: &kinds.CheckPort{Port: portHTTPS}}}
	if m.hasAPIServers() {
		out = append(out, back{name: "kops-controller", check: "kops-controller", groups: m.groupsOf(api.RoleControlPlane), ssl: &kinds.CheckPort{Port: ports.Controller}})
	}
	if m.etcdBalanced() {
		out = append(out, back{name: "etcd", check: "etcd-main", groups: m.groupsOf(api.RoleControlPlane), tcp: &kinds.CheckPort{Port: etcdPort("main")}})
	}
	return out
}

// fronts are what the internal load balancer listens to.
func (m *model) fronts() []front {
	controller := "api"
	if m.hasAPIServers() { // which do not run it
		controller = "kops-controller"
	}
	out := []front{{"api", "api", "api", texts(portHTTPS)}}
	if m.noDNS() {
		out = append(out, front{"kops-controller", "api", controller, texts(ports.Controller)})
	}
	if m.ciliumEtcd() {
		out = append(out, front{"cilium-etcd", "api", controller, texts(etcdPort("cilium"))})
	}
	if m.etcdBalanced() {
		out = append(out, front{"etcd", "etcd", "etcd", texts(m.servedEtcds()...)})
	}
	return out
}

// etcdPort is where an etcd cluster serves its clients.
func etcdPort(etcd string) int {
	p, _ := ports.OfEtcd(etcd) // it is one of those
	return p.Client
}

// servedEtcds are the ports of the etcd clusters that API servers use.
func (m *model) servedEtcds() []int {
	var out []int
	for _, e := range m.spec.EtcdClusters {
		if p, ok := ports.OfEtcd(e.Name); ok && e.Name != "cilium" {
			out = append(out, p.Client)
		}
	}
	return out
}

func texts(numbers ...int) []string {
	var out []string
	for _, n := range numbers {
		out = append(out, strconv.Itoa(n))
	}
	return out
}

// serverSubnets are the subnets of API servers, by name.
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

// addresses returns the addresses of the load balancers. Machines get them before they are in use.
func (m *model) addresses() ([]resource.Node, error) {
	if !m.balanced() {
		return nil, nil
	}
	subnets, err := m.serverSubnets()
	if err != nil {
		return nil, err
	}
	var nodes []resource.Node
	if m.public() {
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

// hosts are where the machines of a group reach the control plane when no name is published:
// at the internal addresses of the API, or of etcd.
func (m *model) hosts(g *api.InstanceGroup) ([]resource.Value, error) {
	if !m.balanced() || !m.noDNS() || g.IsControlPlane() || g.IsBastion() {
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

// pool is the machines behind the public load balancer, which asks their health by a check of the older sort.
func (m *model) pool() ([]resource.Node, error) {
	if !m.public() {
		return nil, nil
	}
	name := m.suffixed("api")
	check := kinds.HTTPHealthChecks.New(name, kinds.HTTPHealthCheck{Name: name, Port: ports.APIHealth, Path: "/healthz"})
	return []resource.Node{check, kinds.TargetPools.New(name, kinds.TargetPool{Name: name, HealthChecks: []resource.Value{check.Out("id")}})}, nil
}

// pools are the target pools that the machines of a group join: where machines run nothing
// but an API server, control planes do not serve the public.
func (m *model) pools(g *api.InstanceGroup) []resource.Value {
	serving := api.RoleControlPlane
	if m.hasAPIServers() {
		serving = api.RoleAPIServer
	}
	if !m.public() || g.Spec.Role != serving {
		return nil
	}
	return []resource.Value{kinds.TargetPools.Out(m.suffixed("api"), "id")}
}

// balancers are the load balancers themselves: what is behind them, and what they listen to.
func (m *model) balancers() ([]resource.Node, error) {
	if !m.balanced() {
		return nil, nil
	}
	var nodes []resource.Node
	for _, b := range m.backs() {
		n, err := m.backend(b)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n...)
	}
	if m.public() {
		nodes = append(nodes, m.publicRule())
	}
	subnets, err := m.serverSubnets()
	if err != nil {
		return nil, err
	}
	for _, f := range m.fronts() {
		if f.name == "etcd" && len(subnets) > 1 {
			return nil, fmt.Errorf("API servers find etcd at one address, and machines of the control plane are in %d subnets; put their groups into one", len(subnets))
		}
		for _, s := range subnets {
			nodes = append(nodes, m.internalRule(f, s))
		}
	}
	return nodes, nil
}

// backend is a backend service and its check.
func (m *model) backend(b back) ([]resource.Node, error) {
	check := kinds.HealthChecks.New(m.suffixed(b.check), kinds.HealthCheck{Name: m.suffixed(b.check), TCP: b.tcp, SSL: b.ssl})
	service := kinds.BackendService{Name: m.suffixed(b.name), Scheme: "INTERNAL", Protocol: "TCP", HealthChecks: []resource.Value{check.Out("id")}}
	for _, g := range b.groups {
		zone, err := m.zoneOf(g, "the load balancer has each group's machines in one")
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

func (m *model) internalRule(f front, s *api.ClusterSubnetSpec) resource.Node {
	what := f.name + "-" + s.Name
	return kinds.ForwardingRules.New(m.suffixed(what), kinds.ForwardingRule{
		Name: m.suffixed(what), Address: kinds.Addresses.Out(m.suffixed(f.address+"-"+s.Name), "address"), Protocol: "TCP", Scheme: "INTERNAL",
		Ports: f.ports, Backend: kinds.BackendServices.Out(m.suffixed(f.backend), "id"),
		Network: m.networkID(), Subnet: m.subnetID(s), Labels: m.labels("name", what)})
}
