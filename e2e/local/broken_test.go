package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"kops.local/kops/internal/ops/health"
	"kops.local/kops/internal/platform/local/machine"
)

// breakage is a part of a machine that fails after the machine's boot.
type breakage struct {
	m machine.Machine
	// script breaks it, from inside the machine.
	script string
	// says are parts of what kops reports about the machine.
	says []string
}

// breakParts breaks parts of three machines, and waits until kops validate and kops doctor name each
// machine with the cause, the last line of the part's log and the remedy. Nothing is repaired afterwards.
func (w *world) breakParts() {
	w.Helper()
	workers, server := w.workers(), w.controlPlanes()[0]
	replace := func(m machine.Machine) string {
		return fmt.Sprintf("kops delete instance %s --name %s", m.Name, cluster)
	}
	all := []breakage{
		{workers[0], "fallocate -l $(($(df --output=avail -B1 / | tail -n1) - 40000000)) /var/filler",
			[]string{"its disk is almost full", "free space on it"}},
		{workers[1], "echo garbage > /var/lib/kubelet/kubelet.conf && systemctl restart kubelet",
			[]string{"its kubelet has been down since ", "its log says: ", "kubelet.conf", replace(workers[1])}},
		{server, "rm /srv/kubernetes/kube-apiserver/server.crt && pkill -KILL -x kube-apiserver",
			[]string{"its kube-apiserver has been down since ", "its log says: ", "server.crt", replace(server)}},
	}
	begun := time.Now()
	for _, b := range all {
		_, err := w.machine.RunInside(w.Context(), b.m.Name, "sh", "-c", b.script)
		w.ok(err)
	}
	took := w.wait("what broke is named", 2*time.Minute, func() error {
		return errors.Join(w.checkBreakagesNamed("validate", all, begun), w.checkBreakagesNamed("doctor", all, begun))
	})
	w.figures.seconds("parts of machines break, until kops says so", took)
}

// checkBreakagesNamed returns an error unless a command names each breakage.
func (w *world) checkBreakagesNamed(command string, all []breakage, begun time.Time) error {
	r := w.run(w.Context(), time.Minute, command, "cluster", cluster, "-o", "json")
	if command == "doctor" {
		r = w.run(w.Context(), time.Minute, command, cluster, "-o", "json")
	}
	var found struct {
		Failures []health.Failure
		Machines []health.MachineDiagnosis
	}
	if err := json.Unmarshal([]byte(r.out), &found); err != nil {
		return fmt.Errorf("kops %s: exit %d: %w\n%s%s", command, r.code, err, r.out, r.err)
	}
	for _, b := range all {
		reports := func(text string) bool {
			return !slices.ContainsFunc(b.says, func(part string) bool { return !strings.Contains(text, part) })
		}
		failed := slices.ContainsFunc(found.Failures, func(f health.Failure) bool { return f.Name == b.m.Name && reports(f.Text()) })
		diagnosed := command != "doctor" || slices.ContainsFunc(found.Machines, func(m health.MachineDiagnosis) bool {
			return m.Name == b.m.Name && reports(m.Message+"; "+m.Remedy)
		})
		if r.code != 2 || !failed || !diagnosed {
			return fmt.Errorf("kops %s, %s after: exit %d, and %s is not reported with %q:\n%s", command, time.Since(begun).Round(time.Second), r.code, b.m.Name, b.says, r.out)
		}
	}
	return nil
}
