package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/ports"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model/access"
	"kops.local/kops/internal/platform/aws/kinds"
	"kops.local/kops/internal/spec/fill"
)

// loadBalancer is the description of a network load balancer that its resources are made from.
type loadBalancer struct {
	node     string
	realName string
	internal bool
	group    securityGroup
	// more are existing security groups that are also assigned.
	more    []string
	subnets []placement
	// spec is the spec of the API's load balancer; nil for a bastion's.
	spec *api.LoadBalancerAccessSpec
	// registersInstances is whether nodes also join the cluster through it, because no names are published.
	registersInstances bool
	listeners          []listener
}

// placement is a load balancer's subnet and address in one zone.
type placement struct {
	subnet           *api.ClusterSubnetSpec
	allocation, addr string
}

// listener is a port and its target group.
type listener struct {
	node     string
	port     int
	protocol string // "TCP" or "TLS"
	target   targetGroup
}

// targetGroup is a group of machines that a load balancer distributes connections to.
type targetGroup struct {
	realName string // also the node's name
	port     int
	protocol string
	health   string // the path of HTTPS checks; empty for TCP checks
	// controlPlaneOnly excludes machines that run only an API server.
	controlPlaneOnly bool
}

func (t targetGroup) id() resource.Value { return kinds.TargetGroups.Out(t.realName, "id") }

func (l *loadBalancer) out(attr string) resource.Value { return kinds.LoadBalancers.Out(l.node, attr) }

// apiLoadBalancer returns the load balancer of the API servers; nil if there is none.
func (m *model) apiLoadBalancer() (*loadBalancer, error) {
	spec := m.spec.API.LoadBalancer
	if spec == nil {
		return nil, nil
	}
	l := &loadBalancer{
		node: "api." + m.name, realName: APILoadBalancerName(m.name), spec: spec,
		internal: spec.Type == api.LoadBalancerInternal, registersInstances: m.dnsType() == api.DNSNone,
		group: m.newSecurityGroup("api-elb", "api ELB"), more: spec.AdditionalSecurityGroups,
	}
	if id := fill.Or(spec.SecurityGroupOverride, ""); id != "" {
		l.group.node, l.group.override = id+"-api-elb", id
	}
	l.listeners = m.apiListeners(l)
	var err error
	l.subnets, err = m.apiPlacements(l)
	if err != nil {
		return nil, fmt.Errorf("load balancer of the API: %w", err)
	}
	return l, nil
}

func (m *model) target(what string, port int) targetGroup {
	return targetGroup{realName: loadBalancerName(what, m.name), port: port, protocol: "TCP"}
}

// apiListeners returns a listener for each door of the API's load balancer. If the balancer terminates
// TLS, another port passes it through.
func (m *model) apiListeners(l *loadBalancer) []listener {
	var list []listener
	add := func(name string, port int, t targetGroup) {
		list = append(list, listener{node: name + "." + m.name + "-" + strconv.Itoa(port), port: port, protocol: t.protocol, target: t})
	}
	for _, d := range access.Doors(m.Cluster) {
		name, what := "api", d.Name
		switch d.Port {
		case ports.API:
			what = "tcp"
		case access.CiliumEtcdDoor().Port:
			name, what = "etcd-cilium", "etcd-cilium"
		}
		t := m.target(what, d.Port)
		t.health, t.controlPlaneOnly = d.Health, d.Backends == access.ControlPlanes
		if d.Port == ports.API && l.spec.SSLCertificate != "" {
			tls := m.target("tls", d.Port)
			tls.protocol = "TLS"
			add(name, d.Port, tls)
			d.Port = portHTTPSPassed
		}
		add(name, d.Port, t)
	}
	return list
}

// apiPlacements returns the subnets in the spec, or the best subnet of each zone.
func (m *model) apiPlacements(l *loadBalancer) ([]placement, error) {
	if len(l.spec.Subnets) == 0 {
		return m.placements(l.internal)
	}
	var list []placement
	for _, p := range l.spec.Subnets {
		s, ok := m.subnets[p.Name]
		if !ok {
			return nil, fmt.Errorf("the cluster has no subnet %s", p.Name)
		}
		list = append(list, placement{subnet: s, allocation: fill.Or(p.AllocationID, ""), addr: fill.Or(p.PrivateIPv4Address, "")})
	}
	return list, nil
}

// placements selects a subnet in each zone for a load balancer: private or public as needed,
// preferably one made for load balancers, and then one that also has a control plane.
func (m *model) placements(internal bool) ([]placement, error) {
	byZone := map[string][]*api.ClusterSubnetSpec{}
	for i := range m.spec.Networking.Subnets {
		if s := &m.spec.Networking.Subnets[i]; isPrivate(s) == internal {
			byZone[m.zoneOf(s)] = append(byZone[m.zoneOf(s)], s)
		}
	}
	if len(byZone) == 0 {
		if internal {
			return nil, fmt.Errorf("an internal load balancer needs a private subnet")
		}
		return nil, fmt.Errorf("a public load balancer needs a public or utility subnet")
	}
	var list []placement
	for _, zone := range slices.Sorted(maps.Keys(byZone)) {
		list = append(list, placement{subnet: slices.MinFunc(byZone[zone], func(a, b *api.ClusterSubnetSpec) int {
			return cmp.Or(m.score(b)-m.score(a), cmp.Compare(a.Name, b.Name))
		})})
	}
	return list, nil
}

// score returns how suitable a subnet is for a load balancer.
func (m *model) score(s *api.ClusterSubnetSpec) int {
	score := 0
	switch s.Type {
	case api.SubnetDualStack:
		score = 2
	case api.SubnetUtility:
		score = 3
	}
	for _, g := range m.groupsOf(api.RoleControlPlane) {
		if slices.Contains(g.Spec.Subnets, s.Name) {
			return score + 1
		}
	}
	return score
}

// loadBalancers returns the load balancers, their target groups and listeners.
func (m *model) loadBalancers() ([]resource.Node, error) {
	var nodes []resource.Node
	for _, l := range []*loadBalancer{m.apiLB, m.bastionLB} {
		if l == nil {
			continue
		}
		nodes = append(nodes, m.loadBalancerNode(l))
		for _, n := range l.listeners {
			nodes = append(nodes, m.targetGroupNode(n.target), m.listenerNode(l, n))
		}
	}
	return nodes, nil
}

func (m *model) loadBalancerNode(l *loadBalancer) resource.Node {
	n := kinds.LoadBalancer{
		Name: l.realName, Type: "network", Internal: l.internal, Tags: m.tags(l.node),
		SecurityGroups: unique(append(resource.Lits(l.more...), l.group.id())),
	}
	for _, p := range l.subnets {
		n.Subnets = append(n.Subnets, kinds.SubnetMapping{
			Subnet: m.subnetID(p.subnet), AllocationID: resource.Lit(p.allocation), PrivateIPv4: p.addr})
		if p.subnet.IPv6CIDR != "" {
			n.IPAddressType = "dualstack"
		}
	}
	if l.spec != nil {
		n.CrossZone = l.registersInstances || fill.Or(l.spec.CrossZoneLoadBalancing, false)
		if a := l.spec.AccessLog; a != nil && fill.Or(a.Bucket, "") != "" {
			n.AccessLogs = &kinds.AccessLogs{Enabled: true, Bucket: *a.Bucket, Prefix: fill.Or(a.BucketPrefix, "")}
		}
	}
	node := kinds.LoadBalancers.New(l.node, n)
	if !l.internal {
		node.After = m.internetDependencies() // AWS refuses it in a VPC without an internet gateway
	}
	return node
}

func (m *model) targetGroupNode(t targetGroup) resource.Node {
	check := kinds.HealthCheck{Protocol: "TCP", Interval: 10, HealthyThreshold: 2, UnhealthyThreshold: 2}
	if t.health != "" {
		check.Protocol, check.Path = "HTTPS", t.health
	}
	return kinds.TargetGroups.New(t.realName, kinds.TargetGroup{
		Name: t.realName, Port: t.port, Protocol: t.protocol, VPC: m.vpcID(),
		ConnectionTermination: "true", DeregistrationDelay: "30",
		HealthCheck: check, Tags: m.tags(t.realName),
	})
}

func (m *model) listenerNode(l *loadBalancer, n listener) resource.Node {
	w := kinds.Listener{
		LoadBalancer: l.out("id"), LoadBalancerName: l.realName, Port: n.port, Protocol: n.protocol,
		DefaultAction: kinds.ListenerAction{TargetGroup: n.target.id(), Type: "forward"},
	}
	if n.protocol == "TLS" {
		w.CertificateARN = l.spec.SSLCertificate
		w.SSLPolicy = fill.Or(l.spec.SSLPolicy, "ELBSecurityPolicy-2016-08")
	}
	return kinds.Listeners.New(n.node, w)
}

// targetGroups returns the target groups that a group's machines are in, including existing ones,
// sorted by name.
func (m *model) targetGroups(g *api.InstanceGroup) []resource.Value {
	var targets []targetGroup
	switch {
	case g.HasAPIServer() && m.apiLB != nil:
		for _, l := range m.apiLB.listeners {
			if g.IsControlPlane() || !l.target.controlPlaneOnly {
				targets = append(targets, l.target)
			}
		}
	case g.IsBastion() && m.bastionLB != nil:
		targets = append(targets, m.bastionLB.listeners[0].target)
	}
	slices.SortFunc(targets, func(a, b targetGroup) int { return cmp.Compare(a.realName, b.realName) })
	var ids []resource.Value
	for _, t := range targets {
		ids = append(ids, t.id())
	}
	var arns []string
	for _, e := range g.Spec.ExternalLoadBalancers {
		if arn := fill.Or(e.TargetGroupARN, ""); arn != "" {
			arns = append(arns, arn)
		}
	}
	slices.Sort(arns)
	return unique(append(ids, resource.Lits(arns...)...))
}
