package cgroup

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTrees(t *testing.T) {
	for _, c := range []struct {
		name, mounts string
		want         []Tree
		pure         bool
	}{
		{"version 1 with a tree of version 2", `tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0
`, []Tree{{"/sys/fs/cgroup/memory", false}, {"/sys/fs/cgroup/unified", true}}, false},
		{"version 2", "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\ncgroup2 /var/lib/x/cgroup cgroup2 rw 0 0\n", []Tree{{"/sys/fs/cgroup", true}}, true},
	} {
		file := filepath.Join(t.TempDir(), "mounts")
		write(t, file, c.mounts)
		got, err := Trees(file)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.want, got); d != "" || IsUnified(got) != c.pure {
			t.Errorf("%s: %s", c.name, d)
		}
	}
	file := filepath.Join(t.TempDir(), "mounts")
	write(t, file, "proc /proc proc rw 0 0\n")
	if got, err := Trees(file); err == nil {
		t.Errorf("no groups at all: %v", got)
	}
}

// TestLimit checks the values written for the kernel, in an ordinary folder in its place.
func TestLimit(t *testing.T) {
	dir := t.TempDir()
	for _, f := range []string{"memory.max", "cpu.max", "memory.limit_in_bytes", "cpu.cfs_quota_us"} {
		write(t, filepath.Join(dir, f), "")
	}
	l := Limits{MemoryBytes: 2 << 30, CPUs: 2}
	for _, tree := range []Tree{{Unified: true}, {Unified: false}} {
		if err := setLimits(dir, tree, l); err != nil {
			t.Fatal(err)
		}
	}
	for f, want := range map[string]string{"memory.max": "2147483648", "cpu.max": "200000 100000", "memory.limit_in_bytes": "2147483648", "cpu.cfs_quota_us": "200000"} {
		if got, err := os.ReadFile(filepath.Join(dir, f)); err != nil || string(got) != want {
			t.Errorf("%s is %q (%v), not %q", f, got, err, want)
		}
	}
}

// TestLife takes a group of this host through its life cycle, with a process in it.
func TestLife(t *testing.T) {
	missing := func(err error) {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CANNOT RUN: %v", err)
		}
		t.Skipf("SKIPPED, NOTHING WAS TESTED: %v", err)
	}
	trees, err := Trees("/proc/self/mounts")
	if err != nil {
		missing(err)
	}
	g := Group{trees, "kops-cgroup-test/group/one"}
	t.Cleanup(func() { g.Remove(t.Context()) }) // after a failure
	if err := g.Create(Limits{MemoryBytes: 64 << 20}); err != nil {
		missing(err)
	}
	for range 2 { // an existing group is reused
		if err := g.Create(Limits{MemoryBytes: 64 << 20}); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("sh", "-c", `for d in "$@"; do mkdir "$d/below"; echo 0 > "$d/below/cgroup.procs" || echo 0 > "$d/cgroup.procs"; done; echo in; sleep 1000 & sleep 1000`, "sh")
	cmd.Args = append(cmd.Args, g.Dirs()...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	out.Read(make([]byte, 3)) // wait until it is in the group
	pids, err := g.Processes()
	if err != nil || !slices.Contains(pids, cmd.Process.Pid) {
		t.Errorf("the processes are %v (%v); %d is not among them", pids, err, cmd.Process.Pid)
	}
	if populated, err := g.Populated(); !populated || err != nil {
		t.Errorf("the group is said to be empty: %v", err)
	}
	go cmd.Wait() // it is going to be killed
	if err := g.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if populated, err := g.Populated(); populated || err != nil {
		t.Errorf("the group is said to have processes: %v", err)
	}
	for range 2 {
		if err := g.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range g.Dirs() {
		if top := filepath.Dir(filepath.Dir(d)); (Group{[]Tree{{Dir: filepath.Dir(top)}}, filepath.Base(top)}).Exists() {
			t.Errorf("%s is left", top)
		}
	}
	if pids, err := g.Processes(); err != nil || len(pids) > 0 {
		t.Errorf("a group that is gone has %v, %v", pids, err)
	}
}
