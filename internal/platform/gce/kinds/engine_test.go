package kinds

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/emulator"
	"kops.local/kops/internal/platform/gce/gcecloud"
	"kops.local/kops/internal/platform/gce/gcename"
	"kops.local/kops/internal/platform/zones"
	"kops.local/kops/internal/test/enginetest"
)

// wantedGraph returns a cluster with every kind of object, with one control plane and with nodes. subnet
// is the name of its subnet, and shared the network to use, "" for its own.
func wantedGraph(t *testing.T, cluster, subnet, shared string, nodes ...string) *graph.Graph {
	t.Helper()
	object := func(name string) string { return gcename.Suffixed(name, cluster) }
	var g graph.Graph
	add := func(n resource.Node) resource.Node {
		if err := g.Add(n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	network := Networks.New("network", Network{Name: gcename.Network(cluster)})
	if shared != "" {
		network = Networks.Adopt("network", testProject+"/"+shared, Network{Name: shared})
	}
	add(network)
	sub := add(Subnetworks.New("subnet", Subnetwork{Name: object(subnet), Network: network.Out("id"), Region: testRegion, CIDR: ranges[cluster], StackType: "IPV4_ONLY"}))
	router := add(Routers.New("nat", Router{Name: object("nat"), Network: network.Out("id")}))
	add(RouterNATs.New("nat", RouterNAT{Name: object("nat"), Router: router.Out("id"), Region: testRegion, Allocation: "AUTO_ONLY", Source: "LIST_OF_SUBNETWORKS",
		Subnetworks: []NATSubnetwork{{sub.Out("id"), []string{"ALL_IP_RANGES"}}}}))
	for _, rule := range []string{"node-to-node", "ssh-external-to-node"} {
		add(Firewalls.New(rule, Firewall{Name: object(rule), Network: network.Out("id"), TargetTags: []string{gcename.Tag(gcename.Node, cluster)}, Allow: []Allowed{{Protocol: "tcp"}},
			SourceTags: []string{gcename.Tag(gcename.Node, cluster)}}))
	}
	account := add(ServiceAccounts.New("control-plane", ServiceAccount{AccountID: gcename.Account(gcename.ControlPlane, cluster), Project: testProject, DisplayName: "control-plane"}))
	member := resource.Concat(lit("serviceAccount:"), account.Out("email"))
	add(ProjectMembers.New("control-plane", ProjectMember{Project: testProject, Role: "roles/container.serviceAgent", Member: member}))
	add(BucketMembers.New("control-plane", BucketMember{Bucket: "state", Role: "roles/storage.objectAdmin", Member: member}))
	labels := Labels{gcecloud.ClusterLabel: gcecloud.Label(cluster)}
	add(Disks.New("etcd", Disk{Name: object("a-etcd-main"), Zone: testZone, Type: "pd-ssd", SizeGiB: 20,
		Labels: Labels{gcecloud.ClusterLabel: gcecloud.Label(cluster), "k8s-io-role-master": "master", "k8s-io-etcd-main": "a-2fa"}}))
	public := add(Addresses.New("api", Address{Name: object("api")}))
	inside := add(Addresses.New("api-in", Address{Name: object("api-" + subnet), Type: "INTERNAL", Purpose: "SHARED_LOADBALANCER_VIP", Subnetwork: sub.Out("id")}))
	httpCheck := add(HTTPHealthChecks.New("api", HTTPHealthCheck{Name: object("api"), Port: 3990, Path: "/healthz"}))
	check := add(HealthChecks.New("api", HealthCheck{Name: object("api"), TCP: &CheckPort{443}}))
	pool := add(TargetPools.New("api", TargetPool{Name: object("api"), HealthChecks: []resource.Value{httpCheck.Out("id")}}))
	group := func(name string, pools []resource.Value, size int) resource.Node {
		t := template(cluster, name, network.Out("id"), sub.Out("id"))
		t.Account.Email = account.Out("email")
		template := add(InstanceTemplates.New(name, t))
		return add(InstanceGroupManagers.New(name, InstanceGroupManager{Name: gcename.Group(name, testZone, cluster), Zone: testZone, BaseName: name,
			Template: GroupVersion{template.Out("id")}, TargetSize: size, TargetPools: pools, ListResults: "PAGINATED", UpdatePolicy: UpdatePolicy{"REPLACE", "OPPORTUNISTIC"}}))
	}
	cp := group("cp", []resource.Value{pool.Out("id")}, 1)
	for _, n := range nodes {
		group(n, nil, 0)
	}
	service := add(BackendServices.New("api", BackendService{Name: object("api"), Scheme: "INTERNAL", Protocol: "TCP", HealthChecks: []resource.Value{check.Out("id")},
		Backends: []Backend{{cp.Out("instance_group"), "CONNECTION"}}}))
	add(ForwardingRules.New("api", ForwardingRule{Name: object("api"), Address: public.Out("address"), Protocol: "TCP", Scheme: "EXTERNAL", PortRange: "443-443", Target: pool.Out("id"), Labels: labels}))
	for name, port := range map[string]string{"api-": "443", "kops-controller-": "3988"} {
		add(ForwardingRules.New(name, ForwardingRule{Name: object(name + subnet), Address: inside.Out("address"), Protocol: "TCP", Scheme: "INTERNAL", Ports: []string{port},
			Backend: service.Out("id"), Network: network.Out("id"), Subnet: sub.Out("id"), Labels: labels}))
	}
	add(Placeholders.New("api", zones.Placeholder{Zone: "example", Name: "api." + cluster, Type: "A", TTL: 10, Values: []string{"203.0.113.123"}}))
	return &g
}

// ranges are the ranges of the clusters' subnets, which do not overlap.
var ranges = map[string]string{testCluster: "10.0.16.0/20", endsAlike: "10.0.32.0/20", beginsAlike: "10.0.48.0/20"}

// options returns an emulated cloud with what the clusters use.
func options() emulator.Options {
	return emulator.Options{Buckets: []emulator.Bucket{{Name: "state"}}, DNSZones: []emulator.DNSZone{{Name: "example", DNSName: "example.com."}}}
}

// apply creates a cluster.
func (s *stage) apply(cluster string, g *graph.Graph) {
	s.Helper()
	s.Apply(cluster, g, false)
}

// remove deletes a cluster given only its name and its shared objects.
func (s *stage) remove(cluster string, g *graph.Graph) {
	s.Helper()
	shared := g.Select(func(n resource.Node) bool { return n.Adopt != "" })
	s.Apply(cluster, shared, true)
}

// checkSettled fails the test if anything is left to do for a cluster.
func (s *stage) checkSettled(cluster string, g *graph.Graph) {
	s.Helper()
	if left := enginetest.Changes(s.Plan(cluster, g, false)); len(left) > 0 {
		s.Errorf("it is not settled: %s", strings.Join(left, "; "))
	}
}

func TestAClusterIsSettledOnceItIsMadeAndNothingIsLeftOfIt(t *testing.T) {
	for _, late := range []bool{false, true} {
		o := options()
		o.LateInUse = late
		s := play(t, o)
		before := s.Inventory()
		g := wantedGraph(t, testCluster, "us-test1", "", "nodes")
		s.apply(testCluster, g)
		s.checkSettled(testCluster, g)
		if made := s.Inventory(); len(made) < 22+len(before) {
			t.Errorf("only %d objects were made: %s", len(made), strings.Join(made, " "))
		}
		s.remove(testCluster, g)
		if left := s.Inventory(); !slices.Equal(left, before) {
			t.Errorf("there is left %s", strings.Join(left, " "))
		}
	}
}

// Clusters whose names have a common end or beginning have objects with similar names: the public
// address of the second has the name that the address of a subnet "my" of the first would have.
const (
	endsAlike   = "my.k.example.com"
	beginsAlike = "k.example.com-2.example.com"
)

func TestADeletionTakesNothingOfClustersThatAreCalledAlike(t *testing.T) {
	for _, one := range []string{testCluster, endsAlike, beginsAlike} {
		s := play(t, options())
		var before []string
		for _, other := range []string{testCluster, endsAlike, beginsAlike} {
			if other != one {
				s.apply(other, wantedGraph(t, other, "us-test1", "", "nodes"))
			}
		}
		before = s.Inventory()
		g := wantedGraph(t, one, "us-test1", "", "nodes")
		s.apply(one, g)
		s.checkSettled(one, g)
		s.remove(one, g)
		if left := s.Inventory(); !slices.Equal(withoutMachines(left), withoutMachines(before)) {
			t.Errorf("%s: there was\n%s\nand is\n%s", one, strings.Join(before, "\n"), strings.Join(left, "\n"))
		}
	}
}

// withoutMachines leaves out what groups create on their own.
func withoutMachines(paths []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return strings.Contains(p, "/instances/") || strings.Contains(p, "/disks/cp-") })
}

func TestASharedNetworkStaysAndSoDoesTheOtherClusterInIt(t *testing.T) {
	s := play(t, options())
	build(s, &Networks, Network{Name: "lent"})
	other := wantedGraph(t, endsAlike, "us-test1", "lent", "nodes")
	s.apply(endsAlike, other)
	before := s.Inventory()
	g := wantedGraph(t, testCluster, "us-test1", "lent", "nodes")
	s.apply(testCluster, g)
	s.checkSettled(testCluster, g)
	s.checkSettled(endsAlike, other)
	s.remove(testCluster, g)
	if left := s.Inventory(); !slices.Equal(withoutMachines(left), withoutMachines(before)) {
		t.Errorf("there was\n%s\nand is\n%s", strings.Join(before, "\n"), strings.Join(left, "\n"))
	}
}

// Whichever write fails, before or after it took effect, the update continues as soon as possible,
// and the result is the same.
func TestAnUpdateOutlivesTheFailureOfAnyWrite(t *testing.T) {
	for _, when := range []struct {
		name string
		at   emulator.Moment
	}{{"before it took effect", emulator.Before}, {"after it took effect", emulator.After}, {"without an answer", emulator.Lost}} {
		t.Run(when.name, func(t *testing.T) {
			t.Parallel()
			for n := 0; ; n++ {
				s := play(t, options())
				s.Inject(emulator.Fault{Skip: n, When: when.at})
				g := wantedGraph(t, testCluster, "us-test1", "")
				s.apply(testCluster, g)
				s.checkSettled(testCluster, g)
				if writes(s) <= n {
					if n < 20 {
						t.Errorf("there were only %d writes", n)
					}
					break
				}
				if t.Failed() {
					t.Fatalf("at write %d", n)
				}
			}
		})
	}
}

// writes returns the number of calls that changed anything.
func writes(s *stage) int {
	n := 0
	for method, times := range s.Requests() {
		verb := method[strings.LastIndex(method, ".")+1:]
		if !slices.Contains([]string{"get", "list", "aggregatedList", "wait", "getIamPolicy"}, verb) {
			n += times
		}
	}
	return n
}

func TestObservingAClusterTakesFewRequests(t *testing.T) {
	s := play(t, options())
	var nodes []string
	for i := range 67 {
		nodes = append(nodes, fmt.Sprintf("nodes-%02d", i))
	}
	look := func(g *graph.Graph, want int) {
		before := s.Requests()
		snapshot := s.c.Snapshot()
		observe.Prefetch(t.Context(), All(), snapshot, testCluster)
		if _, err := s.Observer(snapshot).Snapshot(t.Context(), testCluster, All(), g, false); err != nil {
			t.Fatal(err)
		}
		n, lines := 0, []string{}
		for method, times := range s.Requests() {
			if d := times - before[method]; d > 0 {
				n += d
				lines = append(lines, fmt.Sprintf("%d %s", d, method))
			}
		}
		slices.Sort(lines)
		t.Logf("%d requests", n)
		if n > want {
			t.Errorf("%d requests, want at most %d: %s", n, want, strings.Join(lines, ", "))
		}
	}
	small := wantedGraph(t, testCluster, "us-test1", "", "nodes")
	s.apply(testCluster, small)
	look(small, 17)
	large := wantedGraph(t, testCluster, "us-test1", "", nodes...)
	s.apply(testCluster, large)
	look(large, 17)
}
