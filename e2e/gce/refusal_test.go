package gce

import (
	"strings"
	"testing"

	"kops.local/kops/internal/platform/gce/emulator"
)

// refused finds that a command fails, and names all that it was refused.
func (w *world) refused(words string, args ...string) {
	w.Helper()
	r := w.Run(args...)
	for _, want := range strings.Fields(words) {
		if r.Code == 0 || !strings.Contains(r.Err, want) {
			w.Errorf("kops %s, exit %d, does not name %s:\n%s", strings.Join(args, " "), r.Code, want, r.Err)
		}
	}
}

// TestEveryRightThatIsMissingIsNamed: a command tells which rights it lacks, and goes on when it has them.
func TestEveryRightThatIsMissingIsNamed(t *testing.T) {
	w := newWorld(t)
	before := w.inventory()
	w.small("--dns", "public")
	update := []string{"update", "cluster", name, "--yes"}
	for _, right := range strings.Fields(`dns.managedZones.list compute.machineTypes.list compute.subnetworks.list compute.firewalls.list compute.instanceTemplates.list
compute.instanceGroupManagers.list resourcemanager.projects.getIamPolicy`) {
		w.Forget() // what an earlier command asked
		w.cloud.Deny(right)
		w.refused(right, update...)
	}
	// Each needs that what the ones before make is there.
	for _, rights := range []string{
		"compute.networks.create compute.disks.create iam.serviceAccounts.create dns.changes.create",
		"compute.subnetworks.create compute.firewalls.create resourcemanager.projects.setIamPolicy",
		"compute.instanceTemplates.create",
		"compute.instanceGroupManagers.create",
	} {
		w.cloud.Deny(strings.Fields(rights)...)
		w.refused(rights, update...)
	}
	w.cloud.Deny()
	w.applied()
	for _, rights := range []string{
		"compute.instanceGroupManagers.delete compute.firewalls.delete compute.disks.delete dns.changes.create",
		"compute.instanceTemplates.delete",
		"compute.subnetworks.delete iam.serviceAccounts.delete",
		"compute.networks.delete",
	} {
		w.cloud.Deny(strings.Fields(rights)...)
		w.refused(rights, "delete", "cluster", name, "--yes")
	}
	w.cloud.Deny()
	w.Must("delete", "cluster", name, "--yes")
	w.nothingLeft(before)
}

// TestAQuotaThatIsUsedUpIsNamed: objects made before are kept, and the rest is made when there is
// room.
func TestAQuotaThatIsUsedUpIsNamed(t *testing.T) {
	quotas := map[string]float64{"FIREWALLS": 3, "INSTANCE_TEMPLATES": 1}
	w := newWorld(t, func(o *emulator.Options) { o.Quotas = quotas })
	before := w.inventory()
	w.small()
	w.refused("FIREWALLS INSTANCE_TEMPLATES higher", "update", "cluster", name, "--yes")
	delete(quotas, "FIREWALLS")
	delete(quotas, "INSTANCE_TEMPLATES")
	w.applied()
	w.Must("delete", "cluster", name, "--yes")
	w.nothingLeft(before)
}

// TestAMachineTypeThatTheZoneLacksIsTold before anything is made.
func TestAMachineTypeThatTheZoneLacksIsTold(t *testing.T) {
	w := newWorld(t)
	w.small()
	w.set("nodes-"+region+"-a", "spec.machineType=e9-medium")
	before := w.cloud.Inventory()
	w.refused("e9-medium spec.machineType", "update", "cluster", name, "--yes")
	if after := w.cloud.Inventory(); len(after) != len(before) {
		t.Errorf("%v was made", after)
	}
}
