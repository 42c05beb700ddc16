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

	"kops.local/kops/internal/clouds/local/ground"
)

// host is what the kernel and the disks of this host show. What belongs to
// clusters of other folders is left out: they come and go by themselves.
type host struct {
	Mounts, Links, Routes, Rules, Groups, Processes, Files []string
	Sysctls                                                map[string]string
}

// marked finds the marks that clusters put on interfaces, groups and rules.
var marked = regexp.MustCompile(`\b(?:kops-|vb-k)([0-9a-f]{6})`)

// others reports whether a text bears the mark of another cluster.
func (w *world) others(text string) bool {
	for _, m := range marked.FindAllStringSubmatch(text, -1) {
		if m[1] != w.site.ID() {
			return true
		}
	}
	return false
}

// look lists what there is on this host.
func look(w *world) host {
	w.Helper()
	h := host{
		Mounts: w.lines(os.ReadFile("/proc/self/mounts")),
		Routes: w.lines(os.ReadFile("/proc/net/route")),
		Links:  w.names("/sys/class/net/*"),
		Groups: w.walk("/sys/fs/cgroup"),
		Files:  slices.Concat(w.walk(w.site.Root), w.walk(w.state()), w.names("/run/systemd/nspawn*"), w.names("/run/systemd/nspawn/*/*"), w.names("/var/lib/machines/*")),
	}
	if path, err := exec.LookPath("iptables-save"); err == nil {
		h.Rules = w.lines(exec.Command(path).Output())
		h.Rules = slices.DeleteFunc(h.Rules, func(l string) bool { return !strings.HasPrefix(l, "-A") }) // the rest has counts and times
	}
	for _, line := range w.names("/proc/[0-9]*/cmdline") {
		text, err := os.ReadFile(line)
		if err == nil && bytes.Contains(text, []byte(w.site.Root)) {
			h.Processes = append(h.Processes, string(bytes.ReplaceAll(text, []byte{0}, []byte{' '})))
		}
	}
	// Other clusters set the same sysctls, and put them back when they go.
	if !slices.ContainsFunc(w.every("/sys/class/net/*"), w.others) {
		h.Sysctls = ground.ReadSysctls("/proc/sys")
	}
	return h
}

// lines are those of a text that are not other clusters'.
func (w *world) lines(text []byte, err error) []string {
	w.Helper()
	w.ok(err)
	return slices.DeleteFunc(strings.Split(string(text), "\n"), w.others)
}

func (w *world) every(pattern string) []string {
	w.Helper()
	found, err := filepath.Glob(pattern)
	w.ok(err)
	return found
}

// names are the files of a pattern that are not other clusters'.
func (w *world) names(pattern string) []string {
	w.Helper()
	return slices.DeleteFunc(w.every(pattern), w.others)
}

// walk lists the folders of the control groups, or all files of another folder.
func (w *world) walk(dir string) []string {
	w.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it went while it was looked at
		}
		if err == nil && path != dir && (d.IsDir() || !strings.HasPrefix(dir, "/sys/")) && !w.others(path) {
			out = append(out, path)
		}
		return err
	})
	w.ok(err)
	return out
}

// nothingLeft checks that the host is as it was before the cluster.
func (w *world) nothingLeft() {
	w.Helper()
	now := look(w)
	if w.before.Sysctls == nil || now.Sysctls == nil {
		w.Log("NOT TESTED, that the sysctls are as before: another cluster of this host sets them as well")
		w.before.Sysctls, now.Sysctls = nil, nil
	}
	now.Groups, w.before.Groups = w.ours(now.Groups), nil
	if d := cmp.Diff(w.before, now); d != "" {
		w.Errorf("the host is not as it was (-before +after):\n%s", d)
	}
}

// ours are the control groups that were not there before the cluster. Those below
// a group that was there are left out: whoever made that one makes and removes them.
func (w *world) ours(now []string) []string {
	depth := 1 // of the trees of version 1, below which the groups are
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		depth = 0
	}
	var out []string
	for _, g := range now {
		parts := strings.Split(strings.TrimPrefix(g, "/sys/fs/cgroup/"), "/")
		top := "/sys/fs/cgroup/" + strings.Join(parts[:min(len(parts), depth+1)], "/")
		if !slices.Contains(w.before.Groups, top) {
			out = append(out, g)
		}
	}
	return out
}
