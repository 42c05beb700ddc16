package local

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kops.local/kops/internal/platform/local/keeper"
	"kops.local/kops/internal/platform/local/localtest"
	"kops.local/kops/internal/platform/local/machine"
	"kops.local/kops/internal/platform/local/site"
)

// faultTime is how long a self-healing fault lasts.
const faultTime = 20 * time.Second

// The short form tests the purpose of the load balancer and the keeper, once. The full form:
//
//	KOPS_E2E=1 go test ./e2e/local -run TestFaults -timeout 1h -args -faults=all -fault-runs=3
var (
	tried = flag.String("faults", "leader,stall,keeper", "faults to try, by name and separated by commas, or all")
	runs  = flag.Int("fault-runs", 1, "how often each fault is tried")
)

// faultCase is something that happens to a cluster of three control planes and two workers.
type faultCase struct {
	name string
	// do causes it. undo stops it after some time; nil means that the cluster must recover from it.
	// lost are the machines that must be replaced.
	do func(w *world, leader machine.Machine) (undo func(), lost []machine.Machine)
}

func faults() []faultCase {
	kill := func(w *world, list ...machine.Machine) (func(), []machine.Machine) {
		for _, m := range list {
			w.kill(m.Name)
		}
		return nil, list
	}
	return []faultCase{
		{"follower", func(w *world, l machine.Machine) (func(), []machine.Machine) { return kill(w, w.followers(l)[0]) }},
		{"leader", func(w *world, l machine.Machine) (func(), []machine.Machine) { return kill(w, l) }},
		{"two", func(w *world, l machine.Machine) (func(), []machine.Machine) { return kill(w, l, w.followers(l)[0]) }},
		{"partition", func(w *world, l machine.Machine) (func(), []machine.Machine) { return w.cutOff(l), nil }},
		{"stall", func(w *world, l machine.Machine) (func(), []machine.Machine) { return w.stopEtcd(l), nil }},
		{"stall-follower", func(w *world, l machine.Machine) (func(), []machine.Machine) {
			return w.stopEtcd(w.followers(l)[0]), nil
		}},
		{"disk", func(w *world, l machine.Machine) (func(), []machine.Machine) { return w.slowDisk(l), nil }},
		{"keeper", func(w *world, _ machine.Machine) (func(), []machine.Machine) { w.killKeeper(); return nil, nil }},
		{"worker", func(w *world, _ machine.Machine) (func(), []machine.Machine) { return kill(w, w.machines(nodes)[0]) }},
	}
}

// TestFaults writes through the load balancer while parts of the cluster fail: no acknowledged
// write is lost, and each succeeds for a client that retries. In the end parts of
// machines break, and kops names them.
func TestFaults(t *testing.T) {
	localtest.ClusterTurn(t, 0, 4)
	w := newWorld(t)
	w.create("--control-plane-count", "3", "--node-count", "2")
	for run := range *runs {
		for _, f := range faults() {
			if *tried == "all" || slices.Contains(strings.Split(*tried, ","), f.name) {
				w.runFault(f, run+1)
			}
		}
	}
	w.breakParts()
	w.delete()
}

// runFault tests one fault, and logs the outcome of the writes.
func (w *world) runFault(f faultCase, run int) {
	w.Helper()
	leader := w.etcdMembers()
	size := len(w.machines(""))
	wr := w.write()
	w.wait("writes before", clusterTime, func() error { return wr.checkAcknowledged(int(calm / writePeriod / 2)) })
	begun := time.Now()
	undo, lost := f.do(w, leader)
	if undo != nil {
		w.pass(faultTime)
		undo()
	}
	w.wait("all machines", clusterTime, func() error {
		now := namesOf(w.machines(""))
		for _, m := range lost {
			if slices.Contains(now, m.Name) {
				return fmt.Errorf("%s is still there", m.Name)
			}
		}
		if len(now) != size {
			return fmt.Errorf("the machines are %v", now)
		}
		return nil
	})
	w.waitUntilValid()
	valid := time.Since(begun)
	w.etcdMembers()
	had := wr.count()
	w.wait("writes afterwards", clusterTime, func() error { return wr.checkAcknowledged(had + int(calm/writePeriod/2)) })
	wr.stop()
	r := w.evaluate(wr, begun)
	w.Logf("FAULT %-9s run %d: %4d sent, %3d failed at the first try, %d for good, %d lost, gap %5.2f s, validated after %5.1f s",
		f.name, run, r.sent, r.first, r.failed, r.lost, r.gap.Seconds(), valid.Seconds())
	if r.failed > 0 {
		w.Errorf("%s: %d writes failed though they were tried again", f.name, r.failed)
	}
	if f.name != "two" && r.gap > longestGap { // two of three members are required
		w.Errorf("%s: no write was acknowledged for %s", f.name, r.gap)
	}
}

// pass lets time pass.
func (w *world) pass(d time.Duration) {
	w.Helper()
	select {
	case <-w.Context().Done():
		w.Fatal(w.Context().Err())
	case <-time.After(d):
	}
}

// followers returns the control plane machines except one.
func (w *world) followers(leader machine.Machine) []machine.Machine {
	w.Helper()
	return slices.DeleteFunc(w.controlPlanes(), func(m machine.Machine) bool { return m.Name == leader.Name })
}

// cutOff drops all packets between a machine and the rest of the control plane.
func (w *world) cutOff(m machine.Machine) (undo func()) {
	w.Helper()
	filter := func(how string) {
		for _, other := range w.followers(m) {
			for _, way := range [][]string{{"INPUT", "-s"}, {"OUTPUT", "-d"}} {
				_, err := w.machine.RunInside(w.Context(), m.Name, "iptables", "-w", how, way[0], way[1], other.Address, "-j", "DROP")
				w.ok(err)
			}
		}
	}
	filter("-I")
	return func() { filter("-D") }
}

// etcdOf returns the PID of a machine's etcd main.
func (w *world) etcdOf(m machine.Machine) int {
	w.Helper()
	pids, err := w.machine.Group(m.Name).Processes()
	w.ok(err)
	for _, pid := range pids {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)) // it may have exited
		given, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if string(name) == "etcd\n" && bytes.Contains(given, []byte("ETCD_LISTEN_CLIENT_URLS=https://0.0.0.0:4001\x00")) {
			return pid
		}
	}
	w.Fatalf("%s has no etcd", m.Name)
	return 0
}

// stopEtcd stops the process of a machine's etcd main.
func (w *world) stopEtcd(m machine.Machine) (undo func()) {
	w.Helper()
	pid := w.etcdOf(m)
	w.ok(syscall.Kill(pid, syscall.SIGSTOP))
	return func() { syscall.Kill(pid, syscall.SIGCONT) } // it may have been killed meanwhile
}

// slowDisk limits the processes of a machine to four writes a second, and checks that with etcd's:
// if the kernel does not apply the limit, the test fails.
func (w *world) slowDisk(m machine.Machine) (undo func()) {
	w.Helper()
	device := w.deviceOfDisk()
	limit := func(version1, version2 string) {
		for _, dir := range w.groupsOf(m) { // version 1 applies a limit only in the process's own control group
			for file, text := range map[string]string{"blkio.throttle.write_iops_device": version1, "io.max": version2} {
				err := os.WriteFile(filepath.Join(dir, file), []byte(device+" "+text), 0) // which does not create files here
				if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.ENODEV) {
					w.Fatal(err)
				}
			}
		}
	}
	limit("4", "wiops=4")
	if took := w.timeWrites(m, w.etcdOf(m)); took < 3*time.Second/2 {
		w.Fatalf("THE DISK WAS NOT MADE SLOW: eight writes among the processes of etcd of %s took %s", m.Name, took)
	}
	return func() { limit("0", "wiops=max") }
}

// groupsOf returns all control groups of a machine, in every hierarchy.
func (w *world) groupsOf(m machine.Machine) (dirs []string) {
	w.Helper()
	for _, top := range w.machine.Group(m.Name).Dirs() {
		w.ok(filepath.WalkDir(top, func(dir string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() { // otherwise it has been removed
				dirs = append(dirs, dir)
			}
			return nil
		}))
	}
	return dirs
}

// timeWrites returns how long eight writes take in the control groups of a process of a machine.
func (w *world) timeWrites(m machine.Machine, pid int) time.Duration {
	w.Helper()
	file := w.site.Path(site.Volumes, "slow")
	defer os.Remove(file) //nolint:errcheck // it may not have been made
	script := "set -e\n"
	for _, dir := range w.groupsOf(m) {
		procs := filepath.Join(dir, "cgroup.procs")
		in, _ := os.ReadFile(procs) // it may have exited
		if slices.Contains(strings.Fields(string(in)), strconv.Itoa(pid)) {
			script += "echo $$ > " + procs + "\n"
		}
	}
	start := time.Now()
	if r := w.exec(w.Context(), time.Minute, "sh", "-c", script+"exec dd if=/dev/zero bs=4k count=8 oflag=dsync of="+file); r.code != 0 {
		w.Fatalf("write to the disk: %s", r.err)
	}
	return time.Since(start)
}

// deviceOfDisk returns the disk with the machines, in the form in which limits name it.
func (w *world) deviceOfDisk() string {
	w.Helper()
	var at syscall.Stat_t
	w.ok(syscall.Stat(w.site.Path(), &at))
	device := fmt.Sprintf("%d:%d", at.Dev>>8&0xfff, at.Dev&0xff|at.Dev>>12&0xfff00)
	dir, err := filepath.EvalSymlinks("/sys/dev/block/" + device)
	w.ok(err)
	if _, err := os.Stat(filepath.Join(dir, "partition")); err == nil { // limits apply to whole disks
		whole, err := os.ReadFile(filepath.Join(filepath.Dir(dir), "dev"))
		w.ok(err)
		device = strings.TrimSpace(string(whole))
	}
	return device
}

// killKeeper kills the keeper, and waits until another process has replaced it.
func (w *world) killKeeper() {
	w.Helper()
	before := namesOf(w.machines(""))
	first, alive := keeper.Alive(w.site)
	if !alive {
		w.Fatal("the keeper does not run")
	}
	w.ok(syscall.Kill(first, syscall.SIGKILL))
	took := w.wait("another keeper", clusterTime, func() error {
		if pid, alive := keeper.Alive(w.site); !alive || pid == first {
			return fmt.Errorf("the keeper is %d", pid)
		}
		return nil
	})
	w.figures.seconds("a killed keeper, until another keeps the cluster", took)
	if after := namesOf(w.machines("")); !slices.Equal(before, after) {
		w.Errorf("with the keeper went machines: %v, then %v", before, after)
	}
}
