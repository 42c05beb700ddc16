package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/internal/platform/local/site"
)

// figures are a test's measurements: seconds and megabytes, by what was measured.
type figures map[string]float64

func (f figures) seconds(what string, d time.Duration) {
	f[what+" s"] = d.Round(time.Millisecond).Seconds()
}
func (f figures) megabytes(what string, bytes int64) { f[what+" MB"] = float64(bytes/100_000) / 10 }

// report logs the figures, and adds them to the file that KOPS_E2E_REPORT names.
func (w *world) report() {
	w.Helper()
	for _, what := range slices.Sorted(maps.Keys(w.figures)) {
		w.Logf("%10.1f  %s", w.figures[what], what)
	}
	file := os.Getenv("KOPS_E2E_REPORT")
	if file == "" {
		return
	}
	all := map[string][]figures{}
	if _, err := site.ReadJSON(file, &all); err != nil {
		w.Fatal(err)
	}
	all[w.Name()] = append(all[w.Name()], w.figures)
	text, err := json.MarshalIndent(all, "", "  ")
	w.ok(err)
	w.ok(os.WriteFile(file, append(text, '\n'), 0o644))
}

// measureMachines measures the memory and the disk of every machine. It returns
// the private memory of all, in bytes: without page cache, which the kernel drops when it
// needs memory.
func (w *world) measureMachines() (own int64) {
	w.Helper()
	all, err := w.machine.List()
	w.ok(err)
	var residents, shares int64
	for _, m := range all {
		pids, err := w.machine.Group(m.Name).Processes()
		w.ok(err)
		var resident, share, mine int64
		for _, pid := range pids {
			status := fmt.Sprintf("/proc/%d/status", pid)
			mine += kilobytes(status, "RssAnon:", "RssShmem:")
			resident += kilobytes(status, "RssAnon:", "RssShmem:", "RssFile:")
			share += kilobytes(fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Pss:")
		}
		own, residents, shares = own+mine, residents+resident, shares+share
		role := m.Labels["role"] + " " + m.Name
		w.figures.megabytes("resident memory of "+role, resident)
		w.figures.megabytes("memory without files of "+role, mine)
		w.figures.megabytes("memory, with a share of shared pages, of "+role, share)
		w.figures.megabytes("disk of "+role, w.disk(w.site.Path(site.Machines, m.Name)))
	}
	w.figures.megabytes("resident memory of all machines", residents)
	w.figures.megabytes("memory without files of all machines", own)
	w.figures.megabytes("memory, with a share of shared pages, of all machines", shares)
	w.figures.megabytes("disk of the volumes of etcd", w.disk(w.site.Path(site.Volumes)))
	return own
}

// kilobytes adds up lines of a file of a process, and returns bytes. For a process
// that has exited it returns 0.
func kilobytes(file string, names ...string) (bytes int64) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) == 3 && slices.Contains(names, f[0]) {
			kib, err := strconv.ParseInt(f[1], 10, 64)
			if err == nil {
				bytes += kib << 10
			}
		}
	}
	return bytes
}

// disk returns the disk usage of the files below a folder, in bytes.
func (w *world) disk(dir string) (bytes int64) {
	w.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				bytes += info.Sys().(*syscall.Stat_t).Blocks * 512 // its unit, regardless of the file system's
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // deleted in the meantime
		}
		return err
	})
	w.ok(err)
	return bytes
}

// measureStarts measures, for every machine, the time from its creation until its
// node was ready. The API reports the latter in whole seconds.
func (w *world) measureStarts() {
	w.Helper()
	nodes, err := w.client().CoreV1().Nodes().List(w.Context(), metav1.ListOptions{})
	w.ok(err)
	all, err := w.machine.List()
	w.ok(err)
	for _, m := range all {
		for _, n := range nodes.Items {
			if n.Name == m.Name {
				w.figures.seconds("start to ready of "+m.Labels["role"]+" "+m.Name, readySince(&n).Sub(m.Created))
			}
		}
	}
}

// readySince returns when a node became ready; zero if it is not.
func readySince(n *corev1.Node) time.Time {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}
