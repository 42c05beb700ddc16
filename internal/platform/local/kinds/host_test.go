package kinds

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/local/ground"
	"kops.local/kops/internal/platform/local/keeper"
	"kops.local/kops/internal/platform/local/localtest"
	"kops.local/kops/internal/platform/local/machine"
	"kops.local/kops/internal/platform/local/site"
)

// keep is the argument that makes this program run as a cluster's keeper.
const keep = "keep-a-cluster"

func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == keep {
		root := strings.TrimPrefix(os.Args[2], "--root=")
		cluster := strings.TrimPrefix(os.Args[3], "--cluster=")
		if err := keeper.Run(context.Background(), site.Site{Root: root, Cluster: cluster}, os.Args[:2], os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// lab is a part of this host with clusters that are removed when the test ends.
type lab struct {
	*testing.T
	*Client
	before host
	names  []string
}

// newLab returns a lab, or skips the test if machines cannot be created.
func newLab(t *testing.T, clusters ...string) *lab {
	t.Helper()
	localtest.Require(t)
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	root := localtest.Workplace(t, "kinds")
	l := &lab{T: t, names: clusters, Client: &Client{Root: filepath.Join(root, "local"), Cache: filepath.Join(cache, "kops", "local"), Run: filepath.Join(root, "run"),
		Keeper: []string{self, keep}, Now: time.Now}}
	l.clean() // left by an interrupted or failed run
	l.before = l.snapshot()
	t.Cleanup(func() {
		if left := l.clean(); len(left) > 0 && !t.Failed() {
			t.Errorf("these were left: %s", strings.Join(left, ", "))
		}
	})
	return l
}

// clean deletes everything in the lab, and returns the names of what it deleted.
func (l *lab) clean() (left []string) {
	l.Helper()
	sites, err := site.Sites(l.Root)
	if err != nil {
		l.Errorf("clean up: %v", err)
	}
	for _, s := range sites {
		for _, k := range slices.Backward(All()) {
			list, err := k.Observe(context.Background(), l.Client, resource.Scope{Cluster: s.Cluster, All: true})
			if err != nil {
				l.Errorf("clean up: %v", err)
			}
			for _, o := range list {
				left = append(left, k.KindName()+" "+o.Key)
				if err := k.Delete(context.Background(), l.Client, o.Got); err != nil {
					l.Errorf("clean up: %v", err)
				}
			}
		}
	}
	return left
}

// host is what the kernel and the disk show of a lab.
type host struct {
	Mounts, Disks, Links, Groups, Processes, Routes, Files []string
	Sysctls                                                map[string]string
}

// snapshot lists the objects of the lab's clusters on this host.
func (l *lab) snapshot() host {
	l.Helper()
	marks := []string{filepath.Dir(l.Root)}
	for _, n := range l.names {
		marks = append(marks, site.Site{Root: l.Root, Cluster: n}.ID())
	}
	ours := func(text string) bool {
		return slices.ContainsFunc(marks, func(m string) bool { return strings.Contains(text, m) })
	}
	h := host{Sysctls: ground.ReadSysctls(ground.Sysctls)}
	mounts, err := os.ReadFile("/proc/self/mounts")
	l.ok(err)
	h.Mounts = slices.DeleteFunc(strings.Split(string(mounts), "\n"), func(s string) bool { return !ours(s) })
	loops, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	l.ok(err)
	for _, file := range loops {
		if backing, err := os.ReadFile(file); err == nil && ours(string(backing)) { // otherwise the device is free by now
			h.Disks = append(h.Disks, string(backing))
		}
	}
	links, err := net.Interfaces()
	l.ok(err)
	for _, i := range links {
		if ours(i.Name) {
			h.Links = append(h.Links, i.Name)
		}
	}
	routes, err := os.ReadFile("/proc/net/route")
	l.ok(err)
	h.Routes = slices.DeleteFunc(strings.Split(string(routes), "\n"), func(s string) bool { return !ours(s) && !refuses(s) })
	h.Groups = walk("/sys/fs/cgroup", ours)
	for _, dir := range []string{filepath.Dir(l.Root), "/run", "/var/lib/machines"} {
		h.Files = append(h.Files, walk(dir, func(path string) bool { return ours(path) || strings.Contains(path, "nspawn") })...)
	}
	procs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	l.ok(err)
	for _, p := range procs {
		if line, err := os.ReadFile(p); err == nil && ours(string(line)) {
			h.Processes = append(h.Processes, string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	return h
}

// refuses reports whether a line of /proc/net/route is an unreachable route for a network of
// these tests, 10.199.0.0/16, whose address is its metric.
func refuses(line string) bool {
	f := strings.Fields(line)
	if len(f) < 7 || f[0] != "*" {
		return false
	}
	metric, err := strconv.Atoi(f[6])
	return err == nil && metric>>16 == 10<<8|199
}

func walk(dir string, want func(string) bool) []string {
	var out []string
	filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error { // what cannot be read is not ours
		if err == nil && want(path) {
			out = append(out, path)
		}
		return nil
	})
	return out
}

// nothingLeft checks that the host is as it was before the lab.
func (l *lab) nothingLeft() {
	l.Helper()
	if d := cmp.Diff(l.before, l.snapshot()); d != "" {
		l.Errorf("the host is not as it was (-before +after):\n%s", d)
	}
}

func (l *lab) ok(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// patience is the timeout for reaching a state, on a slow host.
const patience = 5 * time.Minute

// wait calls f until it returns nil, and returns how long that took.
func (l *lab) wait(what string, f func() error) time.Duration {
	l.Helper()
	start := time.Now()
	for {
		err := f()
		took := time.Since(start)
		if err == nil {
			l.Logf("%s: after %s", what, took.Round(time.Millisecond))
			return took
		}
		if took > patience {
			l.Fatalf("%s: not after %s: %v", what, took, err)
		}
		time.Sleep(10 * time.Millisecond) // give the machines time
	}
}

// build creates an object as the engine would, and waits until it is ready.
func build[T any](l *lab, k *resource.Kind[T, *Client], want T) *T {
	l.Helper()
	e := k.Erase()
	made, err := e.Create(l.Context(), l.Client, &want)
	l.ok(err)
	l.wait("make "+k.Name, func() error { return e.Ready(l.Context(), l.Client, made) })
	return made.(*T)
}

// remove deletes an object.
func remove[T any](l *lab, k *resource.Kind[T, *Client], have *T) {
	l.Helper()
	start := time.Now()
	l.ok(k.Erase().Delete(l.Context(), l.Client, have))
	l.Logf("delete %s: %s", k.Name, time.Since(start).Round(time.Millisecond))
}

// base creates the image and the network that machines need.
func (l *lab) base(cluster, cidr string) (*Image, *Network) {
	l.Helper()
	return build(l, &Images, Image{Cluster: cluster}), build(l, &Networks, Network{Cluster: cluster, CIDR: cidr, Up: true})
}

// running returns the running machines of a group.
func (l *lab) running(cluster, group string) []machine.Machine {
	l.Helper()
	all, err := machinesIn(l.Client, cluster)
	l.ok(err)
	return slices.DeleteFunc(all, func(m machine.Machine) bool { return !m.Running || m.Group != group })
}

// inside runs a command in a machine.
func (l *lab) inside(cluster, name string, command ...string) (string, error) {
	h, err := l.Host(cluster)
	l.ok(err)
	out, err := h.RunInside(l.Context(), name, command...)
	return strings.TrimSpace(string(out)), err
}

// killAll kills a machine's processes as a power cut would.
func (l *lab) killAll(cluster, name string) {
	h, err := l.Host(cluster)
	l.ok(err)
	l.ok(h.Group(name).Kill(l.Context()))
}

// needProgram skips a test that needs a program.
func (l *lab) needProgram(program string) {
	l.Helper()
	if _, err := exec.LookPath(program); err != nil {
		if os.Getenv("CI") == "true" {
			l.Fatalf("CANNOT RUN: %v", err)
		}
		l.Skipf("SKIPPED, NOTHING WAS TESTED: %v", err)
	}
}
