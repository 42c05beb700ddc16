package emulator_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/compute/v1"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"

	"kops.local/kops/internal/platform/gce/emulator"
	"kops.local/kops/internal/platform/gce/emulator/emulatortest"
	"kops.local/kops/internal/standin/standintest"
)

const (
	project = emulatortest.Project
	region  = emulatortest.Region
	zone    = emulatortest.Zone
)

// cloud is an emulator with a Compute Engine client.
type cloud struct {
	*testing.T
	*emulator.Emulator
	*compute.Service
	url   string
	clock *standintest.Clock
}

// play starts an emulator, whose operations take two seconds unless the options say otherwise.
func play(t *testing.T, o emulator.Options) *cloud {
	t.Helper()
	played := emulatortest.Start(t, o)
	s, err := compute.NewService(t.Context(), option.WithEndpoint(played.URL+"/compute/v1/"), option.WithoutAuthentication())
	if err != nil {
		t.Fatal(err)
	}
	return &cloud{t, played.Emulator, s, played.URL, played.Clock}
}

// done waits for an operation, which must succeed.
func (c *cloud) done(op *compute.Operation, err error) *compute.Operation {
	c.Helper()
	op, err = c.wait(op, err)
	if err != nil {
		c.Fatal(err)
	}
	return op
}

// wait waits for an operation, and returns its error.
func (c *cloud) wait(op *compute.Operation, err error) (*compute.Operation, error) {
	c.Helper()
	if err != nil {
		return nil, err
	}
	for op.Status != "DONE" {
		switch {
		case op.Zone != "":
			op, err = c.ZoneOperations.Wait(project, lastPart(op.Zone), op.Name).Do()
		case op.Region != "":
			op, err = c.RegionOperations.Wait(project, lastPart(op.Region), op.Name).Do()
		default:
			op, err = c.GlobalOperations.Wait(project, op.Name).Do()
		}
		if err != nil {
			return nil, err
		}
	}
	if op.Error != nil {
		return op, errors.New(op.Error.Errors[0].Code + ": " + op.Error.Errors[0].Message)
	}
	return op, nil
}

func lastPart(s string) string { return s[strings.LastIndex(s, "/")+1:] }

// checkRefused fails the test unless the error is a response with that status and reason.
func (c *cloud) checkRefused(err error, status int, reason, words string) {
	c.Helper()
	var e *googleapi.Error
	if !errors.As(err, &e) {
		c.Errorf("got %v, want %d %s", err, status, reason)
		return
	}
	if e.Code != status || len(e.Errors) != 1 || e.Errors[0].Reason != reason || !strings.Contains(e.Message, words) {
		c.Errorf("got %d %v, want %d %s with %q", e.Code, e.Errors, status, reason, words)
	}
}

// network creates the network n with the subnetwork s.
func (c *cloud) network() (network, subnet string) {
	c.Helper()
	c.done(c.Networks.Insert(project, &compute.Network{Name: "n", ForceSendFields: []string{"AutoCreateSubnetworks"}}).Do())
	network = "global/networks/n"
	c.done(c.Subnetworks.Insert(project, region, &compute.Subnetwork{Name: "s", Network: network, IpCidrRange: "10.0.16.0/20",
		SecondaryIpRanges: []*compute.SubnetworkSecondaryRange{{RangeName: "pods", IpCidrRange: "10.4.0.0/14"}}}).Do())
	return network, "regions/" + region + "/subnetworks/s"
}

// template creates an instance template with that name, for instances in network n.
func (c *cloud) template(name string) string {
	c.Helper()
	c.done(c.InstanceTemplates.Insert(project, &compute.InstanceTemplate{Name: name, Properties: &compute.InstanceProperties{
		MachineType: "e2-medium",
		Disks: []*compute.AttachedDisk{{Boot: true, AutoDelete: true, Type: "PERSISTENT", Mode: "READ_WRITE", DeviceName: "persistent-disks-0",
			InitializeParams: &compute.AttachedDiskInitializeParams{SourceImage: "projects/debian-cloud/global/images/debian-12", DiskType: "pd-standard", DiskSizeGb: 64}}},
		NetworkInterfaces: []*compute.NetworkInterface{{Network: "global/networks/n", Subnetwork: "regions/us-test1/subnetworks/s", AccessConfigs: []*compute.AccessConfig{{Type: "ONE_TO_ONE_NAT"}},
			AliasIpRanges: []*compute.AliasIpRange{{SubnetworkRangeName: "pods", IpCidrRange: "/24"}}}},
		Metadata: &compute.Metadata{Items: []*compute.MetadataItems{{Key: "cluster-name", Value: new("c.example.com")}}},
		Tags:     &compute.Tags{Items: []string{"nodes"}},
		Labels:   map[string]string{"a": "b"},
	}}).Do())
	return "global/instanceTemplates/" + name
}

func TestACallIsAnsweredBeforeItIsDone(t *testing.T) {
	c := play(t, emulator.Options{})
	op, err := c.Networks.Insert(project, &compute.Network{Name: "n", ForceSendFields: []string{"AutoCreateSubnetworks"}}).Do()
	if err != nil || op.Status != "PENDING" || op.OperationType != "insert" || !strings.HasPrefix(op.SelfLink, "https://www.googleapis.com/compute/v1/projects/testproject/global/operations/") {
		t.Fatalf("got %+v, %v", op, err)
	}
	if _, err := c.Networks.Get(project, "n").Do(); !hasStatus(err, http.StatusNotFound) {
		t.Errorf("a network is there before its operation is over: %v", err)
	}
	_, err = c.Networks.Insert(project, &compute.Network{Name: "n", ForceSendFields: []string{"AutoCreateSubnetworks"}}).Do()
	c.checkRefused(err, 409, "alreadyExists", "The resource 'projects/testproject/global/networks/n' already exists")
	_, err = c.Subnetworks.Insert(project, region, &compute.Subnetwork{Name: "s", Network: "global/networks/n", IpCidrRange: "10.0.16.0/20"}).Do()
	c.checkRefused(err, 400, "resourceNotReady", "is not ready")
	c.clock.Sleep(t.Context(), time.Second)
	if op, err = c.GlobalOperations.Get(project, op.Name).Do(); err != nil || op.Status != "RUNNING" {
		t.Errorf("after half its time the operation is %+v, %v", op, err)
	}
	if op = c.done(op, err); op.Progress != 100 || op.EndTime == "" {
		t.Errorf("got %+v", op)
	}
	n, err := c.Networks.Get(project, "n").Do()
	if err != nil || n.Kind != "compute#network" || n.SelfLink != "https://www.googleapis.com/compute/v1/projects/testproject/global/networks/n" || n.RoutingConfig.RoutingMode != "REGIONAL" || n.AutoCreateSubnetworks {
		t.Errorf("got %+v, %v", n, err)
	}
}

func hasStatus(err error, status int) bool {
	var e *googleapi.Error
	return errors.As(err, &e) && e.Code == status
}

func TestAGroupMakesItsInstancesAndKeepsThem(t *testing.T) {
	c := play(t, emulator.Options{})
	c.network()
	link := c.template("t")
	c.done(c.InstanceGroupManagers.Insert(project, zone, &compute.InstanceGroupManager{Name: "a-nodes", BaseInstanceName: "nodes", InstanceTemplate: link, TargetSize: 2}).Do())
	c.clock.Sleep(t.Context(), time.Minute)
	list := func() []*compute.ManagedInstance {
		t.Helper()
		out, err := c.InstanceGroupManagers.ListManagedInstances(project, zone, "a-nodes").Do()
		if err != nil {
			t.Fatal(err)
		}
		return out.ManagedInstances
	}
	members := list()
	if len(members) != 2 || members[0].InstanceStatus != "RUNNING" || members[0].CurrentAction != "NONE" || !strings.HasPrefix(members[0].Name, "nodes-") || len(members[0].Name) != len("nodes-")+4 || lastPart(members[0].Version.InstanceTemplate) != "t" {
		t.Fatalf("got %+v", members)
	}
	i, err := c.Instances.Get(project, zone, members[0].Name).Do()
	if err != nil {
		t.Fatal(err)
	}
	nic := i.NetworkInterfaces[0]
	createdBy := ""
	for _, item := range i.Metadata.Items {
		if item.Key == "created-by" {
			createdBy = *item.Value
		}
	}
	if nic.NetworkIP != "10.0.16.2" && nic.NetworkIP != "10.0.16.3" || !strings.HasPrefix(nic.AliasIpRanges[0].IpCidrRange, "10.4.") || nic.AccessConfigs[0].NatIP == "" ||
		createdBy != "projects/100000000000/zones/us-test1-a/instanceGroupManagers/a-nodes" || i.Labels["a"] != "b" || lastPart(i.Disks[0].Source) != i.Name {
		t.Errorf("got %+v, created by %s", i, createdBy)
	}
	id := members[0].Id
	c.done(c.InstanceGroupManagers.RecreateInstances(project, zone, "a-nodes", &compute.InstanceGroupManagersRecreateInstancesRequest{Instances: []string{members[0].Instance}}).Do())
	if m := list()[0]; m.CurrentAction != "RECREATING" {
		t.Errorf("got %+v", m)
	}
	c.clock.Sleep(t.Context(), time.Minute)
	if again := list(); again[0].Name != members[0].Name || again[0].Id == id || again[0].CurrentAction != "NONE" {
		t.Errorf("after it was made anew: %+v", again[0])
	}
	c.done(c.Instances.Delete(project, zone, members[1].Name).Do())
	c.clock.Sleep(t.Context(), time.Minute)
	if again := list(); len(again) != 2 || again[1].Name != members[1].Name || again[1].Id == members[1].Id {
		t.Errorf("after somebody deleted one: %+v", again)
	}
	c.done(c.InstanceGroupManagers.Resize(project, zone, "a-nodes", 0).Do())
	c.clock.Sleep(t.Context(), time.Minute)
	if left := list(); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
	_, err = c.InstanceTemplates.Delete(project, "t").Do()
	c.checkRefused(err, 400, "resourceInUseByAnotherResource", "The instance_template resource 'projects/testproject/global/instanceTemplates/t' is already being used by 'projects/testproject/zones/us-test1-a/instanceGroupManagers/a-nodes'")
	c.done(c.InstanceGroupManagers.Delete(project, zone, "a-nodes").Do())
	c.done(c.InstanceTemplates.Delete(project, "t").Do())
	c.done(c.Subnetworks.Delete(project, region, "s").Do())
	c.done(c.Networks.Delete(project, "n").Do())
	if left := c.Inventory(); len(left) > 0 {
		t.Errorf("left: %s", left)
	}
}

func TestOptionsThatCannotBeAreRefused(t *testing.T) {
	if _, err := emulator.New(emulator.Options{Project: "X"}); err == nil {
		t.Error("a project of a bad name is taken")
	}
	if _, err := emulator.New(emulator.Options{Regions: map[string][]string{"us-test1": {"us-test2-a"}}}); err == nil {
		t.Error("a zone of another region is taken")
	}
}

// get sends a GET request for a path to a handler.
func get(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}
