package aws

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

	"kops.local/kops/internal/platform/aws/awstest"
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

// writes counts the writes of a whole update.
func (w *world) writes() int {
	w.Helper()
	w.small()
	w.proxy.Reset()
	w.Must("update", "cluster", name, "--yes")
	return w.proxy.Writes()
}

// converges runs the update again, which must leave one of each, and deletes
// the cluster, which must leave nothing.
func (w *world) converges(whole []string, before []string) {
	w.Helper()
	w.proxy.Heal()
	w.Must("update", "cluster", name, "--yes")
	if got := kinds(clitest.OnlyIn(w.inventory(), before)); !slices.Equal(got, whole) {
		w.Errorf("the next run leaves\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(whole, "\n"))
	}
	w.Must("delete", "cluster", name, "--yes")
	if left := clitest.OnlyIn(w.inventory(), before); len(left) > 0 {
		w.Errorf("a deleted cluster leaves %s", strings.Join(left, "\n"))
	}
	if left := w.objects(); len(left) > 0 {
		w.Errorf("a deleted cluster leaves in the store %s", strings.Join(left, "\n"))
	}
}

// kinds strips identities, which differ from run to run.
func kinds(inventory []string) []string {
	out := make([]string, len(inventory))
	for i, s := range inventory {
		out[i], _, _ = strings.Cut(s, ":")
	}
	return out
}

// whole returns how many writes an update has, and what it leaves.
func whole(t *testing.T, server *awstest.Server) (writes int, inventory, before []string) {
	w := newWorld(t, server)
	before = w.inventory()
	writes = w.writes()
	return writes, kinds(clitest.OnlyIn(w.inventory(), before)), before
}

func TestConnectionCutAtEveryWrite(t *testing.T) {
	server := awstest.Moto(t)
	n, full, _ := whole(t, server)
	for at := 1; at <= n; at += step() {
		for _, after := range []bool{false, true} {
			t.Run(strconv.Itoa(at)+"-"+strconv.FormatBool(after), func(t *testing.T) {
				w := newWorld(t, server)
				before := w.inventory()
				w.small()
				w.proxy.Reset()
				ctx, giveUp := context.WithCancel(t.Context())
				defer giveUp()
				w.proxy.SetCut(proxy.Cut{At: at, After: after, Then: func() {
					time.AfterFunc(userPatience, func() { giveUp(); w.proxy.Heal() })
				}})
				r := w.RunContext(ctx, "update", "cluster", name, "--yes")
				w.proxy.Heal()
				if r.Code == 0 {
					if p := w.Must("update", "cluster", name); !strings.Contains(p.Out, "No changes need to be applied") {
						t.Errorf("an update that was cut says it succeeded, but a preview has changes:\n%s", p.Out)
					}
				}
				w.breakLock()
				w.converges(full, before)
			})
		}
	}
}

// breakLock frees the lease that a dead command could not give back.
func (w *world) breakLock() {
	w.Helper()
	w.Must("toolbox", "lock", "break", "--name", name, "--yes")
}

// spare is by how many writes two updates may differ.
const spare = 10

func TestKilledAtEveryWrite(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "kops")
	if out, err := exec.Command("go", "build", "-ldflags", "-X main.version="+clitest.Version, "-o", binary, "../../cmd/kops").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	server := awstest.Moto(t)
	n, full, _ := whole(t, server)
	for at := 4; at <= n; at += 3 * step() {
		t.Run(strconv.Itoa(at), func(t *testing.T) {
			w := newWorld(t, server)
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
			// The number of writes differs a little from run to run: a slow one renews its
			// lease more often. Of the last write there may be none.
			out, err := cmd.CombinedOutput()
			if killed.Load() == (err == nil) || !killed.Load() && at < n-spare {
				t.Errorf("an update to be killed at write %d of about %d: killed %v, %v\n%s", at, n, killed.Load(), err, out)
			}
			w.proxy.Heal()
			w.breakLock()
			w.converges(full, before)
		})
	}
}
