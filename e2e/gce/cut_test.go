package gce

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"kops.local/kops/internal/test/clitest"
	"kops.local/kops/internal/test/proxy"
)

// step says how many of the places to cut are tried: every one with
// KOPS_TEST_CUTS=all, else every eleventh.
func step() int {
	if os.Getenv("KOPS_TEST_CUTS") == "all" {
		return 1
	}
	return 11
}

// userPatience is how long after the cut the user stops the command, and the
// connection comes back.
const userPatience = 300 * time.Millisecond

// writes counts the writes of a whole update, and of the deletion after it; full is what the update leaves.
func writes(t *testing.T) (update, deletion int, full []string) {
	t.Helper()
	w := newWorld(t)
	before := w.inventory()
	w.small()
	w.proxy.Reset()
	w.Must("update", "cluster", name, "--yes")
	update, full = w.proxy.Writes(), sorts(clitest.OnlyIn(w.inventory(), before))
	w.proxy.Reset()
	w.Must("delete", "cluster", name, "--yes")
	return update, w.proxy.Writes(), full
}

// sorts are what objects there are without the names that differ from run to run: those of
// instances and their boot disks, and the digests in those of templates and of stored files.
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
	w.proxy.Heal()
	w.Must("update", "cluster", name, "--yes")
	if got := sorts(clitest.OnlyIn(w.inventory(), before)); !slices.Equal(got, full) {
		w.Errorf("the next run leaves besides\n%s\nand lacks\n%s", strings.Join(clitest.OnlyIn(got, full), "\n"), strings.Join(clitest.OnlyIn(full, got), "\n"))
	}
	w.unchanged()
	w.Must("delete", "cluster", name, "--yes")
	w.nothingLeft(before)
}

// breakLock frees the lease that a dead command could not give back.
func (w *world) breakLock() {
	w.Helper()
	w.Must("toolbox", "lock", "break", "--name", name, "--yes")
}

// cut runs a command whose connection breaks at a write, and whose user then gives up.
func (w *world) cut(at int, after bool, args ...string) clitest.Result {
	w.proxy.Reset()
	ctx, giveUp := context.WithCancel(w.Context())
	defer giveUp()
	w.proxy.SetCut(proxy.Cut{At: at, After: after, Then: func() {
		time.AfterFunc(userPatience, func() { giveUp(); w.proxy.Heal() })
	}})
	r := w.RunContext(ctx, args...)
	w.proxy.Heal()
	return r
}

func TestAnUpdateThatIsCutOffAtEveryWriteConverges(t *testing.T) {
	n, _, full := writes(t)
	for at := 1; at <= n; at += step() {
		for _, after := range []bool{false, true} {
			t.Run(strconv.Itoa(at)+"-"+strconv.FormatBool(after), func(t *testing.T) {
				w := newWorld(t)
				before := w.inventory()
				w.small()
				if r := w.cut(at, after, "update", "cluster", name, "--yes"); r.Code == 0 {
					w.unchanged()
				}
				w.breakLock()
				w.converges(full, before)
			})
		}
	}
}

// TestADeletionFindsWhatACutOffUpdateLeft: whatever a crash between two calls left, a deletion finds.
func TestADeletionFindsWhatACutOffUpdateLeft(t *testing.T) {
	n, _, _ := writes(t)
	for at := 2; at <= n; at += step() {
		t.Run(strconv.Itoa(at), func(t *testing.T) {
			w := newWorld(t)
			before := w.inventory()
			w.small()
			w.cut(at, at%2 == 0, "update", "cluster", name, "--yes")
			w.breakLock()
			w.Must("delete", "cluster", name, "--yes")
			w.nothingLeft(before)
		})
	}
}

func TestADeletionThatIsCutOffAtEveryWriteIsFinished(t *testing.T) {
	_, n, _ := writes(t)
	for at := 1; at <= n; at += step() {
		t.Run(strconv.Itoa(at), func(t *testing.T) {
			w := newWorld(t)
			before := w.inventory()
			w.small()
			w.Must("update", "cluster", name, "--yes")
			if r := w.cut(at, at%2 == 0, "delete", "cluster", name, "--yes"); r.Code != 0 {
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
	binary := filepath.Join(t.TempDir(), "kops")
	if out, err := exec.Command("go", "build", "-ldflags", "-X main.version="+clitest.Version, "-o", binary, "../../cmd/kops").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	n, _, full := writes(t)
	for at := 4; at <= n; at += 3 * step() {
		t.Run(strconv.Itoa(at), func(t *testing.T) {
			w := newWorld(t)
			before := w.inventory()
			w.small()
			cmd := exec.Command(binary, "update", "cluster", name, "--yes")
			for k, v := range w.Env {
				cmd.Env = append(cmd.Env, k+"="+v)
			}
			w.proxy.Reset()
			var killed atomic.Bool
			w.proxy.SetCut(proxy.Cut{At: at, After: at%2 == 0, Then: func() {
				killed.Store(true)
				_ = cmd.Process.Signal(syscall.SIGKILL) // it may be gone already
			}})
			out, err := cmd.CombinedOutput()
			if killed.Load() == (err == nil) {
				t.Errorf("an update to be killed at write %d of about %d: killed %v, %v\n%s", at, n, killed.Load(), err, out)
			}
			w.proxy.Heal()
			w.breakLock()
			// What the dead command had asked for may come to be while the next one is at work.
			if r := w.Run("update", "cluster", name, "--yes"); r.Code != 0 && !strings.Contains(r.Err, "run this one again") {
				t.Errorf("the next run fails:\n%s", r.Err)
			}
			w.converges(full, before)
		})
	}
}
