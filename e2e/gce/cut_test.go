package gce

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"kops.local/kops/internal/test/clitest"
	"kops.local/kops/internal/test/turns"
)

// writes counts the writes of a whole update, and of the deletion after it; full is what the update leaves.
func writes(t *testing.T) (update, deletion int, full []string) {
	t.Helper()
	w := newWorld(t)
	before := w.inventory()
	w.small()
	w.Proxy.Reset()
	w.Must("update", "cluster", name, "--yes")
	update, full = w.Proxy.Writes(), sorts(clitest.OnlyIn(w.inventory(), before))
	w.Proxy.Reset()
	w.Must("delete", "cluster", name, "--yes")
	return update, w.Proxy.Writes(), full
}

// sorts returns the objects of an inventory without the names that differ from run to run: names
// of instances and their boot disks, and the digests in names of templates and of stored files.
func sorts(inventory []string) []string {
	var out []string
	for _, s := range inventory {
		boots := strings.Contains(s, "/disks/") && slices.Contains(inventory, strings.Replace(s, "/disks/", "/instances/", 1))
		if boots || strings.Contains(s, "/instances/") || strings.Contains(s, "/instanceTemplates/") {
			s = s[:strings.LastIndex(s, "-")]
		}
		if strings.HasPrefix(s, "object ") {
			continue // keys of keysets and of the journal differ
		}
		out = append(out, s)
	}
	slices.Sort(out)
	return out
}

// converges runs the update again, which must leave one of each, and deletes
// the cluster, which must leave nothing.
func (w *world) converges(full, before []string) {
	w.Helper()
	w.Proxy.Heal()
	w.Must("update", "cluster", name, "--yes")
	if got := sorts(clitest.OnlyIn(w.inventory(), before)); !slices.Equal(got, full) {
		w.Errorf("the next run leaves besides\n%s\nand lacks\n%s", strings.Join(clitest.OnlyIn(got, full), "\n"), strings.Join(clitest.OnlyIn(full, got), "\n"))
	}
	w.unchanged()
	w.Must("delete", "cluster", name, "--yes")
	w.nothingLeft(before)
}

func TestAnUpdateThatIsCutOffAtEveryWriteConverges(t *testing.T) {
	n, _, full := writes(t)
	for at, step := turns.Places(t, clitest.CutStep); at <= n; at += step {
		for _, after := range []bool{false, true} {
			t.Run(strconv.Itoa(at)+"-"+strconv.FormatBool(after), func(t *testing.T) {
				w := newWorld(t)
				before := w.inventory()
				w.small()
				if r := w.Cut(at, after, "update", "cluster", name, "--yes"); r.Code == 0 {
					w.unchanged()
				}
				w.BreakLock()
				w.converges(full, before)
			})
		}
	}
}

// TestADeletionFindsWhatACutOffUpdateLeft: a deletion finds all remains of a crash between two
// calls.
func TestADeletionFindsWhatACutOffUpdateLeft(t *testing.T) {
	n, _, _ := writes(t)
	for at, step := turns.Places(t, clitest.CutStep); at <= n; at += step {
		t.Run(strconv.Itoa(at), func(t *testing.T) {
			w := newWorld(t)
			before := w.inventory()
			w.small()
			w.Cut(at, at%2 == 0, "update", "cluster", name, "--yes")
			w.BreakLock()
			w.Must("delete", "cluster", name, "--yes")
			w.nothingLeft(before)
		})
	}
}

func TestADeletionThatIsCutOffAtEveryWriteIsFinished(t *testing.T) {
	_, n, _ := writes(t)
	for at, step := turns.Places(t, clitest.CutStep); at <= n; at += step {
		t.Run(strconv.Itoa(at), func(t *testing.T) {
			w := newWorld(t)
			before := w.inventory()
			w.small()
			w.Must("update", "cluster", name, "--yes")
			if r := w.Cut(at, at%2 == 0, "delete", "cluster", name, "--yes"); r.Code != 0 {
				if r := w.Run("toolbox", "lock", "break", "--name", name, "--yes"); r.Code != 0 && !strings.Contains(r.Err, "no ") {
					t.Logf("%s", r.Err)
				}
				w.Must("delete", "cluster", name, "--yes", "--region", region)
			}
			w.nothingLeft(before)
		})
	}
}

func TestKilledAtEveryWrite(t *testing.T) {
	program := clitest.Program(t)
	n, _, full := writes(t)
	for at, step := turns.Places(t, 3*clitest.CutStep); at <= n; at += step {
		t.Run(strconv.Itoa(at), func(t *testing.T) {
			w := newWorld(t)
			before := w.inventory()
			w.small()
			out, killed, err := w.Killed(program, at, "update", "cluster", name, "--yes")
			if killed == (err == nil) {
				t.Errorf("an update to be killed at write %d of about %d: killed %v, %v\n%s", at, n, killed, err, out)
			}
			w.BreakLock()
			// What the dead command had asked for may come to be while the next one is at work.
			if r := w.Run("update", "cluster", name, "--yes"); r.Code != 0 {
				t.Errorf("the next run fails:\n%s", r.Err)
			}
			w.converges(full, before)
		})
	}
}
