package keeper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kops.local/kops/internal/platform/local/balance"
	"kops.local/kops/internal/platform/local/machine"
	"kops.local/kops/internal/platform/local/site"
)

// keep is the argument that makes this program run as a cluster's keeper.
const keep = "keep-a-cluster"

func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == keep {
		s := site.Site{Root: strings.TrimPrefix(os.Args[2], "--root="), Cluster: strings.TrimPrefix(os.Args[3], "--cluster=")}
		if err := Run(context.Background(), s, os.Args[:2], os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// testKeeper is a cluster without machines, with a load balancer on this host's loopback.
type testKeeper struct {
	*testing.T
	site.Site
	command []string
	address string
}

func newTestKeeper(t *testing.T) *testKeeper {
	t.Helper()
	k := &testKeeper{T: t, Site: site.Site{Root: t.TempDir(), Cluster: "a.k8s.local"}}
	h, err := machine.NewHost(k.Site)
	if err != nil {
		t.Skipf("SKIPPED, NOTHING WAS TESTED: %v", err)
	}
	if h.Systemd {
		t.Skip("SKIPPED, NOTHING WAS TESTED: systemd starts the keepers of this host again")
	}
	self, err := os.Executable()
	k.ok(err)
	k.command = []string{self, keep}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	k.ok(err)
	k.address = l.Addr().String()
	k.ok(l.Close())
	k.ok(site.WriteJSON(NetworkFile(k.Site), Network{CIDR: "127.0.0.0/24"}))
	k.ok(site.WriteJSON(File(k.Site, site.Balancers, "api"), Balancer{Name: "api", Fronts: []balance.Front{{Port: l.Addr().(*net.TCPAddr).Port, Target: 1}}}))
	t.Cleanup(func() {
		k.ok(k.remove())
		for _, pid := range k.processes() {
			syscall.Kill(pid, syscall.SIGKILL) // a failed test may leave one
		}
	})
	return k
}

// remove removes the network and stops the keeper.
func (k *testKeeper) remove() error {
	return errors.Join(Remove(NetworkFile(k.Site)), Stop(context.Background(), k.Site))
}

func (k *testKeeper) ok(err error) {
	k.Helper()
	if err != nil {
		k.Fatal(err)
	}
}

// processes returns the processes that were started for the cluster.
func (k *testKeeper) processes() (pids []int) {
	k.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	k.ok(err)
	for _, file := range all {
		if line, err := os.ReadFile(file); err == nil && bytes.Contains(line, []byte(k.Root)) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			k.ok(err)
			pids = append(pids, pid)
		}
	}
	return pids
}

// wait calls f until it returns nil, and returns how long that took.
func (k *testKeeper) wait(what string, f func() error) time.Duration {
	k.Helper()
	start := time.Now()
	for {
		err := f()
		took := time.Since(start)
		if err == nil {
			k.Logf("%s: after %s", what, took.Round(time.Millisecond))
			return took
		}
		if took > time.Minute {
			log, _ := os.ReadFile(LogFile(k.Site)) // without it the message says less
			k.Fatalf("%s: not after %s: %v\n%s", what, took, err, log)
		}
		time.Sleep(pollPeriod) // give the processes time
	}
}

// waitForPair waits until a process other than the given ones is the keeper, and another is its standby.
// It returns both.
func (k *testKeeper) waitForPair(not ...int) (keeper, standby int) {
	k.Helper()
	k.wait("a keeper and one that stands by", func() error {
		pid, alive := Alive(k.Site)
		second, err := site.Locked(standbyFile(k.Site))
		if all := k.processes(); err != nil || !alive || !second || len(all) != 2 || slices.Contains(not, pid) {
			return errors.Join(err, fmt.Errorf("the keeper is %d (%t), one stands by: %t, the processes are %v", pid, alive, second, all))
		}
		keeper = pid
		return nil
	})
	for _, pid := range k.processes() {
		if pid != keeper {
			standby = pid
		}
	}
	return keeper, standby
}

func (k *testKeeper) answers() error {
	c, err := net.Dial("tcp", k.address)
	if err == nil {
		c.Close() // only that it was accepted matters
	}
	return err
}

// TestAKeeperThatIsKilledComesBack kills the keeper, then the standby, then the keeper
// again, and finally both in turn: the load balancer answers after each.
func TestAKeeperThatIsKilledComesBack(t *testing.T) {
	k := newTestKeeper(t)
	k.ok(Start(t.Context(), k.Site, k.command))
	k.wait("the load balancer answers", k.answers)
	first, second := k.waitForPair()
	k.ok(syscall.Kill(first, syscall.SIGKILL))
	k.wait("it answers again", k.answers)
	if pid, third := k.waitForPair(first); pid != second {
		t.Errorf("the keeper is %d; %d stood by", pid, second)
	} else {
		k.ok(syscall.Kill(third, syscall.SIGKILL))
		k.wait("another stands by", func() error {
			if slices.Contains(k.processes(), third) {
				return errors.New("it is there")
			}
			return nil
		})
	}
	third, fourth := k.waitForPair(first)
	if third != second {
		t.Errorf("when who stood by was killed, the keeper became %d", third)
	}
	k.ok(syscall.Kill(third, syscall.SIGKILL))
	k.wait("it answers once more", k.answers)
	k.waitForPair(first, third)
	k.ok(syscall.Kill(fourth, syscall.SIGKILL))
	k.wait("it answers for the third time", k.answers)
	k.waitForPair(first, third, fourth)

	if err := Run(t.Context(), k.Site, k.command, io.Discard); err == nil {
		t.Error("a third process keeps the cluster")
	}
	k.ok(Stop(t.Context(), k.Site))
	if left := k.processes(); len(left) > 0 {
		t.Errorf("the processes %v are left", left)
	}
	for _, file := range []string{lockFile(k.Site), standbyFile(k.Site), pidFile(k.Site), LogFile(k.Site)} {
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%s is left", file)
		}
	}
}

// A keeper whose cluster is gone exits by itself, and stops its standby.
func TestAKeeperEndsWithItsCluster(t *testing.T) {
	k := newTestKeeper(t)
	k.ok(Start(t.Context(), k.Site, k.command))
	k.waitForPair()
	k.ok(Remove(File(k.Site, site.Balancers, "api")))
	k.ok(Remove(TroubleFile(k.Site, site.Balancers, "api")))
	k.ok(Remove(NetworkFile(k.Site)))
	k.wait("both have ended", func() error {
		if left := k.processes(); len(left) > 0 {
			return fmt.Errorf("%v", left)
		}
		return nil
	})
	if left, err := os.ReadDir(k.Root); err != nil && !errors.Is(err, os.ErrNotExist) || len(left) > 0 {
		t.Errorf("left are %v (%v)", left, err)
	}
}
