package cloudsuite

import (
	"slices"
	"strings"
)

// checkRefused checks that a command fails, and that its error contains all of these.
func (w *World) checkRefused(all []string, args ...string) {
	w.Helper()
	r := w.Run(args...)
	if r.Code == 0 {
		w.Errorf("kops %s succeeds", strings.Join(args, " "))
	}
	w.checkContains("the error of kops "+strings.Join(args, " "), r.Err, all...)
}

// checkPermissions checks that a command names all permissions that it lacks, and continues once it has them.
func (w *World) checkPermissions() {
	w.Small(w.Cloud.Named...)
	update, deletion := []string{"update", "cluster", Name, "--yes"}, []string{"delete", "cluster", Name, "--yes"}
	for _, right := range w.Cloud.Reads {
		w.ResetHome() // without the queries of an earlier command
		w.Cloud.Deny(w, right)
		w.checkRefused([]string{right}, update...)
	}
	for _, rights := range w.Cloud.Creations {
		w.Cloud.Deny(w, strings.Fields(rights)...)
		w.checkRefused(strings.Fields(rights), update...)
	}
	w.Cloud.Deny(w)
	w.Apply()
	for _, rights := range w.Cloud.Deletions {
		w.Cloud.Deny(w, strings.Fields(rights)...)
		w.checkRefused(strings.Fields(rights), deletion...)
	}
	w.Cloud.Deny(w)
	w.Delete()
}

// checkQuotas checks that an update names all quotas that are used up, and creates the rest when they
// allow it.
func (w *World) checkQuotas() {
	w.Small()
	w.Cloud.FillUp(w, true)
	w.checkRefused(w.Cloud.Quotas, "update", "cluster", Name, "--yes")
	w.Cloud.FillUp(w, false)
	w.Apply()
	w.Delete()
}

// checkMachineType checks that a machine type that the zone lacks is reported before anything is created.
func (w *World) checkMachineType() {
	w.Small()
	w.Set(w.Nodes(), "spec.machineType="+w.Cloud.NoType)
	before := w.account.Objects()
	w.checkRefused([]string{w.Cloud.NoType, "spec.machineType"}, "update", "cluster", Name, "--yes")
	if after := w.account.Objects(); !slices.Equal(before, after) {
		w.Errorf("there was %v, and now there is %v", before, after)
	}
}

// checkBlockedDeletion checks that a deletion names what others have in the cluster's network.
func (w *World) checkBlockedDeletion() {
	w.Small("--zones", strings.Join(w.Cloud.Zones, ",")) // then its subnets leave room for others
	w.Must("update", "cluster", Name, "--yes")
	name, remove := w.Cloud.Block(w)
	w.checkRefused([]string{name}, "delete", "cluster", Name, "--yes", "--wait", "2s")
	remove()
	w.Delete()
}
