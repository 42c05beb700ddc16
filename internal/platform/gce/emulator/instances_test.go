package emulator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/compute/v1"

	"kops.local/kops/internal/platform/gce/emulator"
)

// instance creates an instance in network n.
func (c *cloud) instance(name string) *compute.Instance {
	c.Helper()
	c.done(c.Instances.Insert(project, zone, machine(name)).Do())
	i, err := c.Instances.Get(project, zone, name).Do()
	if err != nil {
		c.Fatal(err)
	}
	return i
}

func machine(name string) *compute.Instance {
	return &compute.Instance{Name: name, MachineType: "zones/us-test1-a/machineTypes/e2-medium",
		Disks:             []*compute.AttachedDisk{{Boot: true, AutoDelete: true, InitializeParams: &compute.AttachedDiskInitializeParams{SourceImage: "projects/debian-cloud/global/images/debian-12", DiskSizeGb: 20}}},
		NetworkInterfaces: []*compute.NetworkInterface{{Subnetwork: "regions/us-test1/subnetworks/s", AliasIpRanges: []*compute.AliasIpRange{{IpCidrRange: "/24", SubnetworkRangeName: "pods"}}}}}
}

func (c *cloud) disk(name string) *compute.Disk {
	c.Helper()
	c.done(c.Disks.Insert(project, zone, &compute.Disk{Name: name, SizeGb: 20, Type: "zones/us-test1-a/diskTypes/pd-ssd"}).Do())
	d, err := c.Disks.Get(project, zone, name).Do()
	if err != nil {
		c.Fatal(err)
	}
	return d
}

func TestAnInstanceComesAndGoes(t *testing.T) {
	c := play(t, emulator.Options{})
	c.network()
	op, err := c.Instances.Insert(project, zone, machine("i")).Do()
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	for range 12 {
		i, err := c.Instances.Get(project, zone, "i").Do()
		if err != nil {
			t.Fatal(err)
		}
		if seen = append(seen, i.Status); len(seen) > 1 && seen[len(seen)-2] == i.Status {
			seen = seen[:len(seen)-1]
		}
		c.clock.Sleep(t.Context(), time.Second)
	}
	if !slices.Equal(seen, []string{"PROVISIONING", "STAGING", "RUNNING"}) {
		t.Errorf("got %s", seen)
	}
	c.done(op, nil)
	i, err := c.Instances.Get(project, zone, "i").Do()
	if err != nil || i.NetworkInterfaces[0].NetworkIP != "10.0.16.2" || i.NetworkInterfaces[0].AliasIpRanges[0].IpCidrRange != "10.4.0.0/24" || i.Disks[0].DeviceName != "persistent-disk-0" || i.Scheduling.ProvisioningModel != "STANDARD" || !i.ShieldedInstanceConfig.EnableVtpm {
		t.Errorf("got %+v, %v", i, err)
	}
	if _, err := c.Disks.Get(project, zone, "i").Do(); err != nil {
		t.Error(err)
	}
	c.done(c.Instances.Stop(project, zone, "i").Do())
	if i, err = c.Instances.Get(project, zone, "i").Do(); err != nil || i.Status != "TERMINATED" {
		t.Errorf("got %+v, %v", i, err)
	}
	c.done(c.Instances.SetMachineType(project, zone, "i", &compute.InstancesSetMachineTypeRequest{MachineType: "zones/us-test1-a/machineTypes/e2-standard-4"}).Do())
	c.done(c.Instances.Start(project, zone, "i").Do())
	if i, err = c.Instances.Get(project, zone, "i").Do(); err != nil || i.Status != "RUNNING" || lastPart(i.MachineType) != "e2-standard-4" {
		t.Errorf("got %+v, %v", i, err)
	}
	_, err = c.Instances.SetMachineType(project, zone, "i", &compute.InstancesSetMachineTypeRequest{MachineType: "zones/us-test1-a/machineTypes/e2-medium"}).Do()
	c.checkRefused(err, 400, "invalid", "stopped")
	op, err = c.Instances.Delete(project, zone, "i").Do()
	if i, _ := c.Instances.Get(project, zone, "i").Do(); i == nil || i.Status != "STOPPING" {
		t.Errorf("got %+v", i)
	}
	c.done(op, err)
	if left := c.Inventory(); len(left) != 2 {
		t.Errorf("left: %s", left)
	}
}

func TestAnInstanceThatGoesWhileItComesEndsBothOperations(t *testing.T) {
	c := play(t, emulator.Options{})
	c.network()
	insert, err := c.Instances.Insert(project, zone, machine("i")).Do()
	if err != nil {
		t.Fatal(err)
	}
	c.done(c.Instances.Delete(project, zone, "i").Do())
	if _, err := c.wait(insert, nil); err == nil {
		t.Error("an instance that never ran was made well")
	}
}

func TestDisksAreAttachedToOneInstance(t *testing.T) {
	c := play(t, emulator.Options{})
	c.network()
	a, d := c.instance("a"), c.disk("d")
	c.instance("b")
	if lastPart(d.Type) != "pd-ssd" || d.SizeGb != 20 || d.Status != "READY" || len(d.Users) > 0 {
		t.Errorf("got %+v", d)
	}
	c.done(c.Instances.AttachDisk(project, zone, "a", &compute.AttachedDisk{Source: d.SelfLink, DeviceName: "d", Mode: "READ_WRITE"}).Do())
	_, err := c.Instances.AttachDisk(project, zone, "b", &compute.AttachedDisk{Source: d.SelfLink, DeviceName: "d"}).Do()
	c.checkRefused(err, 400, "resourceInUseByAnotherResource", "The disk resource 'projects/testproject/zones/us-test1-a/disks/d' is already being used by 'projects/testproject/zones/us-test1-a/instances/a'")
	if d, err = c.Disks.Get(project, zone, "d").Do(); err != nil || !slices.Equal(d.Users, []string{a.SelfLink}) {
		t.Errorf("got %+v, %v", d, err)
	}
	_, err = c.Disks.Delete(project, zone, "d").Do()
	c.checkRefused(err, 400, "resourceInUseByAnotherResource", "instances/a")
	if a, err = c.Instances.Get(project, zone, "a").Do(); err != nil || len(a.Disks) != 2 || a.Disks[1].DeviceName != "d" || a.Disks[1].Index != 1 || a.Disks[1].AutoDelete {
		t.Errorf("got %+v, %v", a, err)
	}
	_, err = c.Instances.DetachDisk(project, zone, "a", "other").Do()
	c.checkRefused(err, 400, "invalid", "other")
	c.done(c.Instances.Delete(project, zone, "a").Do()) // the disk is kept
	c.done(c.Instances.AttachDisk(project, zone, "b", &compute.AttachedDisk{Source: d.SelfLink, DeviceName: "d"}).Do())
	c.done(c.Instances.DetachDisk(project, zone, "b", "d").Do())
	if b, err := c.Instances.Get(project, zone, "b").Do(); err != nil || len(b.Disks) != 1 {
		t.Errorf("got %+v, %v", b, err)
	}
	c.done(c.Disks.SetLabels(project, zone, "d", &compute.ZoneSetLabelsRequest{LabelFingerprint: d.LabelFingerprint, Labels: map[string]string{"k8s-io-etcd-main": "a-2fa"}}).Do())
	c.done(c.Disks.Resize(project, zone, "d", &compute.DisksResizeRequest{SizeGb: 30}).Do())
	_, err = c.Disks.Resize(project, zone, "d", &compute.DisksResizeRequest{SizeGb: 20}).Do()
	c.checkRefused(err, 400, "invalid", "30 GB")
	if d, err = c.Disks.Get(project, zone, "d").Do(); err != nil || d.SizeGb != 30 || d.Labels["k8s-io-etcd-main"] != "a-2fa" {
		t.Errorf("got %+v, %v", d, err)
	}
	c.done(c.Disks.Delete(project, zone, "d").Do())
}

func TestTagsAndMetadataChangeByTheirFingerprints(t *testing.T) {
	c := play(t, emulator.Options{})
	c.network()
	i := c.instance("i")
	c.done(c.Instances.SetTags(project, zone, "i", &compute.Tags{Items: []string{"a"}, Fingerprint: i.Tags.Fingerprint}).Do())
	c.done(c.Instances.SetMetadata(project, zone, "i", &compute.Metadata{Items: []*compute.MetadataItems{{Key: "a", Value: new("b")}}, Fingerprint: i.Metadata.Fingerprint}).Do())
	c.done(c.Instances.SetLabels(project, zone, "i", &compute.InstancesSetLabelsRequest{Labels: map[string]string{"a": "b"}, LabelFingerprint: i.LabelFingerprint}).Do())
	_, err := c.Instances.SetTags(project, zone, "i", &compute.Tags{Fingerprint: i.Tags.Fingerprint}).Do()
	c.checkRefused(err, 412, "conditionNotMet", "fingerprint")
	_, err = c.Instances.SetMetadata(project, zone, "i", &compute.Metadata{Fingerprint: i.Metadata.Fingerprint}).Do()
	c.checkRefused(err, 412, "conditionNotMet", "fingerprint")
	now, err := c.Instances.Get(project, zone, "i").Do()
	if err != nil || now.Tags.Items[0] != "a" || *now.Metadata.Items[0].Value != "b" || now.Labels["a"] != "b" || now.Fingerprint == i.Fingerprint {
		t.Errorf("got %+v, %v", now, err)
	}
	if _, text := getMetadata(t, c.Metadata(project, zone, "i"), "/computeMetadata/v1/instance/attributes/a"); text != "b" {
		t.Errorf("the instance is told %q", text)
	}
}

// hosts are machines that record what is done to them.
type hosts struct {
	log  []string
	fail error
}

func (h *hosts) note(what string, i emulator.Instance) error {
	devices := ""
	for _, d := range i.Disks {
		devices += " " + d.Device
	}
	h.log = append(h.log, fmt.Sprintf("%s %s/%s %s%s", what, i.Zone, i.Name, i.Address, devices))
	return h.fail
}

func (h *hosts) Start(_ context.Context, i emulator.Instance) error  { return h.note("start", i) }
func (h *hosts) Stop(_ context.Context, i emulator.Instance) error   { return h.note("stop", i) }
func (h *hosts) Delete(_ context.Context, i emulator.Instance) error { return h.note("delete", i) }
func (h *hosts) Plug(_ context.Context, i emulator.Instance) error   { return h.note("plug", i) }
func (h *hosts) Console(i emulator.Instance) ([]byte, error) {
	return []byte("console of " + i.Name), nil
}

func TestMachinesRunTheInstances(t *testing.T) {
	h := &hosts{}
	c := play(t, emulator.Options{Machines: h, EKPub: func(i emulator.Instance) (string, error) { return "key of " + i.Name, nil }})
	c.network()
	c.instance("i")
	c.disk("d")
	c.done(c.Instances.AttachDisk(project, zone, "i", &compute.AttachedDisk{Source: "zones/us-test1-a/disks/d", DeviceName: "d"}).Do())
	out, err := c.Instances.GetSerialPortOutput(project, zone, "i").Start(8).Do()
	if err != nil || out.Contents != "of i" || out.Next != 12 {
		t.Errorf("got %+v, %v", out, err)
	}
	id, err := c.Instances.GetShieldedInstanceIdentity(project, zone, "i").Do()
	if err != nil || id.SigningKey.EkPub != "key of i" {
		t.Errorf("got %+v, %v", id, err)
	}
	c.done(c.Instances.Stop(project, zone, "i").Do())
	c.done(c.Instances.Start(project, zone, "i").Do())
	c.done(c.Instances.Delete(project, zone, "i").Do())
	want := "start us-test1-a/i 10.0.16.2 persistent-disk-0, plug us-test1-a/i 10.0.16.2 persistent-disk-0 d, stop us-test1-a/i 10.0.16.2 persistent-disk-0 d, start us-test1-a/i 10.0.16.2 persistent-disk-0 d, delete us-test1-a/i 10.0.16.2 persistent-disk-0 d"
	if got := strings.Join(h.log, ", "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	h.fail = errors.New("no memory")
	if op, err := c.wait(c.Instances.Insert(project, zone, machine("j")).Do()); err == nil || !strings.Contains(op.Error.Errors[0].Message, "no memory") {
		t.Errorf("got %+v, %v", op, err)
	}
	if _, err := c.Instances.Get(project, zone, "j").Do(); !hasStatus(err, 404) {
		t.Errorf("an instance that could not be made is there: %v", err)
	}
}

func TestAZoneWithoutMachines(t *testing.T) {
	c := play(t, emulator.Options{})
	c.network()
	c.template("t")
	c.Exhaust(zone, true)
	op, err := c.wait(c.Instances.Insert(project, zone, machine("i")).Do())
	if err == nil || op.Error.Errors[0].Code != "ZONE_RESOURCE_POOL_EXHAUSTED" || op.HttpErrorStatusCode != 503 {
		t.Errorf("got %+v, %v", op, err)
	}
	c.group("m", 1)
	list := func() *compute.ManagedInstance {
		t.Helper()
		out, err := c.InstanceGroupManagers.ListManagedInstances(project, zone, "m").Do()
		if err != nil || len(out.ManagedInstances) != 1 {
			t.Fatalf("got %+v, %v", out, err)
		}
		return out.ManagedInstances[0]
	}
	if m := list(); m.CurrentAction != "CREATING" || m.InstanceStatus != "" || m.LastAttempt.Errors.Errors[0].Code != "ZONE_RESOURCE_POOL_EXHAUSTED" {
		t.Errorf("got %+v", m)
	}
	failed, err := c.InstanceGroupManagers.ListErrors(project, zone, "m").Do()
	if err != nil || len(failed.Items) != 1 {
		t.Errorf("got %+v, %v", failed, err)
	}
	c.Exhaust(zone, false)
	c.clock.Sleep(t.Context(), 2*time.Minute)
	if m := list(); m.CurrentAction != "NONE" || m.InstanceStatus != "RUNNING" || m.LastAttempt != nil {
		t.Errorf("got %+v", m)
	}
}

func TestInstancesRefuse(t *testing.T) {
	c := play(t, emulator.Options{Images: []emulator.Image{{Project: "debian-cloud", Name: "debian-12", Family: "debian"}}, AccountDelay: time.Minute})
	c.network()
	c.done(c.Networks.Insert(project, empty("other")).Do())
	c.instance("there")
	insert := func(change func(*compute.Instance)) func() error {
		return func() error {
			i := machine("i")
			change(i)
			_, err := c.Instances.Insert(project, zone, i).Do()
			return err
		}
	}
	template := func(change func(*compute.InstanceProperties)) func() error {
		return func() error {
			p := &compute.InstanceProperties{MachineType: "e2-medium", Disks: machine("").Disks, NetworkInterfaces: machine("").NetworkInterfaces}
			change(p)
			_, err := c.InstanceTemplates.Insert(project, &compute.InstanceTemplate{Name: "x", Properties: p}).Do()
			return err
		}
	}
	disk := func(d compute.Disk) func() error {
		return func() error { d.Name = "x"; _, err := c.Disks.Insert(project, zone, &d).Do(); return err }
	}
	for _, r := range []struct {
		name  string
		do    func() error
		words string
	}{
		{"a machine type that is not", insert(func(i *compute.Instance) { i.MachineType = "zones/us-test1-a/machineTypes/x9-huge" }), "machineType resource cannot be found"},
		{"a machine type without its zone", insert(func(i *compute.Instance) { i.MachineType = "e2-medium" }), "The URL is malformed"},
		{"a subnetwork that is not", insert(func(i *compute.Instance) { i.NetworkInterfaces[0].Subnetwork = "regions/us-test1/subnetworks/x" }), "The referenced subnetwork resource cannot be found."},
		{"a network that the subnetwork is not of", insert(func(i *compute.Instance) { i.NetworkInterfaces[0].Network = "global/networks/other" }), "belongs to another network"},
		{"an image that is not", insert(func(i *compute.Instance) {
			i.Disks[0].InitializeParams.SourceImage = "projects/debian-cloud/global/images/debian-1"
		}), "image resource cannot be found"},
		{"a disk smaller than its image", insert(func(i *compute.Instance) { i.Disks[0].InitializeParams.DiskSizeGb = 5 }), "cannot be smaller than the image size (10 GB)"},
		{"no boot disk", insert(func(i *compute.Instance) { i.Disks[0].Boot = false }), "boot disk"},
		{"no interface", insert(func(i *compute.Instance) { i.NetworkInterfaces = nil }), "network interface"},
		{"an address that is taken", insert(func(i *compute.Instance) { i.NetworkInterfaces[0].NetworkIP = "10.0.16.2" }), "already in use"},
		{"a range that is not there", insert(func(i *compute.Instance) { i.NetworkInterfaces[0].AliasIpRanges[0].SubnetworkRangeName = "x" }), "no such secondary range"},
		{"a spot instance that is restarted", insert(func(i *compute.Instance) {
			i.Scheduling = &compute.Scheduling{ProvisioningModel: "SPOT", AutomaticRestart: new(true)}
		}), "automaticRestart"},
		{"a GPU that is moved", insert(func(i *compute.Instance) {
			i.GuestAccelerators = []*compute.AcceleratorConfig{{AcceleratorCount: 1, AcceleratorType: "nvidia-l4"}}
		}), "live migration"},
		{"an account that is not", insert(func(i *compute.Instance) {
			i.ServiceAccounts = []*compute.ServiceAccount{{Email: "x@testproject.iam.gserviceaccount.com"}}
		}), "service account"},
		{"a scope of no form", insert(func(i *compute.Instance) {
			i.ServiceAccounts = []*compute.ServiceAccount{{Email: "default", Scopes: []string{"compute"}}}
		}), "scopes[0]"},
		{"metadata twice", insert(func(i *compute.Instance) {
			i.Metadata = &compute.Metadata{Items: []*compute.MetadataItems{{Key: "a", Value: new("")}, {Key: "a", Value: new("")}}}
		}), "Duplicate"},
		{"a machine type of a template that is a URL", template(func(p *compute.InstanceProperties) { p.MachineType = "zones/us-test1-a/machineTypes/e2-medium" }), "is a name, not a URL"},
		{"a disk type of a template that is a URL", template(func(p *compute.InstanceProperties) {
			p.Disks[0].InitializeParams.DiskType = "zones/us-test1-a/diskTypes/pd-ssd"
		}), "is a name, not a URL"},
		{"a template without a machine type", template(func(p *compute.InstanceProperties) { p.MachineType = "" }), "resource.properties.machineType"},
		{"a network in custom mode", template(func(p *compute.InstanceProperties) {
			p.NetworkInterfaces[0] = &compute.NetworkInterface{Network: "global/networks/n"}
		}), "custom mode"},
		{"a disk type that is not", disk(compute.Disk{Type: "zones/us-test1-a/diskTypes/pd-fast"}), "diskType resource cannot be found"},
		{"a disk type of another zone", disk(compute.Disk{Type: "zones/us-test1-b/diskTypes/pd-ssd"}), "diskType resource cannot be found"},
		{"a small disk", disk(compute.Disk{SizeGb: 1}), "between 10 GB"},
		{"operations of a disk without", disk(compute.Disk{SizeGb: 20, ProvisionedIops: 3000}), "provisionedIops"},
		{"a label in capitals", disk(compute.Disk{SizeGb: 20, Labels: map[string]string{"a": "B"}}), "Label value"},
	} {
		t.Run(r.name, func(t *testing.T) {
			if err := r.do(); err == nil || !strings.Contains(err.Error(), r.words) || !hasStatus(err, 400) {
				t.Errorf("got %v, want %q", err, r.words)
			}
		})
	}
	if got := c.Inventory(); len(got) != 5 {
		t.Errorf("what was refused is there: %s", got)
	}
}

func TestAReservedAddressIsForWhoAsksForIt(t *testing.T) {
	c := play(t, emulator.Options{})
	c.network()
	reserve := func(name, purpose, ip string) {
		t.Helper()
		c.done(c.Addresses.Insert(project, region, &compute.Address{Name: name, AddressType: "INTERNAL", Purpose: purpose, Address: ip, Subnetwork: "regions/us-test1/subnetworks/s"}).Do())
	}
	reserve("own", "GCE_ENDPOINT", "10.0.16.2")
	reserve("shared", "SHARED_LOADBALANCER_VIP", "10.0.16.3")
	if ip := c.instance("first").NetworkInterfaces[0].NetworkIP; ip != "10.0.16.4" {
		t.Errorf("an instance that asked for no address got %s", ip)
	}
	at := func(name, ip string) *compute.Instance {
		i := machine(name)
		i.NetworkInterfaces[0].NetworkIP = ip
		return i
	}
	c.done(c.Instances.Insert(project, zone, at("second", "10.0.16.2")).Do())
	_, err := c.Instances.Insert(project, zone, at("third", "10.0.16.3")).Do()
	c.checkRefused(err, 400, "invalid", "already in use")
	_, err = c.Instances.Insert(project, zone, at("third", "10.0.16.2")).Do()
	c.checkRefused(err, 400, "invalid", "already in use")
	_, err = c.Addresses.Delete(project, region, "own").Do()
	c.checkRefused(err, 400, "resourceInUseByAnotherResource", "zones/us-test1-a/instances/second")
	c.done(c.Instances.Delete(project, zone, "second").Do())
	c.done(c.Addresses.Delete(project, region, "own").Do())
}

func TestADiskCanBeReadByMany(t *testing.T) {
	c := play(t, emulator.Options{})
	c.network()
	c.instance("a")
	c.instance("b")
	c.disk("d")
	attach := func(instance, mode string) error {
		_, err := c.wait(c.Instances.AttachDisk(project, zone, instance, &compute.AttachedDisk{Source: "zones/us-test1-a/disks/d", DeviceName: "d", Mode: mode}).Do())
		return err
	}
	for _, instance := range []string{"a", "b"} {
		if err := attach(instance, "READ_ONLY"); err != nil {
			t.Error(err)
		}
	}
	c.done(c.Instances.DetachDisk(project, zone, "b", "d").Do())
	c.checkRefused(attach("b", "READ_WRITE"), 400, "resourceInUseByAnotherResource", "instances/a")
	i := machine("c")
	i.Disks = append(i.Disks, &compute.AttachedDisk{Source: "zones/us-test1-a/disks/d"})
	_, err := c.Instances.Insert(project, zone, i).Do()
	c.checkRefused(err, 400, "resourceInUseByAnotherResource", "instances/a")
	if _, err := c.Disks.Get(project, zone, "c").Do(); !hasStatus(err, 404) {
		t.Errorf("the boot disk of an instance that was refused is there: %v", err)
	}
	c.done(c.Instances.DetachDisk(project, zone, "a", "d").Do())
	c.done(c.Instances.Insert(project, zone, i).Do())
}

func TestTheSpeedOfADiskIsChanged(t *testing.T) {
	c := play(t, emulator.Options{})
	c.done(c.Disks.Insert(project, zone, &compute.Disk{Name: "d", SizeGb: 20, Type: "zones/us-test1-a/diskTypes/hyperdisk-balanced"}).Do())
	speed := func(iops, throughput int64) {
		t.Helper()
		if d, err := c.Disks.Get(project, zone, "d").Do(); err != nil || d.ProvisionedIops != iops || d.ProvisionedThroughput != throughput || d.SizeGb != 20 {
			t.Errorf("got %+v, %v", d, err)
		}
	}
	speed(3000, 140)
	c.done(c.Disks.Update(project, zone, "d", &compute.Disk{Name: "d", ProvisionedIops: 4000, ProvisionedThroughput: 200}).Paths("provisionedIops").Do())
	speed(4000, 140)
	c.done(c.Disks.Update(project, zone, "d", &compute.Disk{Name: "d", ProvisionedIops: 5000, ProvisionedThroughput: 200}).Paths("provisionedIops", "provisionedThroughput").Do())
	speed(5000, 200)
	for fields, words := range map[string]string{"": "must be selected", "speed": "must be selected", "description": "cannot be changed"} {
		_, err := c.Disks.Update(project, zone, "d", &compute.Disk{Description: "x"}).Paths(fields).Do()
		c.checkRefused(err, 400, "invalid", words)
	}
	c.disk("ssd")
	_, err := c.Disks.Update(project, zone, "ssd", &compute.Disk{ProvisionedIops: 4000}).Paths("provisionedIops").Do()
	c.checkRefused(err, 400, "invalid", "pd-ssd does not support it")
}

func TestAliasesOfAnInstanceAreApart(t *testing.T) {
	c := play(t, emulator.Options{})
	c.network()
	i := machine("i")
	i.NetworkInterfaces[0].AliasIpRanges = []*compute.AliasIpRange{{IpCidrRange: "/24", SubnetworkRangeName: "pods"}, {IpCidrRange: "/24", SubnetworkRangeName: "pods"}, {IpCidrRange: "/32"}, {IpCidrRange: "10.4.9.0/28", SubnetworkRangeName: "pods"}}
	c.done(c.Instances.Insert(project, zone, i).Do())
	got, err := c.Instances.Get(project, zone, "i").Do()
	if err != nil {
		t.Fatal(err)
	}
	var ranges []string
	for _, a := range got.NetworkInterfaces[0].AliasIpRanges {
		ranges = append(ranges, a.IpCidrRange)
	}
	if !slices.Equal(ranges, []string{"10.4.0.0/24", "10.4.1.0/24", "10.0.16.3/32", "10.4.9.0/28"}) {
		t.Errorf("got %s", ranges)
	}
	for asked, words := range map[string]string{"/8": "does not fit", "10.9.0.0/24": "is not in", "10.4.9.0/24": "not free", "what": "is not in"} {
		j := machine("j")
		j.NetworkInterfaces[0].AliasIpRanges[0].IpCidrRange = asked
		_, err := c.Instances.Insert(project, zone, j).Do()
		c.checkRefused(err, 400, "invalid", words)
	}
	j := machine("j")
	j.NetworkInterfaces = append(j.NetworkInterfaces, &compute.NetworkInterface{Subnetwork: "regions/us-test1/subnetworks/s"})
	_, err = c.Instances.Insert(project, zone, j).Do()
	c.checkRefused(err, 400, "invalid", "Another interface is in the network")
}
