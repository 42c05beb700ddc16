package kinds

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/api/compute/v1"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/gceapi"
	"kops.local/kops/internal/platform/gce/gcename"
	"kops.local/kops/internal/test/enginetest"
)

// A template is deleted as soon as no machine uses it, and not before.
func TestATemplateGoesWhenItsLastMachineHasGone(t *testing.T) {
	s := play(t, options())
	first := wantedGraph(t, testCluster, "us-test1", "")
	s.apply(testCluster, first)
	next := wantedGraph(t, testCluster, "us-test1", "")
	for n := range next.All() {
		if template, ok := n.Want.(*InstanceTemplate); ok {
			template.MachineType = "e2-standard-4"
		}
	}
	s.apply(testCluster, next)
	s.checkSettled(testCluster, next) // the old template is kept without a message
	if got := keys(s, &InstanceTemplates, resource.Scope{Cluster: testCluster}); len(got) != 2 {
		t.Fatalf("there are the templates %q", got)
	}
	managed := gcename.Group("cp", testZone, testCluster)
	machines, err := s.c.Compute.InstanceGroupManagers.ListManagedInstances(testProject, testZone, managed).Do()
	if err != nil {
		t.Fatal(err)
	}
	s.done(s.c.Compute.InstanceGroupManagers.RecreateInstances(testProject, testZone, managed,
		&compute.InstanceGroupManagersRecreateInstancesRequest{Instances: []string{machines.ManagedInstances[0].Instance}}).Do())
	for i := 0; i < 100; i++ {
		m, err := s.c.Compute.InstanceGroupManagers.Get(testProject, testZone, managed).Do()
		if err != nil {
			t.Fatal(err)
		}
		if m.Status.VersionTarget.IsReached && m.Status.IsStable {
			break
		}
		_ = s.clock.Sleep(t.Context(), 1e9)
	}
	p := s.Plan(testCluster, next, false)
	if got := enginetest.Changes(p); len(got) != 1 || !strings.HasPrefix(got[0], "delete google_compute_instance_template/cp-k-example-com-") {
		t.Fatalf("got %q", got)
	}
	if err := s.Carry(testCluster, next, p, false); err != nil {
		t.Fatal(err)
	}
	s.checkSettled(testCluster, next)
	if got := keys(s, &InstanceTemplates, resource.Scope{Cluster: testCluster}); len(got) != 1 {
		t.Errorf("there are the templates %q", got)
	}
}

// kOps names templates after the time. One with the wanted content is adopted as it is.
func TestATemplateOfTheWantedContentIsTakenWhateverItsName(t *testing.T) {
	s := play(t, options())
	g := s.ground()
	want := InstanceTemplates.New("nodes", g.template("nodes"))
	properties := want.Want.(*InstanceTemplate).properties()
	slices.Reverse(properties.Metadata.Items) // their order does not matter
	s.done(s.c.Compute.InstanceTemplates.Insert(testProject, &compute.InstanceTemplate{Name: "nodes-k-example-com-1700000000", Properties: properties}).Do())
	var gr graph.Graph
	if err := gr.Add(want); err != nil {
		t.Fatal(err)
	}
	made := func() *plan.Plan {
		p, err := plan.Make(&gr, plan.Snapshot{InstanceTemplates.Name: s.objects(InstanceTemplates.Erase(), false, &gr)}, []resource.Any{InstanceTemplates.Erase()}, plan.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := made(); len(p.Steps) != 1 || p.Steps[0].Op != plan.Keep || gceapi.Name(p.Steps[0].Have.(*InstanceTemplate).ID) != "nodes-k-example-com-1700000000" {
		t.Fatalf("got %v", enginetest.Changes(p))
	}
	// A group keeps its template, even if a second one has the same content.
	own := *want.Want.(*InstanceTemplate)
	if err := createTemplate(t.Context(), s.c, &own); err != nil {
		t.Fatal(err)
	}
	build(s, &InstanceGroupManagers, g.group("nodes", &InstanceTemplate{ID: "projects/" + testProject + "/global/instanceTemplates/nodes-k-example-com-1700000000"}, 0))
	if p := made(); len(p.Steps) != 1 || gceapi.Name(p.Steps[0].Have.(*InstanceTemplate).ID) != "nodes-k-example-com-1700000000" {
		t.Errorf("got %v", enginetest.Changes(p))
	}
	if got := len(observed(s, &InstanceTemplates, everything)); got != 2 {
		t.Errorf("a deletion finds %d templates", got)
	}
}

func TestATemplateIsNamedByAllOfItsContent(t *testing.T) {
	n := networkTemplate()
	base := templateName(n)
	if !strings.HasPrefix(base, "nodes-k-example-com-") || len(base) != len("nodes-k-example-com-")+digestLength {
		t.Errorf("the name is %s", base)
	}
	if slices.Reverse(n.Account.Scopes); templateName(n) != base {
		t.Error("the order of scopes makes another template")
	}
	for what, change := range map[string]func(*InstanceTemplate){
		"forwarding":   func(t *InstanceTemplate) { t.CanIPForward = true },
		"disk":         func(t *InstanceTemplate) { t.Disks[0].SizeGiB++ },
		"image":        func(t *InstanceTemplate) { t.Disks[0].SourceImage += "x" },
		"IOPS":         func(t *InstanceTemplate) { t.Disks[0].IOPS = 3000 },
		"throughput":   func(t *InstanceTemplate) { t.Disks[0].Throughput = 300 },
		"disk type":    func(t *InstanceTemplate) { t.Disks[0].DiskType = "pd-ssd" },
		"label":        func(t *InstanceTemplate) { t.Labels["a"] = "b" },
		"machine type": func(t *InstanceTemplate) { t.MachineType = "e2-small" },
		"metadata":     func(t *InstanceTemplate) { t.Metadata["user-data"] = resource.Text(lit("other")) },
		"network":      func(t *InstanceTemplate) { t.Interfaces[0].Network = lit("p/other") },
		"subnetwork":   func(t *InstanceTemplate) { t.Interfaces[0].Subnetwork = lit("projects/p/regions/r/subnetworks/other") },
		"stack":        func(t *InstanceTemplate) { t.Interfaces[0].StackType = "IPV4_IPV6" },
		"access":       func(t *InstanceTemplate) { t.Interfaces[0].Access = nil },
		"alias":        func(t *InstanceTemplate) { t.Interfaces[0].Aliases = []AliasRange{{"/24", "pods"}} },
		"restart":      func(t *InstanceTemplate) { t.Scheduling.AutomaticRestart = false },
		"maintenance":  func(t *InstanceTemplate) { t.Scheduling.OnHostMaintenance = "TERMINATE" },
		"preemptible":  func(t *InstanceTemplate) { t.Scheduling.Preemptible = true },
		"model":        func(t *InstanceTemplate) { t.Scheduling.ProvisioningModel = "SPOT" },
		"account":      func(t *InstanceTemplate) { t.Account.Email = lit("a@b") },
		"scope":        func(t *InstanceTemplate) { t.Account.Scopes = t.Account.Scopes[1:] },
		"tag":          func(t *InstanceTemplate) { t.Tags = append(t.Tags, "more") },
		"accelerator":  func(t *InstanceTemplate) { t.Accelerators = []Accelerator{{"nvidia-l4", 1}} },
	} {
		other := networkTemplate()
		if change(other); templateName(other) == base {
			t.Errorf("another %s has the same name", what)
		}
	}
}

func networkTemplate() *InstanceTemplate {
	t := template(testCluster, "nodes", lit("p/n"), lit("projects/p/regions/r/subnetworks/s"))
	return &t
}

// A template stays the same if Google adds fields, or normalizes values.
func TestWhatGoogleAddsToATemplateDoesNotCount(t *testing.T) {
	n := networkTemplate()
	p := n.properties()
	p.Disks[0].Kind, p.Disks[0].Interface, p.Disks[0].Index = "compute#attachedDisk", "SCSI", 0
	p.Disks[0].InitializeParams.SourceImage = strings.Replace(p.Disks[0].InitializeParams.SourceImage, "www", "compute", 1)
	p.NetworkInterfaces[0].Name, p.NetworkInterfaces[0].Fingerprint, p.NetworkInterfaces[0].StackType = "nic0", "abc", ""
	p.NetworkInterfaces[0].AccessConfigs[0].Name = "External NAT"
	p.Metadata.Fingerprint, p.Metadata.Kind = "abc", "compute#metadata"
	p.Tags.Fingerprint = "abc"
	p.Scheduling.ProvisioningModel = ""
	if got := templateName(observedTemplate(&compute.InstanceTemplate{Name: "nodes-k-example-com-1", SelfLink: "x", Properties: p})); got != templateName(n) {
		t.Errorf("got %s, want %s", got, templateName(n))
	}
}
