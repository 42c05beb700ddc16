package gce

import (
	"strings"
	"testing"

	"google.golang.org/api/compute/v1"

	"kops.local/kops/internal/platform/gce/gcename"
)

// machines returns the names of a group's machines in the first zone.
func (w *world) machines(group string) []string {
	w.Helper()
	out, err := w.api().Compute.Instances.List(project, region+"-a").Filter("labels.k8s-io-instance-group=" + group).Do()
	if err != nil {
		w.Fatal(err)
	}
	var names []string
	for _, i := range out.Items {
		names = append(names, i.Name)
	}
	return names
}

// TestMachinesAreReplaced: a roll replaces outdated machines, and a deletion of one machine deletes only that one.
func TestMachinesAreReplaced(t *testing.T) {
	w := newWorld(t)
	before := w.inventory()
	w.small()
	w.apply()
	nodes := "nodes-" + region + "-a"
	old := w.machines(nodes)
	w.setFields(nodes, "spec.machineType=e2-standard-2")
	w.apply()
	w.Must("rolling-update", "cluster", name, "--cloudonly", "--yes", "--node-interval", "0s", "--post-drain-delay", "0s", "--validate-count", "0", "--instance-group", nodes)
	now := w.machines(nodes)
	if len(now) != 1 || w.targetSize(nodes, region+"-a") != 1 {
		t.Errorf("after the roll there are %v", now)
	}
	for _, m := range now {
		if strings.Contains(strings.Join(old, " "), m) {
			t.Errorf("%s was not replaced", m)
		}
	}
	if r := w.Must("rolling-update", "cluster", name, "--cloudonly"); !strings.Contains(r.Out, "No rolling-update required") {
		t.Errorf("after the roll some are outdated:\n%s", r.Out)
	}
	if r := w.Must("update", "cluster", name); !strings.Contains(r.Out, "Plan: 1 to delete") || !strings.Contains(r.Out, "No changes for machines in 2 groups") {
		t.Errorf("after the roll the old template goes, and no machine:\n%s", r.Out)
	}
	w.apply()
	control := "control-plane-" + region + "-a"
	one := w.machines(control)
	w.Must("delete", "instance", one[0], "--name", name, "--cloudonly", "--yes", "--post-drain-delay", "0s", "--validate-count", "0")
	if left := w.machines(control); len(left) != 1 || left[0] == one[0] {
		t.Errorf("after the deletion of %s there are %v", one[0], left)
	}
	w.checkUnchanged()
	w.Must("delete", "cluster", name, "--yes")
	w.checkNothingLeft(before)
}

// TestAReleasedMachineStillBelongsToTheCluster: a deletion also deletes a detached machine.
func TestAReleasedMachineStillBelongsToTheCluster(t *testing.T) {
	w := newWorld(t)
	before := w.inventory()
	w.small("--dns", "none")
	w.apply()
	nodes := "nodes-" + region + "-a"
	c := w.api()
	if err := c.Await(t.Context())(c.Compute.InstanceGroupManagers.AbandonInstances(project, region+"-a", gcename.Group(nodes, region+"-a", name),
		&compute.InstanceGroupManagersAbandonInstancesRequest{Instances: []string{"zones/" + region + "-a/instances/" + w.machines(nodes)[0]}}).Do()); err != nil {
		t.Fatal(err)
	}
	w.Must("delete", "cluster", name, "--yes")
	w.checkNothingLeft(before)
}
