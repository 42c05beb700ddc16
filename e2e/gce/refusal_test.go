package gce

import (
	"strings"
	"testing"

	"kops.local/kops/internal/platform/gce/emulator"
)

// checkRefused checks that a command fails, and names everything that was refused.
func (w *world) checkRefused(words string, args ...string) {
	w.Helper()
	r := w.Run(args...)
	for _, want := range strings.Fields(words) {
		if r.Code == 0 || !strings.Contains(r.Err, want) {
			w.Errorf("kops %s, exit %d, does not name %s:\n%s", strings.Join(args, " "), r.Code, want, r.Err)
		}
	}
}

// TestEveryRightThatIsMissingIsNamed: a command reports its missing permissions, and continues once it has them.
func TestEveryRightThatIsMissingIsNamed(t *testing.T) {
	w := newWorld(t)
	before := w.inventory()
	w.small("--dns", "public")
	update := []string{"update", "cluster", name, "--yes"}
	for _, right := range strings.Fields(`dns.managedZones.list compute.machineTypes.list compute.subnetworks.list compute.firewalls.list compute.instanceTemplates.list
compute.instanceGroupManagers.list resourcemanager.projects.getIamPolicy`) {
		w.ResetHome() // the queries of an earlier command
		w.cloud.Deny(right)
		w.checkRefused(right, update...)
	}
	// Each requires the objects that the ones before it create.
	for _, rights := range []string{
		"compute.networks.create compute.disks.create iam.serviceAccounts.create dns.changes.create",
		"compute.subnetworks.create compute.firewalls.create resourcemanager.projects.setIamPolicy",
		"compute.instanceTemplates.create",
		"compute.instanceGroupManagers.create",
	} {
		w.cloud.Deny(strings.Fields(rights)...)
		w.checkRefused(rights, update...)
	}
	w.cloud.Deny()
	w.apply()
	for _, rights := range []string{
		"compute.instanceGroupManagers.delete compute.firewalls.delete compute.disks.delete dns.changes.create",
		"compute.instanceTemplates.delete",
		"compute.subnetworks.delete iam.serviceAccounts.delete",
		"compute.networks.delete",
	} {
		w.cloud.Deny(strings.Fields(rights)...)
		w.checkRefused(rights, "delete", "cluster", name, "--yes")
	}
	w.cloud.Deny()
	w.Must("delete", "cluster", name, "--yes")
	w.checkNothingLeft(before)
}

// TestAQuotaThatIsUsedUpIsNamed: objects created before are kept, and the rest is created when
// the quota allows it.
func TestAQuotaThatIsUsedUpIsNamed(t *testing.T) {
	quotas := map[string]float64{"FIREWALLS": 3, "INSTANCE_TEMPLATES": 1}
	w := newWorld(t, func(o *emulator.Options) { o.Quotas = quotas })
	before := w.inventory()
	w.small()
	w.checkRefused("FIREWALLS INSTANCE_TEMPLATES higher", "update", "cluster", name, "--yes")
	delete(quotas, "FIREWALLS")
	delete(quotas, "INSTANCE_TEMPLATES")
	w.apply()
	w.Must("delete", "cluster", name, "--yes")
	w.checkNothingLeft(before)
}

// TestAMachineTypeThatTheZoneLacksIsReported checks that it is reported before anything is created.
func TestAMachineTypeThatTheZoneLacksIsReported(t *testing.T) {
	w := newWorld(t)
	w.small()
	w.setFields("nodes-"+region+"-a", "spec.machineType=e9-medium")
	before := w.cloud.Inventory()
	w.checkRefused("e9-medium spec.machineType", "update", "cluster", name, "--yes")
	if after := w.cloud.Inventory(); len(after) != len(before) {
		t.Errorf("%v was made", after)
	}
}
