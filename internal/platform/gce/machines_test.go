package gce

import (
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/compute/v1"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/gce/emulator"
	"kops.local/kops/internal/platform/gce/emulator/emulatortest"
	"kops.local/kops/internal/platform/gce/gcecloud"
	"kops.local/kops/internal/platform/gce/gcename"
	"kops.local/kops/internal/platform/gce/kinds"
)

// fleet is a project with a cluster's instance group nodes.
type fleet struct {
	*testing.T
	cloud   *emulator.Emulator
	session *platform.Session
	cluster *api.Cluster
	manager string
}

func newFleet(t *testing.T, size int64, o emulator.Options) *fleet {
	t.Helper()
	f := &fleet{T: t, cluster: &api.Cluster{}}
	f.cluster.Name = "c.example.com"
	f.cluster.Spec.CloudProvider.GCE = &api.GCESpec{Project: testProject}
	var url string
	f.cloud, url = emulatortest.Serve(t, o)
	var err error
	f.session, err = Provider(Options{Endpoint: url}).Connect(t.Context(), platform.Config{Region: testRegion, Cluster: f.cluster})
	f.ok(err)
	f.manager = gcename.Group("nodes", testZone, f.cluster.Name)
	c := f.api()
	f.waitDone(c.Networks.Insert(testProject, &compute.Network{Name: "n", ForceSendFields: []string{"AutoCreateSubnetworks"}}).Do())
	f.waitDone(c.Subnetworks.Insert(testProject, testRegion, &compute.Subnetwork{Name: "s", Network: "global/networks/n", IpCidrRange: "10.0.16.0/20"}).Do())
	f.template("nodes-1", "e2-medium")
	f.waitDone(c.InstanceGroupManagers.Insert(testProject, testZone, &compute.InstanceGroupManager{Name: f.manager, BaseInstanceName: "nodes", TargetSize: size,
		InstanceTemplate: "global/instanceTemplates/nodes-1", UpdatePolicy: &compute.InstanceGroupManagerUpdatePolicy{Type: "OPPORTUNISTIC", MinimalAction: "REPLACE"}}).Do())
	return f
}

func (f *fleet) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fleet) client() *kinds.Client { return f.session.Client.(*kinds.Client) }

func (f *fleet) api() *compute.Service { return f.client().Compute }

// waitDone waits for an operation that the SDK returned.
func (f *fleet) waitDone(op *compute.Operation, err error) {
	f.Helper()
	f.ok(f.client().Await(f.Context())(op, err))
}

func (f *fleet) template(name, machineType string) {
	f.Helper()
	f.waitDone(f.api().InstanceTemplates.Insert(testProject, &compute.InstanceTemplate{Name: name, Properties: &compute.InstanceProperties{MachineType: machineType,
		Labels:            map[string]string{gcecloud.ClusterLabel: gcecloud.Label(f.cluster.Name), gcecloud.GroupLabel: "nodes"},
		Metadata:          &compute.Metadata{Items: []*compute.MetadataItems{{Key: gcecloud.MetadataCluster, Value: new(f.cluster.Name)}, {Key: gcecloud.MetadataGroup, Value: new("nodes")}}},
		Disks:             []*compute.AttachedDisk{{Boot: true, AutoDelete: true, InitializeParams: &compute.AttachedDiskInitializeParams{DiskSizeGb: 20, SourceImage: "projects/debian-cloud/global/images/debian"}}},
		NetworkInterfaces: []*compute.NetworkInterface{{Subnetwork: "regions/" + testRegion + "/subnetworks/s"}}}}).Do())
}

// groups returns the machines as kops sees them.
func (f *fleet) groups() []platform.MachineGroup {
	f.Helper()
	out, err := listMachines(f.Context(), f.session, f.cluster, nil)
	f.ok(err)
	return out
}

// waitForSize waits until the only group has size running machines.
func (f *fleet) waitForSize(size int) platform.MachineGroup {
	f.Helper()
	for range 200 {
		all := f.groups()
		if len(all) == 1 && len(all[0].Machines) == size && !slices.ContainsFunc(all[0].Machines, func(m platform.Machine) bool { return !m.Running }) {
			return all[0]
		}
		time.Sleep(10 * time.Millisecond)
	}
	f.Fatalf("the machines are %+v", f.groups())
	return platform.MachineGroup{}
}

func TestMachinesAreSeenInTwoQuestions(t *testing.T) {
	f := newFleet(t, 3, emulator.Options{})
	g := f.waitForSize(3)
	m := g.Machines[0]
	if g.Name != "nodes" || g.Target != 3 || m.Node != m.Name || m.Zone != testZone || m.Group != "nodes" || m.State != "RUNNING" || m.Outdated || m.Detached || m.Created.IsZero() || len(m.Addresses) != 1 {
		t.Errorf("got %+v", g)
	}
	before := f.requests()
	if f.groups(); f.requests()-before != 2 {
		t.Errorf("%d requests", f.requests()-before)
	}
	other := *f.cluster
	other.Name = "d.example.com"
	if got, err := listMachines(t.Context(), f.session, &other, nil); err != nil || len(got) > 0 {
		t.Errorf("of another cluster: %+v, %v", got, err)
	}
}

func (f *fleet) requests() (n int) {
	for _, k := range f.cloud.Requests() {
		n += k
	}
	return n
}

// changeTemplate gives the group another template.
func (f *fleet) changeTemplate() {
	f.Helper()
	f.template("nodes-2", "e2-standard-2")
	f.waitDone(f.api().InstanceGroupManagers.SetInstanceTemplate(testProject, testZone, f.manager, &compute.InstanceGroupManagersSetInstanceTemplateRequest{InstanceTemplate: "global/instanceTemplates/nodes-2"}).Do())
}

func TestReasonsForOutdatedMachines(t *testing.T) {
	f := newFleet(t, 2, emulator.Options{})
	f.waitForSize(2)
	f.changeTemplate()
	g := f.waitForSize(2)
	if m := g.Machines[0]; !m.Outdated || m.Type != "e2-medium" || !g.Machines[1].Outdated { // the type that it has
		t.Errorf("got %+v", g)
	}
	got, err := drift(t.Context(), f.session, f.cluster, nil, g.Machines[:1])
	f.ok(err)
	if want := (platform.Change{Field: "spec.machineType", Have: "e2-medium", Want: "e2-standard-2"}); len(got) != 1 || len(got[g.Machines[0].Name].Changes) != 1 || got[g.Machines[0].Name].Changes[0] != want {
		t.Errorf("got %+v", got)
	}
}

// A roll detaches a machine, and terminates it when its replacement has joined. Each call can be
// repeated.
func TestAMachineIsReplacedByASuccessorOfAnotherName(t *testing.T) {
	f := newFleet(t, 2, emulator.Options{Latency: 5 * time.Millisecond, Boot: 10 * time.Millisecond})
	f.waitForSize(2)
	f.changeTemplate()
	old := f.waitForSize(2).Machines[0]
	for range 2 { // an interrupted caller retries
		f.ok(detach(t.Context(), f.session, f.cluster, old))
	}
	g := f.waitForSize(3)
	if g.Target != 2 {
		t.Errorf("the group is to have %d machines", g.Target)
	}
	for _, m := range g.Machines {
		if m.Name == old.Name && !(m.Detached && m.Outdated) || m.Name == successorName(old.Name) && (m.Detached || m.Outdated) {
			t.Errorf("got %+v", m)
		}
	}
	for range 2 {
		f.ok(terminate(t.Context(), f.session, f.cluster, old))
	}
	g = f.waitForSize(2)
	if g.Target != 2 || slices.ContainsFunc(g.Machines, func(m platform.Machine) bool { return m.Name == old.Name }) {
		t.Errorf("got %+v", g)
	}
	last := g.Machines[slices.IndexFunc(g.Machines, func(m platform.Machine) bool { return m.Outdated })]
	f.ok(terminate(t.Context(), f.session, f.cluster, last)) // one that was not detached
	if g = f.waitForSize(2); g.Target != 2 || slices.ContainsFunc(g.Machines, func(m platform.Machine) bool { return m.Outdated }) {
		t.Errorf("got %+v", g)
	}
}

// A machine that is being recreated is not outdated, so that it is not replaced a second time.
func TestAMachineThatIsBeingReplacedIsNotReplacedAgain(t *testing.T) {
	f := newFleet(t, 1, emulator.Options{Boot: time.Minute / 2})
	for len(f.groups()) == 0 || len(f.groups()[0].Machines) == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	f.changeTemplate()
	m := f.groups()[0].Machines[0]
	if m.Running || !m.Outdated {
		t.Errorf("a machine that starts: %+v", m)
	}
	_, err := f.api().InstanceGroupManagers.RecreateInstances(testProject, testZone, f.manager, &compute.InstanceGroupManagersRecreateInstancesRequest{Instances: []string{"zones/" + testZone + "/instances/" + m.Name}}).Do()
	f.ok(err)
	if m = f.groups()[0].Machines[0]; m.Outdated || !m.Detached || m.State != "RECREATING" {
		t.Errorf("a machine that is made anew: %+v", m)
	}
}

func TestTheConsoleIsRead(t *testing.T) {
	f := newFleet(t, 1, emulator.Options{})
	m := f.waitForSize(1).Machines[0]
	r, err := bootRecord(t.Context(), f.session, f.cluster, m)
	if err != nil || !strings.Contains(string(r.Console), m.Name+" login:") {
		t.Errorf("got %q, %v", r.Console, err)
	}
	m.Name = "nobody"
	if _, err := bootRecord(t.Context(), f.session, f.cluster, m); !fault.Is(err, fault.Gone) {
		t.Errorf("of nobody: %v", err)
	}
}

func TestRoomIsWhatTheNarrowestQuotaLeaves(t *testing.T) {
	f := newFleet(t, 2, emulator.Options{Quotas: map[string]float64{"CPUS": 10}})
	f.waitForSize(2)
	g := &api.InstanceGroup{}
	g.Name, g.Spec.Zones, g.Spec.MachineType = "nodes", []string{testZone}, "e2-medium" // which has two CPUs
	got, err := room(t.Context(), f.session, f.cluster, []*api.InstanceGroup{g})
	if err != nil || len(got) != 1 || got[0].Machines != 3 || !strings.Contains(got[0].Why, "CPUS") || !strings.Contains(got[0].Remedy, "CPUS") {
		t.Errorf("got %+v, %v", got, err)
	}
}

// A target pool's only machine stays, because no other would answer.
func TestAMachineLeavesTheTargetPool(t *testing.T) {
	f := newFleet(t, 2, emulator.Options{})
	f.waitDone(f.api().TargetPools.Insert(testProject, testRegion, &compute.TargetPool{Name: "api"}).Do())
	f.waitDone(f.api().InstanceGroupManagers.SetTargetPools(testProject, testZone, f.manager, &compute.InstanceGroupManagersSetTargetPoolsRequest{TargetPools: []string{"regions/" + testRegion + "/targetPools/api"}}).Do())
	g := f.waitForSize(2)
	for range 2 {
		f.ok(deregister(t.Context(), f.session, f.cluster, g.Machines[0]))
	}
	pool, err := f.api().TargetPools.Get(testProject, testRegion, "api").Do()
	if err != nil || len(pool.Instances) != 1 || path.Base(pool.Instances[0]) != g.Machines[1].Name {
		t.Errorf("got %+v, %v", pool, err)
	}
	f.waitDone(f.api().InstanceGroupManagers.Resize(testProject, testZone, f.manager, 1).Do())
	last := f.waitForSize(1).Machines[0]
	f.ok(deregister(t.Context(), f.session, f.cluster, last))
	if pool, err = f.api().TargetPools.Get(testProject, testRegion, "api").Do(); err != nil || last.Name == g.Machines[1].Name && len(pool.Instances) != 1 {
		t.Errorf("got %+v, %v", pool, err)
	}
}

func TestSharedObjectsAreNamedAndKept(t *testing.T) {
	c := &api.Cluster{}
	c.Spec.CloudProvider.GCE = &api.GCESpec{Project: testProject}
	c.Spec.Networking.NetworkID = "host/net"
	c.Spec.Networking.Subnets = []api.ClusterSubnetSpec{{Name: "own", Region: testRegion}, {Name: "s", ID: "theirs", Region: testRegion}}
	got, err := sharedObjects(c)
	if err != nil || len(got) != 2 || got[0].Adopt != "host/net" || got[1].Adopt != "projects/host/regions/us-test1/subnetworks/theirs" {
		t.Errorf("got %+v, %v", got, err)
	}
}
