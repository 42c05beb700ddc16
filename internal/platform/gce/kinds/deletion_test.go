package kinds

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/api/cloudresourcemanager/v1"
	"google.golang.org/api/compute/v1"
	"google.golang.org/api/dns/v1"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/emulator"
	"kops.local/kops/internal/platform/gce/gceapi"
	"kops.local/kops/internal/platform/gce/gcecloud"
	"kops.local/kops/internal/platform/gce/gcename"
	"kops.local/kops/internal/test/enginetest"
)

// everything is the scope of a deletion.
var everything = resource.Scope{Cluster: testCluster, All: true}

// done fails the test if a write fails.
func (s *stage) done(op *compute.Operation, err error) {
	s.Helper()
	if err := s.c.Await(s.Context())(op, err); err != nil {
		s.Fatal(err)
	}
}

// Wherever an update was interrupted, a deletion leaves nothing of it.
func TestADeletionLeavesNothingOfAnUpdateThatWasCutOff(t *testing.T) {
	for n := 1; ; n++ {
		s := play(t, options())
		before := s.Inventory()
		g := wantedGraph(t, testCluster, "us-test1", "", "nodes")
		p := s.Plan(testCluster, g, false)
		if n > len(p.Steps) {
			break
		}
		cut := *p
		cut.Steps = p.Steps[:n]
		if err := s.Carry(testCluster, g, &cut, false); err != nil {
			t.Fatal(err)
		}
		s.remove(testCluster, &graph.Graph{})
		if left := s.Inventory(); !slices.Equal(left, before) {
			t.Fatalf("after %d steps, to %s, there is left %s", n, p.Steps[n-1].Address, strings.Join(left, " "))
		}
	}
}

// Objects created by controllers in the cluster are deleted with it; objects that only look like
// them stay.
func TestADeletionTakesWhatControllersOfTheClusterMade(t *testing.T) {
	s := play(t, options())
	g := wantedGraph(t, testCluster, "us-test1", "", "nodes")
	s.apply(testCluster, g)
	others := wantedGraph(t, endsAlike, "us-test1", "", "nodes")
	s.apply(endsAlike, others)
	before := s.Inventory()
	s.controllers(endsAlike, "b")
	own := s.Inventory()
	s.controllers(testCluster, "a")
	s.remove(testCluster, g)
	s.apply(testCluster, g) // restores everything except what the controllers created
	if left := s.Inventory(); !slices.Equal(withoutMachines(left), withoutMachines(own)) {
		t.Errorf("there was\n%s\nand is\n%s", strings.Join(own, "\n"), strings.Join(left, "\n"))
	}
	s.remove(endsAlike, others)
	s.remove(testCluster, g)
	s.apply(endsAlike, others)
	s.apply(testCluster, g)
	if left := s.Inventory(); !slices.Equal(withoutMachines(left), withoutMachines(before)) {
		t.Errorf("there was\n%s\nand is\n%s", strings.Join(before, "\n"), strings.Join(left, "\n"))
	}
}

// controllers creates what the cloud controller, the storage driver and dns-controller create for
// the cluster, and makes a group abandon a machine.
func (s *stage) controllers(cluster, letter string) {
	s.Helper()
	name := "a" + strings.Repeat(letter, 31)
	network := "projects/" + testProject + "/global/networks/" + gcename.Network(cluster)
	s.done(s.c.Compute.Firewalls.Insert(testProject, &compute.Firewall{Name: "k8s-fw-" + name, Network: network, TargetTags: []string{gcename.Tag(gcename.Node, cluster)},
		SourceRanges: []string{"0.0.0.0/0"}, Allowed: []*compute.FirewallAllowed{{IPProtocol: "tcp", Ports: []string{"80"}}}}).Do())
	s.done(s.c.Compute.Firewalls.Insert(testProject, &compute.Firewall{Name: "k8s-" + letter + "-node-http-hc", Network: network, TargetTags: []string{gcename.Tag(gcename.Node, cluster)},
		SourceRanges: []string{"130.211.0.0/22"}, Allowed: []*compute.FirewallAllowed{{IPProtocol: "tcp", Ports: []string{"10256"}}}}).Do())
	check := "k8s-" + letter + "-node"
	s.done(s.c.Compute.HttpHealthChecks.Insert(testProject, &compute.HttpHealthCheck{Name: check, Port: 10256, RequestPath: "/healthz"}).Do())
	s.done(s.c.Compute.TargetPools.Insert(testProject, testRegion, &compute.TargetPool{Name: name, HealthChecks: []string{"projects/" + testProject + "/global/httpHealthChecks/" + check}}).Do())
	s.done(s.c.Compute.ForwardingRules.Insert(testProject, testRegion, &compute.ForwardingRule{Name: name, LoadBalancingScheme: "EXTERNAL", IPProtocol: "TCP", PortRange: "80-80",
		Target: s.c.regional("targetPools", name)}).Do())
	s.done(s.c.Compute.Disks.Insert(testProject, testZone, &compute.Disk{Name: "pvc-" + letter, SizeGb: 10, Type: "projects/" + testProject + "/zones/" + testZone + "/diskTypes/pd-ssd",
		Labels:      map[string]string{gcecloud.ClusterLabel: gcecloud.Label(cluster)},
		Description: `{"kubernetes.io/created-for/pvc/name":"data","kubernetes.io/created-for/pvc/namespace":"shop"}`}).Do())
	managed := gcename.Group("cp", testZone, cluster)
	machines, err := s.c.Compute.InstanceGroupManagers.ListManagedInstances(testProject, testZone, managed).Do()
	if err != nil || len(machines.ManagedInstances) != 1 {
		s.Fatalf("there is no machine: %v", err)
	}
	machine := gceapi.Link(machines.ManagedInstances[0].Instance)
	s.done(s.c.Compute.Instances.AttachDisk(testProject, testZone, gceapi.Name(machine), &compute.AttachedDisk{DeviceName: "pvc-" + letter,
		Source: "projects/" + testProject + "/zones/" + testZone + "/disks/pvc-" + letter}).Do())
	s.done(s.c.Compute.InstanceGroupManagers.AbandonInstances(testProject, testZone, managed,
		&compute.InstanceGroupManagersAbandonInstancesRequest{Instances: []string{gceapi.URL(machine)}}).Do())
	s.createServiceBalancer(cluster, letter, network, machine)
	s.done(s.c.Compute.Routes.Insert(testProject, &compute.Route{Name: gcecloud.Label(cluster) + "-12345678-1234-1234-1234-1234567890a" + letter, Network: network,
		DestRange: "10.99.0.0/24", Priority: 1000, NextHopInstance: gceapi.URL(machine)}).Do())
	for _, record := range []struct{ name, kind, value string }{{"api.internal." + cluster, "A", "10.0.16.2"}, {"kops-controller.internal." + cluster, "A", "10.0.16.2"}} {
		if _, err := s.c.DNS.Changes.Create(testProject, "example", &dns.Change{Additions: []*dns.ResourceRecordSet{{Name: record.name + ".", Type: record.kind, Ttl: 60, Rrdatas: []string{record.value}}}}).Do(); err != nil {
			s.Fatal(err)
		}
	}
}

// createServiceBalancer creates an internal load balancer, as the cloud controller does for a service.
func (s *stage) createServiceBalancer(cluster, letter, network, machine string) {
	s.Helper()
	name, group, check := "ai"+strings.Repeat(letter, 30), "k8s-ig--"+letter, "k8s-i"+letter+"-node"
	s.done(s.c.Compute.Firewalls.Insert(testProject, &compute.Firewall{Name: "k8s-fw-" + name, Network: network, TargetTags: []string{gcename.Tag(gcename.Node, cluster)},
		SourceRanges: []string{"0.0.0.0/0"}, Allowed: []*compute.FirewallAllowed{{IPProtocol: "tcp", Ports: []string{"80"}}}}).Do())
	s.done(s.c.Compute.HealthChecks.Insert(testProject, &compute.HealthCheck{Name: check, Type: "HTTP", HttpHealthCheck: &compute.HTTPHealthCheck{Port: 10256}}).Do())
	s.done(s.c.Compute.InstanceGroups.Insert(testProject, testZone, &compute.InstanceGroup{Name: group}).Do())
	s.done(s.c.Compute.InstanceGroups.AddInstances(testProject, testZone, group, &compute.InstanceGroupsAddInstancesRequest{Instances: []*compute.InstanceReference{{Instance: gceapi.URL(machine)}}}).Do())
	s.done(s.c.Compute.RegionBackendServices.Insert(testProject, testRegion, &compute.BackendService{Name: name, LoadBalancingScheme: "INTERNAL", Protocol: "TCP",
		HealthChecks: []string{"projects/" + testProject + "/global/healthChecks/" + check},
		Backends:     []*compute.Backend{{Group: "projects/" + testProject + "/zones/" + testZone + "/instanceGroups/" + group, BalancingMode: "CONNECTION"}}}).Do())
	s.done(s.c.Compute.ForwardingRules.Insert(testProject, testRegion, &compute.ForwardingRule{Name: name, LoadBalancingScheme: "INTERNAL", IPProtocol: "TCP", Ports: []string{"80"},
		BackendService: s.c.regional("backendServices", name), Network: network, Subnetwork: s.c.regional("subnetworks", gcename.Suffixed("us-test1", cluster))}).Do())
}

func TestADeletionSaysWhoseDataGo(t *testing.T) {
	s := play(t, options())
	s.apply(testCluster, wantedGraph(t, testCluster, "us-test1", "", "nodes"))
	s.controllers(testCluster, "a")
	var got []string
	for _, step := range s.Plan(testCluster, &graph.Graph{}, true).Steps {
		if holds := step.Kind.Holds(step.Have); holds != "" {
			got = append(got, step.Key+": "+holds)
		}
	}
	slices.Sort(got)
	if want := []string{object("a-etcd-main") + ": data of etcd main", "pvc-a: data of the claim shop/data"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for size, want := range map[int]string{0: "", 1: "1 machine", 3: "3 machines"} {
		if got := machineCount(&InstanceGroupManager{TargetSize: size}); got != want {
			t.Errorf("%d: got %q", size, got)
		}
	}
}

// An update does not touch what others created: grants to the cluster's accounts, routes to its
// machines, and records in the zone.
func TestAnUpdateLeavesWhatOthersMadeForTheCluster(t *testing.T) {
	s := play(t, options())
	g := wantedGraph(t, testCluster, "us-test1", "", "nodes")
	s.apply(testCluster, g)
	s.controllers(testCluster, "a")
	s.done(s.c.Compute.Firewalls.Insert(testProject, &compute.Firewall{Name: object("monitoring"), Network: "projects/" + testProject + "/global/networks/" + gcename.Network(testCluster),
		TargetTags: []string{gcename.Tag(gcename.Node, testCluster)}, SourceRanges: []string{"192.0.2.0/24"}, Allowed: []*compute.FirewallAllowed{{IPProtocol: "tcp"}}}).Do())
	member := accountMember + gcename.AccountEmail(gcename.Account(gcename.ControlPlane, testCluster), testProject)
	if err := grantRole(t.Context(), s.c, testProject, s.c.projectPolicy(testProject), "roles/viewer", member); err != nil {
		t.Fatal(err)
	}
	s.checkSettled(testCluster, g)
}

func TestARuleThatIsNoLongerWantedIsClosedWithoutPruning(t *testing.T) {
	s := play(t, options())
	g := wantedGraph(t, testCluster, "us-test1", "", "nodes")
	s.apply(testCluster, g)
	less := g.Select(func(n resource.Node) bool { return n.Name != "ssh-external-to-node" })
	p := s.Plan(testCluster, less, false)
	if got := enginetest.Changes(p); len(got) != 1 || !strings.HasPrefix(got[0], "delete google_compute_firewall/"+object("ssh-external-to-node")) {
		t.Errorf("got %q", got)
	}
}

func TestAnAccountThatIsGoneHasNoRolesAfterADeletion(t *testing.T) {
	s := play(t, options())
	g := wantedGraph(t, testCluster, "us-test1", "", "nodes")
	before := s.Inventory()
	s.apply(testCluster, g)
	email := gcename.AccountEmail(gcename.Account(gcename.ControlPlane, testCluster), testProject)
	if _, err := s.c.IAM.Projects.ServiceAccounts.Delete(accountName(email)).Do(); err != nil {
		t.Fatal(err)
	}
	s.remove(testCluster, g)
	if left := s.Inventory(); !slices.Equal(left, before) {
		t.Errorf("there is left %s", strings.Join(left, " "))
	}
}

// Changing a member of a policy preserves what others have written into it: conditions, members,
// and concurrent changes.
func TestAMemberChangesNothingElseOfAPolicy(t *testing.T) {
	s := play(t, options())
	const role = "roles/container.serviceAgent"
	p, err := s.c.Projects.Projects.GetIamPolicy(testProject, &cloudresourcemanager.GetIamPolicyRequest{Options: &cloudresourcemanager.GetPolicyOptions{RequestedPolicyVersion: 3}}).Do()
	if err != nil {
		t.Fatal(err)
	}
	member := s.account()
	p.Version = 3
	p.Bindings = append(p.Bindings, &cloudresourcemanager.Binding{Role: role, Members: []string{"user:a@example.com"}, Condition: &cloudresourcemanager.Expr{Title: "t", Expression: `request.time < timestamp("2030-01-01T00:00:00Z")`}},
		&cloudresourcemanager.Binding{Role: role, Members: []string{"user:b@example.com"}})
	if _, err := s.c.Projects.Projects.SetIamPolicy(testProject, &cloudresourcemanager.SetIamPolicyRequest{Policy: p}).Do(); err != nil {
		t.Fatal(err)
	}
	before := s.Inventory()
	s.Inject(emulator.Fault{Method: "cloudresourcemanager.projects.setIamPolicy", Error: emulator.Error{Status: 409, Reason: "aborted", Message: "There were concurrent policy changes."}})
	want := ProjectMember{Project: testProject, Role: role, Member: lit(member)}
	var g graph.Graph
	if err := g.Add(ProjectMembers.New("m", want)); err != nil {
		t.Fatal(err)
	}
	only := func(g *graph.Graph, all bool) *plan.Plan {
		p, err := plan.Make(g, plan.Snapshot{ProjectMembers.Name: s.objects(ProjectMembers.Erase(), all, g)}, []resource.Any{ProjectMembers.Erase()}, plan.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if err := s.Carry(testCluster, &g, only(&g, false), false); err != nil {
		t.Fatal(err)
	}
	if got := s.Inventory(); len(got) != len(before)+1 || !slices.Contains(got, "projects/"+testProject+"/policy/"+role+"/"+member) {
		t.Errorf("there is %s", strings.Join(got, " "))
	}
	if err := s.Carry(testCluster, &graph.Graph{}, only(&graph.Graph{}, false), false); err != nil {
		t.Fatal(err)
	}
	if got := s.Inventory(); !slices.Equal(got, before) {
		t.Errorf("there is left %s", strings.Join(got, " "))
	}
	now, err := s.c.Projects.Projects.GetIamPolicy(testProject, &cloudresourcemanager.GetIamPolicyRequest{Options: &cloudresourcemanager.GetPolicyOptions{RequestedPolicyVersion: 3}}).Do()
	if err != nil || !slices.ContainsFunc(now.Bindings, func(b *cloudresourcemanager.Binding) bool { return b.Condition != nil && b.Condition.Title == "t" }) {
		t.Errorf("the condition is gone: %v", err)
	}
}

func (s *stage) objects(k resource.Any, all bool, g *graph.Graph) []resource.Object {
	s.Helper()
	list, err := k.Observe(s.Context(), s.c, resource.Scope{Cluster: testCluster, All: all})
	if err != nil {
		s.Fatal(err)
	}
	return list
}
