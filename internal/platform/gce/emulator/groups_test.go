package emulator_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/compute/v1"

	"kops.local/kops/internal/platform/gce/emulator"
)

// members returns the instances of group m.
func (c *cloud) members() []*compute.ManagedInstance {
	c.Helper()
	out, err := c.InstanceGroupManagers.ListManagedInstances(project, zone, "m").Do()
	if err != nil {
		c.Fatal(err)
	}
	return out.ManagedInstances
}

func (c *cloud) manager() *compute.InstanceGroupManager {
	c.Helper()
	m, err := c.InstanceGroupManagers.Get(project, zone, "m").Do()
	if err != nil {
		c.Fatal(err)
	}
	return m
}

// versions returns the number of instances by template.
func versions(members []*compute.ManagedInstance) map[string]int {
	out := map[string]int{}
	for _, m := range members {
		out[lastPart(m.Version.InstanceTemplate)]++
	}
	return out
}

func TestAGroupSaysWhatItIs(t *testing.T) {
	c := play(t, emulator.Options{})
	c.network()
	c.template("t")
	c.group("m", 2)
	m := c.manager()
	if m.Fingerprint == "" || m.UpdatePolicy.Type != "OPPORTUNISTIC" || m.UpdatePolicy.MaxSurge.Calculated != 1 || m.ListManagedInstancesResults != "PAGELESS" || !m.Status.IsStable || !m.Status.VersionTarget.IsReached ||
		m.CurrentActions.None != 2 || lastPart(m.Versions[0].InstanceTemplate) != "t" || m.InstanceGroup != "https://www.googleapis.com/compute/v1/projects/testproject/zones/us-test1-a/instanceGroups/m" || lastPart(m.Zone) != zone {
		t.Errorf("got %+v", m)
	}
	g, err := c.InstanceGroups.Get(project, zone, "m").Do()
	if err != nil || g.Size != 2 || lastPart(g.Network) != "n" {
		t.Errorf("got %+v, %v", g, err)
	}
	list, err := c.InstanceGroups.ListInstances(project, zone, "m", &compute.InstanceGroupsListInstancesRequest{InstanceState: "RUNNING"}).Do()
	if err != nil || len(list.Items) != 2 {
		t.Errorf("got %+v, %v", list, err)
	}
	_, err = c.InstanceGroupManagers.Insert(project, zone, &compute.InstanceGroupManager{Name: "x", TargetSize: 1, InstanceTemplate: "global/instanceTemplates/none"}).Do()
	c.checkRefused(err, 404, "notFound", "projects/testproject/global/instanceTemplates/none")
	_, err = c.InstanceGroupManagers.Insert(project, zone, &compute.InstanceGroupManager{Name: "x", InstanceTemplate: "global/instanceTemplates/t"}).Do()
	c.checkRefused(err, 400, "required", "resource.targetSize")
}

func TestAnOpportunisticGroupWaitsUntilItsInstancesAreRecreated(t *testing.T) {
	c := play(t, emulator.Options{})
	c.network()
	c.template("t")
	c.template("u")
	c.group("m", 2)
	c.done(c.InstanceGroupManagers.SetInstanceTemplate(project, zone, "m", &compute.InstanceGroupManagersSetInstanceTemplateRequest{InstanceTemplate: "global/instanceTemplates/u"}).Do())
	c.clock.Sleep(t.Context(), time.Hour)
	before := c.members()
	if v := versions(before); v["t"] != 2 || c.manager().Status.VersionTarget.IsReached {
		t.Fatalf("got %v", v)
	}
	c.done(c.InstanceGroupManagers.RecreateInstances(project, zone, "m", &compute.InstanceGroupManagersRecreateInstancesRequest{Instances: []string{before[0].Instance}}).Do())
	c.clock.Sleep(t.Context(), time.Minute)
	if after := c.members(); lastPart(after[0].Version.InstanceTemplate) != "u" || after[0].Name != before[0].Name || lastPart(after[1].Version.InstanceTemplate) != "t" {
		t.Errorf("got %v", versions(after))
	}
	c.done(c.InstanceGroupManagers.ApplyUpdatesToInstances(project, zone, "m", &compute.InstanceGroupManagersApplyUpdatesRequest{AllInstances: true}).Do())
	c.clock.Sleep(t.Context(), time.Minute)
	if after := c.members(); versions(after)["u"] != 2 || after[0].Name != before[0].Name && after[1].Name != before[0].Name {
		t.Errorf("got %v", versions(after))
	}
}

func TestAProactiveGroupReplacesItsInstances(t *testing.T) {
	for _, method := range []string{"SUBSTITUTE", "RECREATE"} {
		c := play(t, emulator.Options{})
		c.network()
		c.template("t")
		c.template("u")
		c.group("m", 3)
		before := c.members()
		policy := &compute.InstanceGroupManagerUpdatePolicy{Type: "PROACTIVE", MinimalAction: "REPLACE", ReplacementMethod: method, MaxUnavailable: &compute.FixedOrPercent{Fixed: 1}, MaxSurge: &compute.FixedOrPercent{Fixed: 0, ForceSendFields: []string{"Fixed"}}}
		c.done(c.InstanceGroupManagers.Patch(project, zone, "m", &compute.InstanceGroupManager{InstanceTemplate: "global/instanceTemplates/u", UpdatePolicy: policy, Fingerprint: c.manager().Fingerprint}).Do())
		least := 3
		for !c.manager().Status.VersionTarget.IsReached || !c.manager().Status.IsStable {
			running := 0
			for _, m := range c.members() {
				if m.CurrentAction == "NONE" {
					running++
				}
			}
			least = min(least, running)
			if c.clock.Sleep(t.Context(), time.Second); c.clock.Now().Year() > 2026 {
				t.Fatalf("%s: never done: %+v", method, c.members())
			}
		}
		kept := 0
		for _, m := range c.members() {
			if slices.ContainsFunc(before, func(b *compute.ManagedInstance) bool { return b.Name == m.Name }) {
				kept++
			}
		}
		if least != 2 || versions(c.members())["u"] != 3 || kept != map[string]int{"SUBSTITUTE": 0, "RECREATE": 3}[method] {
			t.Errorf("%s: %d at least, %v, %d of the names", method, least, versions(c.members()), kept)
		}
	}
}

func TestAGroupThatSurgesNeverHasLess(t *testing.T) {
	c := play(t, emulator.Options{})
	c.network()
	c.template("t")
	c.template("u")
	c.group("m", 2)
	c.done(c.InstanceGroupManagers.Patch(project, zone, "m", &compute.InstanceGroupManager{InstanceTemplate: "global/instanceTemplates/u",
		UpdatePolicy: &compute.InstanceGroupManagerUpdatePolicy{Type: "PROACTIVE", MaxSurge: &compute.FixedOrPercent{Percent: 50}, MaxUnavailable: &compute.FixedOrPercent{ForceSendFields: []string{"Fixed"}}}}).Do())
	if p := c.manager().UpdatePolicy; p.MaxSurge.Calculated != 1 || p.MaxSurge.Fixed != 0 || p.MaxUnavailable.Calculated != 0 {
		t.Errorf("got %+v %+v", p.MaxSurge, p.MaxUnavailable)
	}
	for !c.manager().Status.VersionTarget.IsReached || !c.manager().Status.IsStable {
		running := 0
		for _, m := range c.members() {
			if m.InstanceStatus == "RUNNING" {
				running++
			}
		}
		if running < 2 || len(c.members()) > 4 {
			t.Fatalf("%d run: %+v", running, c.members())
		}
		if c.clock.Sleep(t.Context(), time.Second); c.clock.Now().Year() > 2026 {
			t.Fatalf("never done: %+v", c.members())
		}
	}
}

func TestMembersAreDeletedAbandonedAndMade(t *testing.T) {
	c := play(t, emulator.Options{})
	c.network()
	c.template("t")
	c.group("m", 3)
	before := c.members()
	c.done(c.InstanceGroupManagers.DeleteInstances(project, zone, "m", &compute.InstanceGroupManagersDeleteInstancesRequest{Instances: []string{before[0].Instance}}).Do())
	if m := c.members()[0]; m.CurrentAction != "DELETING" || m.InstanceStatus != "STOPPING" {
		t.Errorf("got %+v", m)
	}
	c.done(c.InstanceGroupManagers.AbandonInstances(project, zone, "m", &compute.InstanceGroupManagersAbandonInstancesRequest{Instances: []string{before[1].Instance}}).Do())
	c.clock.Sleep(t.Context(), time.Minute)
	if after := c.members(); len(after) != 1 || after[0].Name != before[2].Name || c.manager().TargetSize != 1 {
		t.Errorf("got %+v", after)
	}
	if _, err := c.Instances.Get(project, zone, before[0].Name).Do(); !hasStatus(err, 404) {
		t.Errorf("the deleted one: %v", err)
	}
	if i, err := c.Instances.Get(project, zone, before[1].Name).Do(); err != nil || i.Status != "RUNNING" {
		t.Errorf("the abandoned one: %+v, %v", i, err)
	}
	_, err := c.InstanceGroupManagers.RecreateInstances(project, zone, "m", &compute.InstanceGroupManagersRecreateInstancesRequest{Instances: []string{before[1].Instance}}).Do()
	c.checkRefused(err, 400, "invalid", "is not a member of instanceGroupManager 'm'")
	c.done(c.InstanceGroupManagers.CreateInstances(project, zone, "m", &compute.InstanceGroupManagersCreateInstancesRequest{Instances: []*compute.PerInstanceConfig{{Name: "special"}}}).Do())
	c.clock.Sleep(t.Context(), time.Minute)
	if after := c.members(); len(after) != 2 || after[1].Name != "special" || after[1].InstanceStatus != "RUNNING" || c.manager().TargetSize != 2 {
		t.Errorf("got %+v", after)
	}
	_, err = c.InstanceGroupManagers.CreateInstances(project, zone, "m", &compute.InstanceGroupManagersCreateInstancesRequest{Instances: []*compute.PerInstanceConfig{{Name: "special"}}}).Do()
	c.checkRefused(err, 409, "alreadyExists", "special")
	_, err = c.InstanceGroupManagers.Patch(project, zone, "m", &compute.InstanceGroupManager{Fingerprint: "AAAAAAAAAAA=", TargetSize: 5}).Do()
	c.checkRefused(err, 412, "conditionNotMet", "")
	c.done(c.InstanceGroupManagers.Delete(project, zone, "m").Do())
	if got := c.Inventory(); slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, "special") }) {
		t.Errorf("left: %s", got)
	}
}

func TestChangesOfAGroupDoNotUndoEachOther(t *testing.T) {
	c := play(t, emulator.Options{})
	c.network()
	c.template("t")
	c.template("u")
	c.group("m", 2)
	resize, err := c.InstanceGroupManagers.Resize(project, zone, "m", 4).Do()
	if err != nil {
		t.Fatal(err)
	}
	first, err := c.InstanceGroupManagers.Patch(project, zone, "m", &compute.InstanceGroupManager{InstanceTemplate: "global/instanceTemplates/u"}).Do()
	if err != nil {
		t.Fatal(err)
	}
	second, err := c.InstanceGroupManagers.Patch(project, zone, "m", &compute.InstanceGroupManager{ListManagedInstancesResults: "PAGINATED", Fingerprint: c.manager().Fingerprint}).Do()
	if err != nil {
		t.Fatal(err)
	}
	c.done(resize, nil)
	c.done(first, nil)
	if op, err := c.wait(second, nil); err == nil || op.HttpErrorStatusCode != 412 {
		t.Errorf("the fingerprint was of before the others, and yet: %v", err)
	}
	if m := c.manager(); m.TargetSize != 4 || lastPart(m.InstanceTemplate) != "u" {
		t.Errorf("got %+v", m)
	}
}

func TestMembersAreListedInPagesOnlyWhereTheGroupIsSetSo(t *testing.T) {
	c := play(t, emulator.Options{})
	c.network()
	c.template("t")
	c.group("m", 5)
	out, err := c.InstanceGroupManagers.ListManagedInstances(project, zone, "m").MaxResults(2).Do()
	if err != nil || len(out.ManagedInstances) != 5 || out.NextPageToken != "" {
		t.Errorf("got %d, %v", len(out.ManagedInstances), err)
	}
	c.done(c.InstanceGroupManagers.Patch(project, zone, "m", &compute.InstanceGroupManager{ListManagedInstancesResults: "PAGINATED"}).Do())
	pages, all := 0, map[string]bool{}
	err = c.InstanceGroupManagers.ListManagedInstances(project, zone, "m").MaxResults(2).Pages(t.Context(), func(page *compute.InstanceGroupManagersListManagedInstancesResponse) error {
		pages++
		for _, m := range page.ManagedInstances {
			all[m.Name] = true
		}
		return nil
	})
	if err != nil || pages != 3 || len(all) != 5 {
		t.Errorf("got %d in %d pages, %v", len(all), pages, err)
	}
}

func TestATemplateIsAsItWasSent(t *testing.T) {
	c := play(t, emulator.Options{})
	c.network()
	c.template("t")
	got, err := c.InstanceTemplates.Get(project, "t").Do()
	if err != nil {
		t.Fatal(err)
	}
	p := got.Properties
	if p.MachineType != "e2-medium" || p.Metadata.Kind != "compute#metadata" || p.Disks[0].Kind != "compute#attachedDisk" || p.NetworkInterfaces[0].Kind != "compute#networkInterface" || p.NetworkInterfaces[0].AccessConfigs[0].NetworkTier != "PREMIUM" ||
		p.NetworkInterfaces[0].Name != "nic0" || p.NetworkInterfaces[0].Subnetwork != "https://www.googleapis.com/compute/v1/projects/testproject/regions/us-test1/subnetworks/s" ||
		p.Disks[0].InitializeParams.SourceImage != "https://www.googleapis.com/compute/v1/projects/debian-cloud/global/images/debian-12" || p.Disks[0].InitializeParams.DiskType != "pd-standard" || p.NetworkInterfaces[0].AliasIpRanges[0].IpCidrRange != "/24" {
		t.Errorf("got %+v", p)
	}
	got.Name = "copy"
	got.Id, got.SelfLink, got.CreationTimestamp, got.Kind = 0, "", "", ""
	got.Properties.Disks[0].Index, got.Properties.NetworkInterfaces[0].Name = 0, ""
	c.done(c.InstanceTemplates.Insert(project, got).Do())
}

func TestWhatIsBegunWithAMemberEndsWhatWasBegunBefore(t *testing.T) {
	for name, begin := range map[string]func(*cloud, string) (*compute.Operation, error){
		"recreate": func(c *cloud, url string) (*compute.Operation, error) {
			return c.InstanceGroupManagers.RecreateInstances(project, zone, "m", &compute.InstanceGroupManagersRecreateInstancesRequest{Instances: []string{url}}).Do()
		},
		"delete the instance": func(c *cloud, url string) (*compute.Operation, error) {
			return c.Instances.Delete(project, zone, lastPart(url)).Do()
		},
		"stop and start it": func(c *cloud, url string) (*compute.Operation, error) {
			c.done(c.Instances.Stop(project, zone, lastPart(url)).Do())
			return c.Instances.Start(project, zone, lastPart(url)).Do()
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := play(t, emulator.Options{})
			c.network()
			c.template("t")
			c.done(c.InstanceGroupManagers.Insert(project, zone, &compute.InstanceGroupManager{Name: "m", InstanceTemplate: "global/instanceTemplates/t", TargetSize: 1}).Do())
			before := c.members()[0]
			if before.CurrentAction != "CREATING" {
				t.Fatalf("got %+v", before)
			}
			if _, err := begin(c, before.Instance); err != nil {
				t.Fatal(err)
			}
			for range 29 { // less than a group waits after a failed attempt
				c.clock.Sleep(t.Context(), time.Second)
				if m := c.members(); len(m) != 1 || m[0].Name != before.Name || m[0].LastAttempt != nil {
					t.Fatalf("got %+v", m[0])
				}
			}
			if m := c.members()[0]; m.CurrentAction != "NONE" || m.InstanceStatus != "RUNNING" {
				t.Errorf("got %+v", m)
			}
		})
	}
}
