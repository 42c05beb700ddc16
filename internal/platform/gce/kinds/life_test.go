package kinds

import (
	"testing"

	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/emulator"
	"kops.local/kops/internal/platform/gce/gcecloud"
	"kops.local/kops/internal/platform/gce/gcename"
	"kops.local/kops/internal/platform/zones"
	"kops.local/kops/internal/test/kindtest"
)

// TestKindsLive takes an object of every declared kind through its life, in one cloud.
func TestKindsLive(t *testing.T) {
	for name, live := range map[string]func(*stage){
		"network":                liveNetwork,
		"subnetwork":             liveSubnetwork,
		"router":                 liveRouter,
		"router nat":             liveNAT,
		"firewall":               liveFirewall,
		"public address":         livePublicAddress,
		"internal address":       liveInternalAddress,
		"disk":                   liveDisk,
		"http health check":      liveHTTPHealthCheck,
		"health check":           liveHealthCheck,
		"target pool":            liveTargetPool,
		"backend service":        liveBackendService,
		"public rule":            livePublicRule,
		"internal rule":          liveInternalRule,
		"instance template":      liveTemplate,
		"instance group manager": liveManager,
		"service account":        liveAccount,
		"project member":         liveProjectMember,
		"bucket member":          liveBucketMember,
		"placeholder":            livePlaceholder,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live(play(t, emulator.Options{Buckets: []emulator.Bucket{{Name: "state"}}, DNSZones: []emulator.DNSZone{{Name: "example", DNSName: "example.com."}}}))
		})
	}
}

// runLife takes an object through its life.
func runLife[T any](s *stage, k *resource.Kind[T, *Client], life kindtest.Life[T]) {
	s.Helper()
	life.Cluster = testCluster
	life.Want = *k.New("x", life.Want).Want.(*T)
	kindtest.Run(s.T, k, s.c, life)
}

func liveNetwork(s *stage) {
	runLife(s, &Networks, kindtest.Life[Network]{Want: Network{Name: gcename.Network(testCluster)}})
}

func liveSubnetwork(s *stage) {
	n := build(s, &Networks, Network{Name: gcename.Network(testCluster)})
	runLife(s, &Subnetworks, kindtest.Life[Subnetwork]{
		Want: Subnetwork{Name: object("us-test1"), Network: lit(n.ID), Region: testRegion, CIDR: "10.0.16.0/20", StackType: "IPV4_ONLY"},
		Changes: []kindtest.Change[Subnetwork]{
			{Name: "ranges", Do: func(n *Subnetwork) {
				n.Secondary = []SecondaryRange{{"pods", "10.4.0.0/14"}, {"services", "10.1.0.0/16"}}
			}},
			{Name: "other ranges", Do: func(n *Subnetwork) {
				n.Secondary = []SecondaryRange{{"services", "10.1.0.0/16"}, {"more", "10.2.0.0/16"}}
			}},
			{Name: "no ranges", Do: func(n *Subnetwork) { n.Secondary = nil }},
			{Name: "IPv6", Do: func(n *Subnetwork) { n.StackType, n.IPv6Access = "IPV4_IPV6", "EXTERNAL" }},
		}})
}

func liveRouter(s *stage) {
	n := build(s, &Networks, Network{Name: gcename.Network(testCluster)})
	runLife(s, &Routers, kindtest.Life[Router]{Want: Router{Name: object("nat"), Network: lit(n.ID)}})
}

func liveNAT(s *stage) {
	g := s.ground()
	r := build(s, &Routers, Router{Name: object("nat"), Network: lit(g.network.ID)})
	more := build(s, &Subnetworks, Subnetwork{Name: object("more"), Network: lit(g.network.ID), Region: testRegion, CIDR: "10.0.32.0/20", StackType: "IPV4_ONLY"})
	all := []string{"ALL_IP_RANGES"}
	runLife(s, &RouterNATs, kindtest.Life[RouterNAT]{
		Want: RouterNAT{Name: object("nat"), Router: lit(r.ID), Region: testRegion, Allocation: "AUTO_ONLY", Source: "LIST_OF_SUBNETWORKS",
			Subnetworks: []NATSubnetwork{{lit(g.subnetwork.ID), all}}},
		Changes: []kindtest.Change[RouterNAT]{
			{Name: "one more", Do: func(n *RouterNAT) { n.Subnetworks = append(n.Subnetworks, NATSubnetwork{lit(more.ID), all}) }},
			{Name: "all of the network", Do: func(n *RouterNAT) { n.Source, n.Subnetworks = "ALL_SUBNETWORKS_ALL_IP_RANGES", nil }},
		},
		Untested: map[string]string{"Allocation": "another needs reserved addresses"}})
}

func liveFirewall(s *stage) {
	g := s.ground()
	node, cp := gcename.Tag(gcename.Node, testCluster), gcename.Tag(gcename.ControlPlane, testCluster)
	runLife(s, &Firewalls, kindtest.Life[Firewall]{
		Want: Firewall{Name: object("ssh-external-to-node"), Network: lit(g.network.ID), SourceRanges: []string{"10.0.0.1/8"}, TargetTags: []string{node},
			Allow: []Allowed{{"tcp", []string{"22"}}}},
		Changes: []kindtest.Change[Firewall]{
			{Name: "ranges and protocols", Do: func(f *Firewall) {
				f.SourceRanges, f.Allow = []string{"192.0.2.0/24", "198.51.100.0/24"}, append(f.Allow, Allowed{Protocol: "esp"}, Allowed{"udp", []string{"30000-32767"}})
			}},
			{Name: "disabled", Do: func(f *Firewall) { f.SourceRanges, f.Disabled = []string{"::/0"}, true }},
			{Name: "enabled", Do: func(f *Firewall) { f.Disabled = false }},
			{Name: "tags", Do: func(f *Firewall) {
				f.SourceRanges, f.SourceTags, f.TargetTags = nil, []string{node}, []string{cp, node}
			}},
		}})
}

func livePublicAddress(s *stage) {
	runLife(s, &Addresses, kindtest.Life[Address]{Want: Address{Name: object("api")}})
}

func liveInternalAddress(s *stage) {
	g := s.ground()
	runLife(s, &Addresses, kindtest.Life[Address]{Want: Address{Name: object("api-us-test1"), Type: "INTERNAL", Purpose: "SHARED_LOADBALANCER_VIP", Subnetwork: lit(g.subnetwork.ID)}})
}

func liveDisk(s *stage) {
	labels := func() Labels {
		return Labels{gcecloud.ClusterLabel: gcecloud.Label(testCluster), "k8s-io-role-master": "master", "k8s-io-etcd-main": "a-2fa"}
	}
	runLife(s, &Disks, kindtest.Life[Disk]{
		Want: Disk{Name: object("a-etcd-main"), Zone: testZone, Type: "hyperdisk-balanced", SizeGiB: 20, IOPS: 3000, Throughput: 140, Labels: labels()},
		Changes: []kindtest.Change[Disk]{
			{Name: "larger", Do: func(d *Disk) { d.SizeGiB = 30 }},
			{Name: "faster", Do: func(d *Disk) { d.IOPS = 4000 }},
			{Name: "wider", Do: func(d *Disk) { d.IOPS, d.Throughput = 5000, 200 }},
			{Name: "labels", Do: func(d *Disk) {
				d.Labels = labels()
				d.Labels["k8s-io-etcd-main"] = "a-2fa-2cb"
				delete(d.Labels, "k8s-io-role-master")
			}},
		}})
}

func liveHTTPHealthCheck(s *stage) {
	runLife(s, &HTTPHealthChecks, kindtest.Life[HTTPHealthCheck]{Want: HTTPHealthCheck{Name: object("api"), Port: 3990, Path: "/healthz"},
		Changes: []kindtest.Change[HTTPHealthCheck]{{Name: "port and path", Do: func(h *HTTPHealthCheck) { h.Port, h.Path = 3991, "/readyz" }}}})
}

func liveHealthCheck(s *stage) {
	runLife(s, &HealthChecks, kindtest.Life[HealthCheck]{Want: HealthCheck{Name: object("api"), TCP: &CheckPort{443}},
		Changes: []kindtest.Change[HealthCheck]{{Name: "port", Do: func(h *HealthCheck) { h.TCP = &CheckPort{444} }},
			{Name: "protocol", Do: func(h *HealthCheck) { h.TCP, h.SSL = nil, &CheckPort{3988} }}}})
}

func liveTargetPool(s *stage) {
	check := build(s, &HTTPHealthChecks, HTTPHealthCheck{Name: object("api"), Port: 3990, Path: "/healthz"})
	other := build(s, &HTTPHealthChecks, HTTPHealthCheck{Name: "other", Port: 3990, Path: "/healthz"})
	runLife(s, &TargetPools, kindtest.Life[TargetPool]{Want: TargetPool{Name: object("api"), HealthChecks: []resource.Value{lit(check.ID)}},
		Changes: []kindtest.Change[TargetPool]{{Name: "another check", Do: func(p *TargetPool) { p.HealthChecks = []resource.Value{lit(other.ID)} }},
			{Name: "no check", Do: func(p *TargetPool) { p.HealthChecks = nil }}}})
}

func liveBackendService(s *stage) {
	g := s.ground()
	m := build(s, &InstanceGroupManagers, g.group("cp", build(s, &InstanceTemplates, g.template("cp")), 0))
	check := build(s, &HealthChecks, HealthCheck{Name: object("api"), TCP: &CheckPort{443}})
	other := build(s, &HealthChecks, HealthCheck{Name: object("kops-controller"), SSL: &CheckPort{3988}})
	runLife(s, &BackendServices, kindtest.Life[BackendService]{
		Want: BackendService{Name: object("api"), Scheme: "INTERNAL", Protocol: "TCP", HealthChecks: []resource.Value{lit(check.ID)}},
		Changes: []kindtest.Change[BackendService]{
			{Name: "a group", Do: func(b *BackendService) { b.Backends = []Backend{{lit(m.Group), "CONNECTION"}} }},
			{Name: "another check", Do: func(b *BackendService) { b.HealthChecks = []resource.Value{lit(other.ID)} }},
			{Name: "no group", Do: func(b *BackendService) { b.Backends = nil }},
		}})
}

func livePublicRule(s *stage) {
	a := build(s, &Addresses, Address{Name: object("api")})
	pool := build(s, &TargetPools, TargetPool{Name: object("api")})
	other := build(s, &TargetPools, TargetPool{Name: "other"})
	runLife(s, &ForwardingRules, kindtest.Life[ForwardingRule]{
		Want: ForwardingRule{Name: object("api"), Address: lit(a.Address), Protocol: "TCP", Scheme: "EXTERNAL", PortRange: "443-443", Target: lit(pool.ID),
			Labels: Labels{gcecloud.ClusterLabel: gcecloud.Label(testCluster), "name": "api"}},
		Changes: []kindtest.Change[ForwardingRule]{
			{Name: "target", Do: func(r *ForwardingRule) { r.Target = lit(other.ID) }},
			{Name: "labels", Do: func(r *ForwardingRule) {
				r.Labels = Labels{gcecloud.ClusterLabel: gcecloud.Label(testCluster), "name": "api-2"}
			}},
		}})
}

func liveInternalRule(s *stage) {
	g := s.ground()
	a := build(s, &Addresses, Address{Name: object("api-us-test1"), Type: "INTERNAL", Purpose: "SHARED_LOADBALANCER_VIP", Subnetwork: lit(g.subnetwork.ID)})
	check := build(s, &HealthChecks, HealthCheck{Name: object("api"), TCP: &CheckPort{443}})
	b := build(s, &BackendServices, BackendService{Name: object("api"), Scheme: "INTERNAL", Protocol: "TCP", HealthChecks: []resource.Value{lit(check.ID)}})
	rule := func(name, port string) ForwardingRule {
		return ForwardingRule{Name: object(name), Address: lit(a.Address), Protocol: "TCP", Scheme: "INTERNAL", Ports: []string{port}, Backend: lit(b.ID),
			Network: lit(g.network.ID), Subnet: lit(g.subnetwork.ID)}
	}
	build(s, &ForwardingRules, rule("kops-controller-us-test1", "3988")) // which has the same address
	runLife(s, &ForwardingRules, kindtest.Life[ForwardingRule]{Want: rule("api-us-test1", "443"),
		Changes:  []kindtest.Change[ForwardingRule]{{Name: "labels", Do: func(r *ForwardingRule) { r.Labels = Labels{gcecloud.ClusterLabel: gcecloud.Label(testCluster)} }}},
		Untested: map[string]string{"Target": "an internal rule has none"}})
}

func liveTemplate(s *stage) {
	runLife(s, &InstanceTemplates, kindtest.Life[InstanceTemplate]{Want: s.ground().template("nodes")})
}

func liveManager(s *stage) {
	g := s.ground()
	first := build(s, &InstanceTemplates, g.template("nodes"))
	next := g.template("nodes")
	next.MachineType = "e2-small"
	second := build(s, &InstanceTemplates, next)
	pool := build(s, &TargetPools, TargetPool{Name: object("api")})
	runLife(s, &InstanceGroupManagers, kindtest.Life[InstanceGroupManager]{Want: g.group("nodes", first, 0),
		Changes: []kindtest.Change[InstanceGroupManager]{
			{Name: "template", Do: func(g *InstanceGroupManager) { g.Template = GroupVersion{lit(second.ID)} }},
			{Name: "a pool", Do: func(g *InstanceGroupManager) { g.TargetPools = []resource.Value{lit(pool.ID)} }},
			{Name: "no pool", Do: func(g *InstanceGroupManager) { g.TargetPools = nil }},
			{Name: "policy", Do: func(g *InstanceGroupManager) { g.ListResults, g.UpdatePolicy.MinimalAction = "PAGELESS", "RESTART" }},
		}})
}

func liveAccount(s *stage) {
	runLife(s, &ServiceAccounts, kindtest.Life[ServiceAccount]{
		Want: ServiceAccount{AccountID: gcename.Account(gcename.Node, testCluster), Project: testProject, Description: "kubernetes worker nodes", DisplayName: "node"},
		Changes: []kindtest.Change[ServiceAccount]{{Name: "words", Do: func(a *ServiceAccount) { a.Description, a.DisplayName = "workers", "nodes" }},
			{Name: "no words", Do: func(a *ServiceAccount) { a.Description = "" }}}})
}

// account creates the control plane's account.
func (s *stage) account() string {
	s.Helper()
	a := build(s, &ServiceAccounts, ServiceAccount{AccountID: gcename.Account(gcename.ControlPlane, testCluster), Project: testProject, DisplayName: "control-plane"})
	return "serviceAccount:" + a.Email
}

func liveProjectMember(s *stage) {
	runLife(s, &ProjectMembers, kindtest.Life[ProjectMember]{Want: ProjectMember{Project: testProject, Role: "roles/container.serviceAgent", Member: lit(s.account())}})
}

func liveBucketMember(s *stage) {
	runLife(s, &BucketMembers, kindtest.Life[BucketMember]{Want: BucketMember{Bucket: "state", Role: "roles/storage.objectAdmin", Member: lit(s.account())}})
}

func livePlaceholder(s *stage) {
	runLife(s, &Placeholders, kindtest.Life[zones.Placeholder]{Want: zones.Placeholder{Zone: "example", Name: "api." + testCluster, Type: "A", TTL: 10, Values: []string{"203.0.113.123"}}})
}
