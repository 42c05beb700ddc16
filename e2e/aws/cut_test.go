package aws

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"kops.local/kops/internal/platform/aws/awstest"
	"kops.local/kops/internal/test/clitest"
	"kops.local/kops/internal/test/turns"
)

// writes returns the number of writes of a whole update.
func (w *world) writes() int {
	w.Helper()
	w.small()
	w.Proxy.Reset()
	w.Must("update", "cluster", name, "--yes")
	return w.Proxy.Writes()
}

// checkConvergence runs the update again, which must leave exactly one of each object, and deletes
// the cluster, which must leave nothing.
func (w *world) checkConvergence(whole []string, before []string) {
	w.Helper()
	w.Proxy.Restore()
	w.Must("update", "cluster", name, "--yes")
	if got := kinds(clitest.Difference(w.inventory(), before)); !slices.Equal(got, whole) {
		w.Errorf("the next run leaves\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(whole, "\n"))
	}
	w.Must("delete", "cluster", name, "--yes")
	if left := clitest.Difference(w.inventory(), before); len(left) > 0 {
		w.Errorf("a deleted cluster leaves %s", strings.Join(left, "\n"))
	}
	if left := w.objects(); len(left) > 0 {
		w.Errorf("a deleted cluster leaves in the store %s", strings.Join(left, "\n"))
	}
}

// kinds removes identities, which differ from run to run.
func kinds(inventory []string) []string {
	out := make([]string, len(inventory))
	for i, s := range inventory {
		out[i], _, _ = strings.Cut(s, ":")
	}
	return out
}

// measureUpdate returns the number of writes of an update, and what it leaves.
func measureUpdate(t *testing.T, server *awstest.Server) (writes int, inventory, before []string) {
	w := newWorld(t, server)
	before = w.inventory()
	writes = w.writes()
	return writes, kinds(clitest.Difference(w.inventory(), before)), before
}

func TestConnectionCutAtEveryWrite(t *testing.T) {
	server := awstest.Moto(t)
	n, full, _ := measureUpdate(t, server)
	// Each write is cut twice: before it reaches the cloud, and after.
	for i, step := turns.PlacesOfTurn(t, 2*clitest.CutStep); i <= 2*n; i += step {
		at, after := (i+1)/2, i%2 == 0
		t.Run(strconv.Itoa(at)+"-"+strconv.FormatBool(after), func(t *testing.T) {
			w := newWorld(t, server)
			before := w.inventory()
			w.small()
			if r := w.RunCut(at, after, "update", "cluster", name, "--yes"); r.Code == 0 {
				if p := w.Must("update", "cluster", name); !strings.Contains(p.Out, "No changes need to be applied") {
					t.Errorf("an update that was cut says it succeeded, but a preview has changes:\n%s", p.Out)
				}
			}
			w.BreakLock()
			w.checkConvergence(full, before)
		})
	}
}

// spare is the possible difference between the numbers of writes of two updates.
const spare = 10

func TestKilledAtEveryWrite(t *testing.T) {
	program := clitest.Program(t)
	server := awstest.Moto(t)
	n, full, _ := measureUpdate(t, server)
	for at, step := turns.PlacesOfTurn(t, 3*clitest.CutStep); at <= n; at += step {
		t.Run(strconv.Itoa(at), func(t *testing.T) {
			w := newWorld(t, server)
			before := w.inventory()
			w.small()
			// The number of writes differs a little from run to run: a slow one renews its
			// lease more often. The last writes may not happen.
			out, killed, err := w.RunKilled(program, at, "update", "cluster", name, "--yes")
			if killed == (err == nil) || !killed && at < n-spare {
				t.Errorf("an update to be killed at write %d of about %d: killed %v, %v\n%s", at, n, killed, err, out)
			}
			w.BreakLock()
			w.checkConvergence(full, before)
		})
	}
}
