package gce

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"kops.local/kops/internal/test/clitest"
	"kops.local/kops/internal/test/turns"
)

// writes returns the number of writes of a whole update and of the deletion after it; full is what the update leaves.
func writes(t *testing.T) (update, deletion int, full []string) {
	t.Helper()
	w := newWorld(t)
	before := w.inventory()
	w.small()
	w.Proxy.Reset()
	w.Must("update", "cluster", name, "--yes")
	update, full = w.Proxy.Writes(), withoutVariableNames(clitest.Difference(w.inventory(), before))
	w.Proxy.Reset()
	w.Must("delete", "cluster", name, "--yes")
	return update, w.Proxy.Writes(), full
}

// withoutVariableNames returns the objects of an inventory without the names that differ from run to run: names
// of instances and their boot disks, and the digests in names of templates and stored files.
func withoutVariableNames(inventory []string) []string {
	var out []string
	for _, s := range inventory {
		boots := strings.Contains(s, "/disks/") && slices.Contains(inventory, strings.Replace(s, "/disks/", "/instances/", 1))
		if boots || strings.Contains(s, "/instances/") || strings.Contains(s, "/instanceTemplates/") {
			s = s[:strings.LastIndex(s, "-")]
		}
		if strings.HasPrefix(s, "object ") {
			continue // the keys of keysets and of the journal differ
		}
		out = append(out, s)
	}
	slices.Sort(out)
	return out
}

// checkConvergence runs the update again, which must leave exactly one of each object, and deletes
// the cluster, which must leave nothing.
func (w *world) checkConvergence(full, before []string) {
	w.Helper()
	w.Proxy.Restore()
	w.Must("update", "cluster", name, "--yes")
	if got := withoutVariableNames(clitest.Difference(w.inventory(), before)); !slices.Equal(got, full) {
		w.Errorf("the next run leaves besides\n%s\nand lacks\n%s", strings.Join(clitest.Difference(got, full), "\n"), strings.Join(clitest.Difference(full, got), "\n"))
	}
	w.checkUnchanged()
	w.Must("delete", "cluster", name, "--yes")
	w.checkNothingLeft(before)
}

func TestAnUpdateThatIsCutOffAtEveryWriteConverges(t *testing.T) {
	n, _, full := writes(t)
	for at, step := turns.PlacesOfTurn(t, clitest.CutStep); at <= n; at += step {
		for _, after := range []bool{false, true} {
			t.Run(strconv.Itoa(at)+"-"+strconv.FormatBool(after), func(t *testing.T) {
				w := newWorld(t)
				before := w.inventory()
				w.small()
				if r := w.RunCut(at, after, "update", "cluster", name, "--yes"); r.Code == 0 {
					w.checkUnchanged()
				}
				w.BreakLock()
				w.checkConvergence(full, before)
			})
		}
	}
}

// TestADeletionFindsWhatACutOffUpdateLeft: a deletion finds all leftovers of a crash between two
// calls.
func TestADeletionFindsWhatACutOffUpdateLeft(t *testing.T) {
	n, _, _ := writes(t)
	for at, step := turns.PlacesOfTurn(t, clitest.CutStep); at <= n; at += step {
		t.Run(strconv.Itoa(at), func(t *testing.T) {
			w := newWorld(t)
			before := w.inventory()
			w.small()
			w.RunCut(at, at%2 == 0, "update", "cluster", name, "--yes")
			w.BreakLock()
			w.Must("delete", "cluster", name, "--yes")
			w.checkNothingLeft(before)
		})
	}
}

func TestADeletionThatIsCutOffAtEveryWriteIsFinished(t *testing.T) {
	_, n, _ := writes(t)
	for at, step := turns.PlacesOfTurn(t, clitest.CutStep); at <= n; at += step {
		t.Run(strconv.Itoa(at), func(t *testing.T) {
			w := newWorld(t)
			before := w.inventory()
			w.small()
			w.Must("update", "cluster", name, "--yes")
			if r := w.RunCut(at, at%2 == 0, "delete", "cluster", name, "--yes"); r.Code != 0 {
				if r := w.Run("toolbox", "lock", "break", "--name", name, "--yes"); r.Code != 0 && !strings.Contains(r.Err, "no ") {
					t.Logf("%s", r.Err)
				}
				w.Must("delete", "cluster", name, "--yes", "--region", region)
			}
			w.checkNothingLeft(before)
		})
	}
}

func TestKilledAtEveryWrite(t *testing.T) {
	program := clitest.Program(t)
	n, _, full := writes(t)
	for at, step := turns.PlacesOfTurn(t, 3*clitest.CutStep); at <= n; at += step {
		t.Run(strconv.Itoa(at), func(t *testing.T) {
			w := newWorld(t)
			before := w.inventory()
			w.small()
			out, killed, err := w.RunKilled(program, at, "update", "cluster", name, "--yes")
			if killed == (err == nil) {
				t.Errorf("an update to be killed at write %d of about %d: killed %v, %v\n%s", at, n, killed, err, out)
			}
			w.BreakLock()
			// Objects that the killed command requested may be created while the next one is running.
			if r := w.Run("update", "cluster", name, "--yes"); r.Code != 0 {
				t.Errorf("the next run fails:\n%s", r.Err)
			}
			w.checkConvergence(full, before)
		})
	}
}
