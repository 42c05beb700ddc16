package node

import (
	"context"
	"slices"
	"strings"
	"testing"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd/volume"
	"kops.local/kops/internal/platform/gce/gcetest"
)

// project returns a project with three zones, each with a control-plane machine and a disk for
// etcd-main; the calling machine is the one in us-test1-a.
func project(t *testing.T) *gcetest.Cloud {
	t.Helper()
	c := gcetest.Start(t, selfMetadata())
	for _, zone := range []string{"us-test1-a", "us-test1-b", "us-test1-c", "us-test2-a"} {
		c.Put("compute/v1/projects/testproject/zones/"+zone, gcetest.Doc{"name": zone})
	}
	for zone, address := range map[string]string{"a": "10.0.16.2", "b": "10.0.16.3", "c": "10.0.16.4"} {
		name := map[string]string{"a": "self"}[zone]
		if name == "" {
			name = "server-" + zone
		}
		c.Put(zonePath(zone, "instances", name), gcetest.Doc{"name": name, "networkInterfaces": []gcetest.Doc{{"networkIP": address}, {"networkIP": "192.168.0." + address[len(address)-1:]}}})
		c.Put(zonePath(zone, "disks", zone+"-etcd-main"), diskDoc(zone+"-etcd-main", zone+"-2f"+zone))
	}
	return c
}

// zonePath returns the path of an object in a zone of us-test1.
func zonePath(zone, kind, name string) string {
	return "compute/v1/projects/testproject/zones/us-test1-" + zone + "/" + kind + "/" + name
}

func diskDoc(name, member string) gcetest.Doc {
	return gcetest.Doc{"name": name, "status": "READY", "labels": map[string]string{"k8s-io-cluster-name": "minimal-example-com", "k8s-io-etcd-main": member, "k8s-io-role-master": "master"}}
}

func request() volume.Request {
	return volume.Request{Cluster: "etcd", NameTag: "k8s-io-etcd-main", Port: "3996", Mounter: mounter{},
		Tags: []string{"k8s-io-cluster-name=minimal-example-com", "k8s-io-etcd-main", "k8s-io-role-master=master"}}
}

// mounter mounts nothing, and returns where it would mount.
type mounter struct{}

func (mounter) Mount(_ context.Context, v volume.Volume) (string, error) {
	return "/mnt/master-" + v.ID, nil
}

// labelled returns the disks as etcd-manager sees them.
func labelled(c *gcetest.Cloud, r volume.Request) *volume.Labelled {
	return &volume.Labelled{Request: r, Connect: connectDisks(world(c), r)}
}

func TestADiskOfEtcdIsAttachedAndFound(t *testing.T) {
	c := project(t)
	source := newVolumes(world(c), request())
	if _, err := source.Disk(t.Context()); !fault.Is(err, fault.NotYet) || !strings.Contains(err.Error(), "us-test1-a-a-etcd-main is being attached") {
		t.Fatalf("at first: %v", err)
	}
	users, _ := c.Get(zonePath("a", "disks", "a-etcd-main"), "users").([]string)
	if !slices.Equal(users, []string{"https://www.googleapis.com/" + zonePath("a", "instances", "self")}) || c.Get(zonePath("a", "disks", "a-etcd-main"), "deviceName") != "a-etcd-main" {
		t.Errorf("the disk is at %v", users)
	}
	got, err := source.Disk(t.Context())
	if err != nil || got != (volume.Disk{Dir: "/mnt/master-us-test1-a-a-etcd-main", Peer: "etcd-a", Address: "10.0.16.2"}) {
		t.Errorf("it is %+v, %v", got, err)
	}
	v, err := labelled(c, request()).Volumes(t.Context())
	if err != nil || len(v) != 3 || !v[0].Attached || !slices.Equal(v[0].Devices, []string{"/dev/disk/by-id/google-a-etcd-main"}) {
		t.Errorf("the disks are %+v, %v", v, err)
	}
}

func TestADiskThatAnotherMachineHasIsLeft(t *testing.T) {
	c := project(t)
	taken := diskDoc("a-etcd-main", "a-2fa")
	taken["users"] = []string{"https://www.googleapis.com/" + zonePath("a", "instances", "other")}
	c.Put(zonePath("a", "disks", "a-etcd-main"), taken)
	_, err := newVolumes(world(c), request()).Disk(t.Context())
	if !fault.Is(err, fault.NotYet) || !strings.Contains(err.Error(), "us-test1-a-a-etcd-main of etcd-a is attached to other") || !strings.Contains(err.Error(), "us-test1-b-b-etcd-main of etcd-b is elsewhere") {
		t.Errorf("got %v", err)
	}
	for _, call := range c.Calls() {
		if strings.Contains(call, "attachDisk") {
			t.Errorf("called %s", call)
		}
	}
}

func TestAnotherMachineMayBeQuicker(t *testing.T) {
	c := project(t)
	d := labelled(c, request())
	all, err := d.Volumes(t.Context())
	if err != nil || !all[0].Free {
		t.Fatalf("the disks are %+v, %v", all, err)
	}
	taken := diskDoc("a-etcd-main", "a-2fa")
	taken["users"] = []string{"https://www.googleapis.com/" + zonePath("a", "instances", "other")}
	c.Put(zonePath("a", "disks", "a-etcd-main"), taken)
	if err := d.Attach(t.Context(), all[0]); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "attach the disk a-etcd-main") {
		t.Errorf("got %v", err)
	}
}

func TestOtherDisksAreNotEtcds(t *testing.T) {
	c := project(t)
	for name, change := range map[string]func(labels map[string]string){
		"0-of-another-cluster": func(l map[string]string) { l["k8s-io-cluster-name"] = "other-example-com" },
		"0-of-events": func(l map[string]string) {
			l["k8s-io-etcd-events"] = l["k8s-io-etcd-main"]
			delete(l, "k8s-io-etcd-main")
		},
		"0-of-a-volume": func(l map[string]string) { delete(l, "k8s-io-role-master") },
	} {
		d := diskDoc(name, "a-2fa")
		change(d["labels"].(map[string]string))
		c.Put(zonePath("a", "disks", name), d)
	}
	c.Put("compute/v1/projects/testproject/zones/us-test2-a/disks/d-etcd-main", diskDoc("d-etcd-main", "d-2fd"))
	all, err := labelled(c, request()).Volumes(t.Context())
	var ids []string
	for _, v := range all {
		ids = append(ids, v.ID)
	}
	if err != nil || !slices.Equal(ids, []string{"us-test1-a-a-etcd-main", "us-test1-b-b-etcd-main", "us-test1-c-c-etcd-main"}) {
		t.Errorf("found %v, %v", ids, err)
	}
	r := request()
	r.Tags = nil
	if _, err := labelled(c, r).Volumes(t.Context()); !fault.Is(err, fault.Permanent) {
		t.Errorf("without labels: %v", err)
	}
}

func TestPeersAreTheMachinesThatHaveDisks(t *testing.T) {
	c := project(t)
	for zone, machine := range map[string]string{"b": "server-b", "c": "gone"} {
		d := diskDoc(zone+"-etcd-main", zone+"-2f"+zone)
		d["users"] = []string{"https://www.googleapis.com/" + zonePath(zone, "instances", machine)}
		c.Put(zonePath(zone, "disks", zone+"-etcd-main"), d)
	}
	found, err := newVolumes(world(c), request()).Discover(t.Context())
	var at []string
	for _, s := range found {
		at = append(at, s.ID+" "+s.Endpoint)
	}
	if err != nil || !slices.Equal(at, []string{"etcd-b 10.0.16.3:3996", "etcd-b 192.168.0.3:3996"}) {
		t.Errorf("found %v, %v", at, err)
	}
}

func TestAZoneThatDoesNotAnswerHidesItsDisksOnly(t *testing.T) {
	c := project(t)
	d := labelled(c, request())
	down := ""
	c.Refuse = func(call string) (int, string) {
		if down != "" && strings.Contains(call, "/zones/"+down+"/") {
			return 503, "backendError"
		}
		return 0, ""
	}
	for zone, want := range map[string]int{"us-test1-b": 2, "us-test1-a": 0} {
		down = zone
		all, err := d.Volumes(t.Context())
		if len(all) != want || (err != nil) != (want == 0) {
			t.Errorf("without %s there are %+v, %v", zone, all, err)
		}
	}
	down = ""
	c.Refuse = func(string) (int, string) { return 403, "forbidden" }
	if _, err := d.Volumes(t.Context()); !fault.Is(err, fault.Denied) || fault.Remedy(err) == "" {
		t.Errorf("a machine that may not ask: %v", err)
	}
}

func TestAMachineWithoutMetadataWaits(t *testing.T) {
	_, err := newVolumes(world(gcetest.Start(t, nil)), request()).Disk(t.Context())
	if !fault.Is(err, fault.NotYet) || !strings.Contains(err.Error(), "identify this machine") {
		t.Errorf("got %v", err)
	}
}
