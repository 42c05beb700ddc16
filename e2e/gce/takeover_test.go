package gce

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/api/compute/v1"

	"kops.local/kops/internal/platform/gce/gceapi"
	"kops.local/kops/internal/platform/gce/gcename"
	"kops.local/kops/internal/test/clitest"
	"kops.local/kops/internal/test/cloudsuite"
)

// addKOpsTemplates gives a cluster instance templates as kOps creates them: two for each group, whose names
// end with the time of their creation.
func addKOpsTemplates(w *cloudsuite.World) {
	w.Helper()
	a := of(w)
	c := a.api
	managers, err := c.Compute.InstanceGroupManagers.List(project, region+"-a").Do()
	if err != nil {
		w.Fatal(err)
	}
	for n, m := range managers.Items {
		t, err := c.Compute.InstanceTemplates.Get(project, gceapi.Name(m.InstanceTemplate)).Do()
		if err != nil {
			w.Fatal(err)
		}
		before := t.Name
		for i, size := range []string{"e2-micro", t.Properties.MachineType} { // the previous one, and the current one
			p := *t.Properties
			p.MachineType = size
			slices.Reverse(p.Metadata.Items)
			for _, nic := range p.NetworkInterfaces {
				nic.Name = "" // only responses have it
			}
			name := fmt.Sprintf("%s%d", gcename.TemplatePrefix(m.BaseInstanceName, name), 1700000000+10*n+i)
			a.done(w)(c.Compute.InstanceTemplates.Insert(project, &compute.InstanceTemplate{Kind: "compute#instanceTemplate", Name: name, Properties: &p}).Do())
			m.InstanceTemplate = "global/instanceTemplates/" + name
		}
		a.done(w)(c.Compute.InstanceGroupManagers.SetInstanceTemplate(project, region+"-a", m.Name, &compute.InstanceGroupManagersSetInstanceTemplateRequest{InstanceTemplate: m.InstanceTemplate}).Do())
		machines, err := c.Compute.InstanceGroupManagers.ListManagedInstances(project, region+"-a", m.Name).Do()
		if err != nil {
			w.Fatal(err)
		}
		for _, i := range machines.ManagedInstances {
			a.done(w)(c.Compute.InstanceGroupManagers.RecreateInstances(project, region+"-a", m.Name, &compute.InstanceGroupManagersRecreateInstancesRequest{Instances: []string{i.Instance}}).Do())
		}
		for {
			now, err := c.Compute.InstanceGroupManagers.Get(project, region+"-a", m.Name).Do()
			if err != nil {
				w.Fatal(err)
			}
			if now.Status.IsStable {
				break
			}
		}
		a.done(w)(c.Compute.InstanceTemplates.Delete(project, before).Do())
	}
}

// takeOver: an update of a cluster of kOps only deletes old templates, and a deletion deletes everything, even
// if the state store is lost.
func takeOver(w *cloudsuite.World, lost bool) {
	before := w.Inventory()
	w.Small("--dns", "none", "--api-loadbalancer-type", "public", "--networking", "gcp")
	w.Apply()
	addKOpsTemplates(w)
	r := w.Preview()
	if !strings.Contains(r.Out, "Plan: 2 to delete") || !strings.Contains(r.Out, "No changes for machines in 2 groups") {
		w.Errorf("an update of what kOps made is to do\n%s", r.Out)
	}
	w.Apply()
	if !lost {
		w.Delete()
		return
	}
	stored := slices.DeleteFunc(w.Inventory(), func(s string) bool { return !strings.HasPrefix(s, "object ") })
	w.Env["KOPS_STATE_STORE"] = "file://" + w.TempDir()
	w.Env["GOOGLE_CLOUD_PROJECT"] = project
	w.Must("delete", "cluster", name, "--external", "--cloud", "gce", "--region", region, "--yes")
	for _, left := range clitest.Difference(w.Inventory(), append(before, stored...)) {
		if !strings.HasPrefix(left, "b/"+bucket+"/policy/roles/storage.objectAdmin/deleted:") { // it does not identify the bucket
			w.Errorf("a deleted cluster leaves %s", left)
		}
	}
}
