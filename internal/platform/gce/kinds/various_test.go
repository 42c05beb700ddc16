package kinds

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/api/compute/v1"
	"google.golang.org/api/dns/v1"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/emulator"
	"kops.local/kops/internal/platform/gce/gcecloud"
	"kops.local/kops/internal/platform/gce/gcename"
	"kops.local/kops/internal/platform/zones"
)

func TestShrinkingADiskIsRefusedWithARemedy(t *testing.T) {
	s := play(t, options())
	d := build(s, &Disks, Disk{Name: object("a-etcd-main"), Zone: testZone, Type: "pd-ssd", SizeGiB: 20, Labels: Labels{"k8s-io-etcd-main": "a-2fa"}})
	for what, change := range map[string]func(*Disk){"20 or more": func(d *Disk) { d.SizeGiB = 10 }, "volumeIops": func(d *Disk) { d.IOPS = 100 }} {
		want := *d
		change(&want)
		k := Disks.Erase()
		_, err := k.Set(t.Context(), s.c, d, &want, k.Schema().Diff(&want, d))
		if !fault.Is(err, fault.Permanent) || !strings.Contains(fault.Remedy(err), what) {
			t.Errorf("got %v, %q", err, fault.Remedy(err))
		}
	}
}

// kOps labels disks after creating them. A disk left without labels is adopted; one with any labels
// is not.
func TestADiskWithoutLabelsIsTaken(t *testing.T) {
	want := Disk{Name: object("a-etcd-main"), Zone: testZone, Type: "pd-ssd", SizeGiB: 20, Labels: Labels{gcecloud.ClusterLabel: gcecloud.Label(testCluster), "k8s-io-etcd-main": "a-2fa"}}
	for labels, taken := range map[string]bool{"": true, "theirs": false} {
		s := play(t, options())
		d := &compute.Disk{Name: want.Name, SizeGb: 20, Type: "projects/" + testProject + "/zones/" + testZone + "/diskTypes/pd-ssd"}
		if labels != "" {
			d.Labels = map[string]string{labels: "x"}
		}
		s.done(s.c.Compute.Disks.Insert(testProject, testZone, d).Do())
		made := want
		err := createDisk(t.Context(), s.c, &made)
		if taken != (err == nil) || !taken && fault.Remedy(err) == "" {
			t.Errorf("labels %q: %v", labels, err)
		}
		if got := keys(s, &Disks, resource.Scope{Cluster: testCluster}); taken != slices.Contains(got, want.Name) {
			t.Errorf("labels %q: the cluster has %q", labels, got)
		}
	}
}

func TestLabelsOfOthersStay(t *testing.T) {
	s := play(t, options())
	labels := Labels{gcecloud.ClusterLabel: gcecloud.Label(testCluster), "k8s-io-etcd-main": "a-2fa"}
	d := build(s, &Disks, Disk{Name: object("a-etcd-main"), Zone: testZone, Type: "pd-ssd", SizeGiB: 20, Labels: labels})
	current, err := s.c.Compute.Disks.Get(testProject, testZone, d.Name).Do()
	if err != nil {
		t.Fatal(err)
	}
	current.Labels["team"] = "a"
	s.done(s.c.Compute.Disks.SetLabels(testProject, testZone, d.Name, &compute.ZoneSetLabelsRequest{Labels: current.Labels, LabelFingerprint: current.LabelFingerprint}).Do())
	want := *d
	want.Labels = Labels{gcecloud.ClusterLabel: gcecloud.Label(testCluster), "k8s-io-etcd-events": "a-2fa"}
	k := Disks.Erase()
	have := observed(s, &Disks, resource.Scope{Cluster: testCluster})[0]
	if _, err := k.Set(t.Context(), s.c, have, &want, k.Schema().Diff(&want, have)); err != nil {
		t.Fatal(err)
	}
	got := observed(s, &Disks, resource.Scope{Cluster: testCluster})[0].Labels
	if len(got) != 3 || got["team"] != "a" || got["k8s-io-etcd-events"] == "" {
		t.Errorf("got %v", got)
	}
}

// An existing record is valid whatever its content, and only the cluster's own names are removed
// from a zone.
func TestRecordsOfOthersStay(t *testing.T) {
	s := play(t, options())
	others := []string{"www.example.com.", "app.k.example.com.", "api.my.k.example.com.", "api.k.example.com.example.com.", "etcd-a.internal.my.k.example.com."}
	for _, name := range append(others, "api.k.example.com.") {
		if _, err := s.c.DNS.Changes.Create(testProject, "example", &dns.Change{Additions: []*dns.ResourceRecordSet{{Name: name, Type: "A", Ttl: 60, Rrdatas: []string{"192.0.2.1"}}}}).Do(); err != nil {
			t.Fatal(err)
		}
	}
	p := zones.Placeholder{Zone: "example", Name: "api." + testCluster, Type: "A", TTL: 10, Values: []string{"203.0.113.123"}}
	if err := Placeholders.Create(t.Context(), s.c, &p); err != nil {
		t.Errorf("a record that is there: %v", err)
	}
	found := observed(s, &Placeholders, everything)
	if len(found) != 1 || found[0].Name != "api.k.example.com" || !slices.Equal(found[0].Values, []string{"192.0.2.1"}) {
		t.Errorf("a deletion finds %+v", found)
	}
}

// A location that does not respond is not treated as empty.
func TestAZoneThatDoesNotAnswerIsAnError(t *testing.T) {
	s := play(t, options())
	s.Silence("us-test1-b", true)
	for _, k := range []resource.Any{Disks.Erase(), InstanceGroupManagers.Erase(), InstanceTemplates.Erase()} {
		if _, err := k.Observe(t.Context(), s.c, resource.Scope{Cluster: testCluster}); !fault.Is(err, fault.Lost) {
			t.Errorf("%s: got %v", k.KindName(), err)
		}
	}
}

func TestAZoneOfAnotherRegionNeedNotAnswer(t *testing.T) {
	o := options()
	o.Regions = map[string][]string{testRegion: {testZone}, "us-test2": {"us-test2-a"}}
	s := play(t, o)
	s.Silence("us-test2-a", true)
	if _, err := Disks.Erase().Observe(t.Context(), s.c, resource.Scope{Cluster: testCluster}); err != nil {
		t.Error(err)
	}
}

// Accounts and policies from which nothing is wanted need no permission to be listed.
func TestWhoSharesAnAccountNeedsNoPermissionOnIAM(t *testing.T) {
	s := play(t, options())
	s.Deny("iam.serviceAccounts.list", "resourcemanager.projects.getIamPolicy", "storage.buckets.getIamPolicy")
	for _, k := range []resource.Any{ServiceAccounts.Erase(), ProjectMembers.Erase(), BucketMembers.Erase()} {
		if found, err := k.Observe(t.Context(), s.c, resource.Scope{Cluster: testCluster, Adopted: nil}); err != nil || len(found) > 0 {
			t.Errorf("%s: %v, %v", k.KindName(), found, err)
		}
		_, err := k.Observe(t.Context(), s.c, resource.Scope{Cluster: testCluster, Names: []string{"state roles/viewer x"}})
		if lenient := k.KindName() == BucketMembers.Name; lenient && err != nil || !lenient && !fault.Is(err, fault.Denied) {
			t.Errorf("%s is wanted: %v", k.KindName(), err)
		}
	}
}

func TestAnotherObjectOfTheNameIsAnErrorWithARemedy(t *testing.T) {
	s := play(t, options())
	s.done(s.c.Compute.HttpHealthChecks.Insert(testProject, &compute.HttpHealthCheck{Name: object("api")}).Do())
	h := HTTPHealthCheck{Name: object("api"), Port: 3990, Path: "/healthz"}
	if err := HTTPHealthChecks.Create(t.Context(), s.c, &h); !fault.Is(err, fault.Taken) || fault.Remedy(err) == "" {
		t.Errorf("got %v, %q", err, fault.Remedy(err))
	}
	a := ServiceAccount{AccountID: gcename.Account(gcename.Node, testCluster), Project: testProject, DisplayName: "node"}
	if err := createAccount(t.Context(), s.c, &a); err != nil {
		t.Fatal(err)
	}
	if err := createAccount(t.Context(), s.c, &a); err != nil { // as after a lost answer
		t.Errorf("the same account: %v", err)
	}
	a.DisplayName = "other"
	if err := createAccount(t.Context(), s.c, &a); !fault.Is(err, fault.Taken) {
		t.Errorf("another account: %v", err)
	}
}

// Both NATs of a router are kept, no matter who created them.
func TestANATOfOthersStaysOnTheRouter(t *testing.T) {
	s := play(t, options())
	g := s.ground()
	r := build(s, &Routers, Router{Name: object("nat"), Network: lit(g.network.ID)})
	more := build(s, &Subnetworks, Subnetwork{Name: object("more"), Network: lit(g.network.ID), Region: testRegion, CIDR: "10.0.32.0/20", StackType: "IPV4_ONLY"})
	nat := func(name, subnetwork string) RouterNAT {
		return RouterNAT{Name: name, Router: lit(r.ID), Region: testRegion, Allocation: "AUTO_ONLY", Source: "LIST_OF_SUBNETWORKS",
			Subnetworks: []NATSubnetwork{{lit(subnetwork), []string{"ALL_IP_RANGES"}}}}
	}
	build(s, &RouterNATs, nat("theirs", more.ID))
	own := build(s, &RouterNATs, nat(object("nat"), g.subnetwork.ID))
	if got := keys(s, &RouterNATs, resource.Scope{Cluster: testCluster}); !slices.Equal(got, []string{object("nat")}) {
		t.Errorf("the cluster has %q", got)
	}
	if err := RouterNATs.Delete(t.Context(), s.c, own); err != nil {
		t.Fatal(err)
	}
	current, err := s.c.Compute.Routers.Get(testProject, testRegion, r.Name).Do()
	if err != nil || len(current.Nats) != 1 || current.Nats[0].Name != "theirs" {
		t.Errorf("there are %d NATs: %v", len(current.Nats), err)
	}
}

// A new account is not immediately known to the services that are to grant it access.
func TestANewAccountIsWaitedFor(t *testing.T) {
	o := options()
	o.AccountDelay = 40e9
	s := play(t, o)
	g := wantedGraph(t, testCluster, "us-test1", "", "nodes")
	s.apply(testCluster, g)
	s.checkSettled(testCluster, g)
}

func TestAQuotaEndsAnUpdateWithItsName(t *testing.T) {
	o := options()
	o.Quotas = map[string]float64{"NETWORKS": 0}
	s := play(t, o)
	g := wantedGraph(t, testCluster, "us-test1", "")
	err := s.Carry(testCluster, g, s.Plan(testCluster, g, false), false)
	if err == nil || !strings.Contains(err.Error(), "request a higher limit of NETWORKS") {
		t.Errorf("got %v", err)
	}
}

func TestADeniedPermissionIsNamed(t *testing.T) {
	s := play(t, options())
	s.Deny("compute.networks.create")
	g := wantedGraph(t, testCluster, "us-test1", "")
	err := s.Carry(testCluster, g, s.Plan(testCluster, g, false), false)
	if err == nil || !strings.Contains(err.Error(), "permission compute.networks.create") {
		t.Errorf("got %v", err)
	}
}

// Whichever operation fails, the update reports why, and the next update continues.
func TestAnotherUpdateGoesOnWhereAnOperationFailed(t *testing.T) {
	for n := range 25 {
		s := play(t, options())
		s.Inject(emulator.Fault{Skip: n, When: emulator.Inside, Error: emulator.Error{Status: http.StatusForbidden, Reason: "quotaExceeded", Message: "Quota 'X' exceeded.  Limit: 1.0"}})
		g := wantedGraph(t, testCluster, "us-test1", "")
		err := s.Carry(testCluster, g, s.Plan(testCluster, g, false), false)
		if err == nil {
			if writes(s) > n {
				continue // no operation belongs to the call
			}
			break
		}
		if !strings.Contains(err.Error(), "a higher limit of X") {
			t.Errorf("at write %d: %v", n, err)
		}
		s.apply(testCluster, g)
		s.checkSettled(testCluster, g)
	}
}

// Other users' objects in the cluster's network are named in the error, and not waited for.
func TestANetworkThatOthersUseIsNotWaitedFor(t *testing.T) {
	s := play(t, options())
	g := wantedGraph(t, testCluster, "us-test1", "", "nodes")
	s.apply(testCluster, g)
	s.done(s.c.Compute.Firewalls.Insert(testProject, &compute.Firewall{Name: "theirs", Network: "projects/" + testProject + "/global/networks/" + gcename.Network(testCluster),
		SourceRanges: []string{"192.0.2.0/24"}, Allowed: []*compute.FirewallAllowed{{IPProtocol: "tcp"}}}).Do())
	err := s.Carry(testCluster, &graph.Graph{}, s.Plan(testCluster, &graph.Graph{}, true), true)
	if err == nil || !strings.Contains(err.Error(), "is in use by the firewall rule theirs, outside this cluster") || strings.Contains(err.Error(), "gave up") {
		t.Errorf("got %v", err)
	}
}

// Names have dashes instead of dots, so two clusters may have the same resource names. Google's own
// clusters have other names.
func TestAClusterOfTheSameNamesIsRefused(t *testing.T) {
	s := play(t, options())
	google := networkTemplate()
	delete(google.Metadata, gcecloud.MetadataGroup)
	p := google.properties()
	n := build(s, &Networks, Network{Name: "default"})
	sub := build(s, &Subnetworks, Subnetwork{Name: "default", Network: lit(n.ID), Region: testRegion, CIDR: "10.128.0.0/20", StackType: "IPV4_ONLY"})
	p.NetworkInterfaces, p.Metadata.Items[0].Value = []*compute.NetworkInterface{{Subnetwork: sub.ID}}, new("k-example-com")
	s.done(s.c.Compute.InstanceTemplates.Insert(testProject, &compute.InstanceTemplate{Name: "gke-1", Properties: p}).Do())
	s.apply(testCluster, wantedGraph(t, testCluster, "us-test1", "", "nodes"))
	for _, k := range []resource.Any{InstanceTemplates.Erase(), Subnetworks.Erase()} {
		if _, err := k.Observe(t.Context(), s.c, resource.Scope{Cluster: "k-example.com"}); !fault.Is(err, fault.Permanent) || fault.Remedy(err) == "" {
			t.Errorf("got %v", err)
		}
	}
}

// Whichever write of a change fails, or loses its response, the change is made once.
func TestAChangeOutlivesTheFailureOfAnyWrite(t *testing.T) {
	for _, when := range []emulator.Moment{emulator.Before, emulator.After, emulator.Lost} {
		for n := 0; ; n++ {
			s := play(t, options())
			g := wantedGraph(t, testCluster, "us-test1", "")
			s.apply(testCluster, g)
			made := writes(s)
			for n := range g.All() {
				switch o := n.Want.(type) {
				case *Disk:
					o.SizeGiB, o.Labels = 40, Labels{gcecloud.ClusterLabel: gcecloud.Label(testCluster), "k8s-io-etcd-main": "a-2fb"}
				case *Firewall:
					o.Disabled = true
				case *HealthCheck:
					o.TCP.Port = 8443
				case *HTTPHealthCheck:
					o.Port = 3991
				case *TargetPool:
					o.HealthChecks = nil
				case *ForwardingRule:
					o.Labels = Labels{gcecloud.ClusterLabel: gcecloud.Label(testCluster), "name": "other"}
				case *InstanceTemplate:
					o.MachineType = "e2-standard-4"
				case *Subnetwork:
					o.Secondary = []SecondaryRange{{"pods", "10.4.0.0/14"}}
				case *ServiceAccount:
					o.Description = "other"
				case *RouterNAT:
					o.Source, o.Subnetworks = "ALL_SUBNETWORKS_ALL_IP_RANGES", nil
				}
			}
			s.Inject(emulator.Fault{Skip: n, When: when})
			s.apply(testCluster, g)
			s.checkSettled(testCluster, g)
			if writes(s)-made <= n {
				if n < 14 {
					t.Errorf("there were only %d writes", n)
				}
				break
			}
			if t.Failed() {
				t.Fatalf("at write %d", n)
			}
		}
	}
}
