package rehearsal

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestGCE creates a cluster on Google Cloud of a control plane and two workers, from its user data
// alone. A worker and the only control plane are killed: their groups recreate each, under its
// name, and etcd's disks with all data are found. A change that only new machines have is rolled
// through the workers once, and, if KOPS_E2E=whole is set, through the control plane.
func TestGCE(t *testing.T) {
	skipUnlessPicked(t, "gce", 0, 1)
	w := newWorld(t, "gce", "", "gs://kops-rehearsal")
	w.live(life{cloud: "GCE", create: "--cloud gce --zones us-east1-b --networking kubenet", groups: [2]string{"nodes-us-east1-b", "control-plane-us-east1-b"},
		change: "spec.rootVolume.size=70", field: "spec.rootVolumeSize", recreate: w.waitUntilRecreated})
	if out := w.query("GET", "https://compute.googleapis.com/compute/v1/projects/kops-rehearsal/aggregated/disks", ""); strings.Contains(out, "example-com") {
		t.Errorf("the deletion has left disks:\n%s", out)
	}
}

// waitUntilRecreated waits until the group of a machine that was killed has recreated it, under its name.
func (w *world) waitUntilRecreated(what, doomed string, begun time.Time) {
	w.Helper()
	w.wait(fmt.Sprintf("the %s %s again", what, doomed), func() error {
		n, err := w.api().CoreV1().Nodes().Get(w.Context(), doomed, metav1.GetOptions{})
		if err == nil && !readySince(*n).After(begun) {
			err = errors.New("it is not ready again")
		}
		return err
	})
}
