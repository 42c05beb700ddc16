package gce

import (
	"context"
	"net/http"
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

const (
	testProject = emulatortest.Project
	testRegion  = emulatortest.Region
	testZone    = emulatortest.Zone
)

// project is a project with a cluster's groups of machines, and this platform.
type project struct {
	*testing.T
	*kinds.Client
	platform.Provider
	cloud   *emulatortest.Cloud
	session *platform.Session
	cluster *api.Cluster
}

func newProject(t *testing.T) *project {
	t.Helper()
	p := &project{T: t, cluster: &api.Cluster{}, cloud: emulatortest.Start(t, emulator.Options{})}
	p.cluster.Name = "k.example.com"
	p.Client, p.Provider = kinds.NewClient(*p.cloud.Clients()), Provider(Options{})
	p.session = &platform.Session{Client: p.Client}
	p.waitDone(p.Compute.Networks.Insert(testProject, &compute.Network{Name: gcename.Network(p.cluster.Name), ForceSendFields: []string{"AutoCreateSubnetworks"}}).Do())
	p.waitDone(p.Compute.Subnetworks.Insert(testProject, testRegion, &compute.Subnetwork{Name: "subnet", Network: "global/networks/" + gcename.Network(p.cluster.Name), IpCidrRange: "10.0.16.0/20"}).Do())
	return p
}

func (p *project) ok(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func (p *project) waitDone(op *compute.Operation, err error) {
	p.Helper()
	p.ok(p.Await(p.Context())(op, err))
}

// settle waits until pending operations are done.
func (p *project) settle() {
	p.Helper()
	p.ok(p.cloud.Sleep(p.Context(), time.Minute))
}

// template creates a template for a group, and returns its link.
func (p *project) template(group, name, machine string) string {
	p.Helper()
	t := &compute.InstanceTemplate{Name: name, Properties: &compute.InstanceProperties{MachineType: machine,
		Labels: map[string]string{gcecloud.ClusterLabel: gcecloud.Label(p.cluster.Name), gcecloud.GroupLabel: group},
		Metadata: &compute.Metadata{Items: []*compute.MetadataItems{{Key: gcecloud.MetadataCluster, Value: &p.cluster.Name}, {Key: gcecloud.MetadataGroup, Value: &group},
			{Key: gcecloud.MetadataUserData, Value: new("#!/bin/bash\n")}}},
		Disks: []*compute.AttachedDisk{{Boot: true, AutoDelete: true, InitializeParams: &compute.AttachedDiskInitializeParams{
			SourceImage: "projects/ubuntu-os-cloud/global/images/ubuntu-2404-noble-amd64-v20260101"}}},
		NetworkInterfaces: []*compute.NetworkInterface{{Subnetwork: "regions/" + testRegion + "/subnetworks/subnet"}},
		ServiceAccounts:   []*compute.ServiceAccount{{Email: "default", Scopes: []string{compute.ComputeScope}}},
		Scheduling:        &compute.Scheduling{OnHostMaintenance: "MIGRATE"}}}
	p.waitDone(p.Compute.InstanceTemplates.Insert(testProject, t).Do())
	return "global/instanceTemplates/" + name
}

// group creates a managed group, and waits until its machines run.
func (p *project) group(name string, size int64, pools ...string) string {
	p.Helper()
	m := &compute.InstanceGroupManager{Name: gcename.Group(name, testZone, p.cluster.Name), BaseInstanceName: name, InstanceTemplate: p.template(name, name+"-1", "e2-medium"),
		TargetSize: size, TargetPools: pools, ListManagedInstancesResults: "PAGINATED", ForceSendFields: []string{"TargetSize"}}
	p.waitDone(p.Compute.InstanceGroupManagers.Insert(testProject, testZone, m).Do())
	p.settle()
	return m.Name
}

// changeTemplate gives a group a template with another machine type.
func (p *project) changeTemplate(group, machine string) {
	p.Helper()
	p.waitDone(p.Compute.InstanceGroupManagers.SetInstanceTemplate(testProject, testZone, gcename.Group(group, testZone, p.cluster.Name),
		&compute.InstanceGroupManagersSetInstanceTemplateRequest{InstanceTemplate: p.template(group, group+"-"+machine, machine)}).Do())
	p.settle()
}

// reportedGroup returns a group as the platform reports it.
func (p *project) reportedGroup(name string) platform.MachineGroup {
	p.Helper()
	groups, err := p.Fleet.Machines(p.Context(), p.session, p.cluster, nil)
	p.ok(err)
	for _, g := range groups {
		if g.Name == name {
			return g
		}
	}
	p.Fatalf("there is no group %s in %+v", name, groups)
	return platform.MachineGroup{}
}

// Machines shadows the client's Machines.
func (p *project) Machines(ctx context.Context, s *platform.Session, c *api.Cluster, groups []*api.InstanceGroup) ([]platform.MachineGroup, error) {
	return p.Provider.Fleet.Machines(ctx, s, c, groups)
}

// checkSize checks how many machines a group is to have, and how many it has.
func (p *project) checkSize(when string, target, attached int) platform.MachineGroup {
	p.Helper()
	g := p.reportedGroup("nodes")
	have := 0
	for _, m := range g.Machines {
		if !m.Detached {
			have++
		}
	}
	if g.Target != target || have != attached {
		p.Errorf("%s, the group is to have %d machines and has %d, want %d and %d: %+v", when, g.Target, have, target, attached, g.Machines)
	}
	return g
}

func (p *project) detach(m platform.Machine) error {
	return p.Fleet.Roll.Detach(p.Context(), p.session, p.cluster, m)
}

func (p *project) terminate(m platform.Machine) error {
	return p.Fleet.Roll.Terminate(p.Context(), p.session, p.cluster, m)
}

func TestAMachineIsReplacedByItsSuccessor(t *testing.T) {
	p := newProject(t)
	p.group("nodes", 2)
	p.changeTemplate("nodes", "e2-standard-2")
	old := p.checkSize("at first", 2, 2).Machines
	if !old[0].Outdated || !old[1].Outdated {
		t.Fatalf("machines of another template are up to date: %+v", old)
	}
	p.ok(p.detach(old[0]))
	p.settle()
	g := p.checkSize("with a successor", 2, 2)
	if len(g.Machines) != 3 {
		t.Fatalf("the old one and its successor are there: %+v", g.Machines)
	}
	p.ok(p.detach(old[0])) // again, as an interrupted caller would
	p.ok(p.terminate(old[0]))
	p.checkSize("while the old one ends", 2, 2)
	p.settle()
	p.checkSize("afterwards", 2, 2)
	p.ok(p.terminate(old[0]))
	p.ok(p.terminate(old[1])) // without creating a successor first
	p.checkSize("while the other ends", 2, 0+len(slices.DeleteFunc(p.reportedGroup("nodes").Machines, func(m platform.Machine) bool { return m.Detached })))
	p.settle()
	for _, m := range p.checkSize("at last", 2, 2).Machines {
		if m.Outdated || m.Name == old[0].Name || m.Name == old[1].Name {
			t.Errorf("%+v is one of the old ones", m)
		}
	}
}

// TestAReplacementThatIsCutOffLosesNoMachine interrupts a replacement at each of its writes, before
// and after it takes effect, and replaces the machine again.
func TestAReplacementThatIsCutOffLosesNoMachine(t *testing.T) {
	for _, when := range []emulator.Moment{emulator.Before, emulator.After, emulator.Inside} {
		for at := range 3 {
			p := newProject(t)
			p.group("nodes", 2)
			p.changeTemplate("nodes", "e2-standard-2")
			old := p.reportedGroup("nodes").Machines[0]
			p.cloud.Inject(emulator.Fault{Skip: at, When: when, Error: emulator.Error{Status: http.StatusForbidden, Reason: "forbidden", Message: "cut"}})
			err := p.detach(old)
			if err == nil {
				err = p.terminate(old)
			}
			if err == nil {
				t.Errorf("a replacement that is cut off at write %d goes well", at)
			}
			p.settle()
			if g := p.reportedGroup("nodes"); g.Target < 2 {
				t.Errorf("cut off at write %d (%d), the group is to have %d machines, want 2", at, when, g.Target)
			}
			for _, m := range p.reportedGroup("nodes").Machines {
				if m.Name == old.Name && !m.Detached {
					p.ok(p.detach(m))
				}
			}
			p.ok(p.terminate(old))
			p.settle()
			p.checkSize("after a replacement that was cut off", 2, 2)
		}
	}
}

// TestAMachineThatItsGroupRecreatesIsMissing: a machine being recreated does not count as present
// yet.
func TestAMachineThatItsGroupRecreatesIsMissing(t *testing.T) {
	p := newProject(t)
	manager := p.group("nodes", 2)
	p.changeTemplate("nodes", "e2-standard-2")
	one := p.reportedGroup("nodes").Machines[0]
	p.waitDone(p.Compute.InstanceGroupManagers.RecreateInstances(testProject, testZone, manager, &compute.InstanceGroupManagersRecreateInstancesRequest{
		Instances: []string{"zones/" + testZone + "/instances/" + one.Name}}).Do())
	for _, m := range p.checkSize("while one is made anew", 2, 1).Machines {
		if m.Name == one.Name && m.Outdated {
			t.Errorf("a machine that is made anew is to be replaced: %+v", m)
		}
	}
	p.settle()
	p.checkSize("made anew", 2, 2)
}

// TestAReleasedMachineIsDeletedDirectly: its group no longer lists it, although its metadata
// names the group.
func TestAReleasedMachineIsDeletedDirectly(t *testing.T) {
	p := newProject(t)
	manager := p.group("nodes", 2)
	one := p.reportedGroup("nodes").Machines[0]
	p.waitDone(p.Compute.InstanceGroupManagers.AbandonInstances(testProject, testZone, manager, &compute.InstanceGroupManagersAbandonInstancesRequest{
		Instances: []string{"zones/" + testZone + "/instances/" + one.Name}}).Do())
	p.settle()
	p.checkSize("without the one", 1, 1)
	if err := p.detach(one); !fault.Is(err, fault.Permanent) || !strings.Contains(err.Error(), "it belongs to no instance group") {
		t.Errorf("detach what no group keeps: %v", err)
	}
	p.ok(p.terminate(one))
	p.settle()
	if g := p.checkSize("afterwards", 1, 1); len(g.Machines) != 1 {
		t.Errorf("what was let go is still there: %+v", g.Machines)
	}
}

// TestReasonsForMissingMachines: Google's error message is the group's trouble.
func TestReasonsForMissingMachines(t *testing.T) {
	p := newProject(t)
	manager := p.group("nodes", 1)
	p.cloud.Exhaust(testZone, true)
	p.waitDone(p.Compute.InstanceGroupManagers.Resize(testProject, testZone, manager, 3).Do())
	p.settle()
	if g := p.checkSize("in a zone that is full", 3, 1); !strings.Contains(g.Trouble, "ZONE_RESOURCE_POOL_EXHAUSTED") {
		t.Errorf("it is told that %q", g.Trouble)
	}
	p.cloud.Exhaust(testZone, false)
	p.settle()
	if g := p.checkSize("in a zone with room", 3, 3); g.Trouble != "" {
		t.Errorf("it is told that %q", g.Trouble)
	}
}

// TestAZoneThatDoesNotAnswerIsNoGroupWithoutMachines: an unavailable list is not treated as an
// empty one.
func TestAZoneThatDoesNotAnswerIsNoGroupWithoutMachines(t *testing.T) {
	p := newProject(t)
	p.group("nodes", 1)
	p.cloud.Silence(testZone, true)
	if groups, err := p.Fleet.Machines(t.Context(), p.session, p.cluster, nil); !fault.Is(err, fault.Lost) {
		t.Errorf("a zone that does not answer shows %+v, %v", groups, err)
	}
}

func TestSuccessorsHaveNamesOfGoogles(t *testing.T) {
	long := strings.Repeat("n", 58)
	seen := map[string]bool{}
	for _, of := range []string{"nodes-abcd", "nodes-abce", long + "-abcd", long + "-abce", "odd"} {
		s := successorName(of)
		if len(s) > 63 || s == of || seen[s] || s[0] < 'a' || s[0] > 'z' {
			t.Errorf("the successor of %s is called %s", of, s)
		}
		if next := successorName(s); next == s || next == of || len(next) > 63 {
			t.Errorf("the successor of %s is called %s", s, next)
		}
		seen[s] = true
	}
}

// TestTheLastBehindABalancerStays: machines are taken out of the target pool, except the only one.
func TestTheLastBehindABalancerStays(t *testing.T) {
	p := newProject(t)
	p.waitDone(p.Compute.TargetPools.Insert(testProject, testRegion, &compute.TargetPool{Name: "api"}).Do())
	p.group("nodes", 2, "regions/"+testRegion+"/targetPools/api")
	behind := func() int {
		pool, err := p.Compute.TargetPools.Get(testProject, testRegion, "api").Do()
		p.ok(err)
		return len(pool.Instances)
	}
	all := p.reportedGroup("nodes").Machines
	p.ok(p.Fleet.Roll.Deregister(t.Context(), p.session, p.cluster, all[0]))
	if n := behind(); n != 1 {
		t.Errorf("%d machines are behind the balancer, want 1", n)
	}
	p.ok(p.terminate(all[0]))
	p.settle()
	p.ok(p.Fleet.Roll.Deregister(t.Context(), p.session, p.cluster, all[1]))
	if n := behind(); n != 1 {
		t.Errorf("%d machines are behind the balancer, want the successor", n)
	}
	p.waitDone(p.Compute.InstanceGroupManagers.Resize(testProject, testZone, gcename.Group("nodes", testZone, p.cluster.Name), 1).Do())
	p.settle()
	p.ok(p.Fleet.Roll.Deregister(t.Context(), p.session, p.cluster, p.reportedGroup("nodes").Machines[0]))
	if n := behind(); n > 1 {
		t.Errorf("%d machines are behind the balancer", n)
	}
}
