package local

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/internal/platform/local/ground"
)

// host is the state of the kernel and the disks of this host that belongs to the cluster. Changes by
// others on the host are ignored.
type host struct {
	Mounts, Disks, Links, Routes, Rules, Groups, Processes, Files []string
	// Shared and Sysctls belong to all clusters of the host.
	Shared  []string
	Sysctls map[string]string
}

// escaped matches the control group that a kubelet creates if it sees the host's own.
var escaped = regexp.MustCompile(`^/sys/fs/cgroup/([^/]+/)?kubepods[^/]*$`)

// isOurs reports whether a text is about the cluster: it contains the folder of these tests, or
// the cluster's mark.
func (w *world) isOurs(text string) bool {
	return strings.Contains(text, workplace+"/") || strings.Contains(text, w.site.ID()) || escaped.MatchString(text)
}

// marked matches the marks of clusters on interfaces.
var marked = regexp.MustCompile(`\b(?:kops-|vb-k)([0-9a-f]{6})`)

// isOthers reports whether a text contains the mark of another cluster.
func (w *world) isOthers(text string) bool {
	for _, m := range marked.FindAllStringSubmatch(text, -1) {
		if m[1] != w.site.ID() {
			return true
		}
	}
	return false
}

// observeHost lists the cluster's objects on this host.
func observeHost(w *world) host {
	w.Helper()
	h := host{
		Mounts: w.lines(os.ReadFile("/proc/self/mounts")),
		Routes: w.lines(os.ReadFile("/proc/net/route")),
		Links:  w.names("/sys/class/net/*"),
		Groups: w.ourFiles("/sys/fs/cgroup"),
		Files:  slices.Concat(w.ourFiles(w.site.Root), w.ourFiles(w.state()), w.names("/run/systemd/nspawn/*/*"), w.names("/var/lib/machines/*")),
	}
	for _, file := range w.every("/sys/block/loop*/loop/backing_file") {
		if backing, err := os.ReadFile(file); err == nil { // otherwise the device is no longer in use
			h.Disks = append(h.Disks, w.lines(backing, nil)...)
		}
	}
	if path, err := exec.LookPath("iptables-save"); err == nil {
		h.Rules = w.lines(exec.Command(path).Output())
	}
	for _, line := range w.every("/proc/[0-9]*/cmdline") {
		text, err := os.ReadFile(line)
		if err == nil && bytes.Contains(text, []byte(w.site.Root)) {
			h.Processes = append(h.Processes, string(bytes.ReplaceAll(text, []byte{0}, []byte{' '})))
		}
	}
	// If there are other clusters, shared objects stay until the last one is deleted.
	if !slices.ContainsFunc(w.every("/sys/class/net/*"), w.isOthers) {
		h.Sysctls = ground.ReadSysctls("/proc/sys")
		refused := w.output("ip", "-4", "route", "list", "type", "unreachable")
		h.Shared = slices.Concat(strings.Split(refused, "\n"), w.every("/run/kops-local*"), w.every("/sys/fs/cgroup/kops.slice"), w.every("/sys/fs/cgroup/*/kops.slice"), w.every("/sys/fs/cgroup/kops"), w.every("/sys/fs/cgroup/*/kops"))
	}
	return h
}

// output returns the output of a program of the host.
func (w *world) output(program string, args ...string) string {
	w.Helper()
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		w.Fatalf("%s %s: %v: %s", program, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// lines returns the lines of a text that are about the cluster.
func (w *world) lines(text []byte, err error) []string {
	w.Helper()
	w.ok(err)
	return slices.DeleteFunc(strings.Split(string(text), "\n"), func(l string) bool { return !w.isOurs(l) })
}

func (w *world) every(pattern string) []string {
	w.Helper()
	found, err := filepath.Glob(pattern)
	w.ok(err)
	return found
}

// names returns the files matching a pattern that are about the cluster.
func (w *world) names(pattern string) []string {
	w.Helper()
	return slices.DeleteFunc(w.every(pattern), func(f string) bool { return !w.isOurs(f) })
}

// ourFiles lists the files in a folder that are about the cluster.
func (w *world) ourFiles(dir string) []string {
	w.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // deleted in the meantime
		}
		if err == nil && path != dir && w.isOurs(path) && (d.IsDir() || !strings.HasPrefix(dir, "/sys/")) {
			out = append(out, path)
		}
		return err
	})
	w.ok(err)
	return out
}

// checkNothingLeft checks that the host is as it was before the cluster.
func (w *world) checkNothingLeft() {
	w.Helper()
	now := observeHost(w)
	if w.before.Sysctls == nil || now.Sysctls == nil {
		w.Log("NOT TESTED, that the sysctls are as before and nothing is left of what clusters share: another cluster of this host needs them as well")
		w.before.Sysctls, now.Sysctls, w.before.Shared, now.Shared = nil, nil, nil, nil
	}
	if d := cmp.Diff(w.before, now); d != "" {
		w.Errorf("the host is not as it was (-before +after):\n%s", d)
	}
}
