// Package report defines the report of a machine's start, which nodeup writes and
// kops reads.
//
// It must not know how a machine is started, nor how its report is transferred.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"kops.local/kops/api/status"
)

// File is where a machine keeps its report.
const File = "/var/log/kops-boot.json"

// Metrics is where a machine keeps metrics about itself, for the textfile collector of
// Prometheus' node exporter.
const Metrics = "/var/lib/kops/metrics/nodeup.prom"

// Renewal is the phase in which certificates about to expire are reissued, long after the start.
const Renewal = "renewal"

// Report describes a machine's start; it is rewritten whenever it changes.
type (
	Report      = status.BootReport
	Phase       = status.BootPhase
	State       = status.BootState
	Certificate = status.Certificate
	Down        = status.Down
)

// States of a phase.
const (
	Running = status.Running
	Passed  = status.Passed
	Failed  = status.Failed
	Stopped = status.Stopped
)

// WriteJSON writes the report as one JSON document.
func WriteJSON(w io.Writer, r *Report) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write the boot report: %w", err)
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// Parse parses the output of WriteJSON.
func Parse(text []byte) (*Report, error) {
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("read the boot report: %w", err)
	}
	return &r, nil
}

// WriteMetrics writes when the machine's certificates expire, and how the last renewal went, in
// Prometheus' text format ("Exposition formats", version 0.0.4).
func WriteMetrics(w io.Writer, r *Report) error {
	var b strings.Builder
	metric := func(name, help string, values ...string) {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name)
		for _, v := range values {
			b.WriteString(name + v + "\n")
		}
	}
	var ends []string
	for _, c := range r.Certificates {
		ends = append(ends, fmt.Sprintf("{file=%s,subject=%s} %d", label(c.File), label(c.Subject), c.Ends.Unix()))
	}
	metric("kops_certificate_end_timestamp_seconds", "When a certificate of this machine expires.", ends...)
	if i := slices.IndexFunc(r.Phases, func(p Phase) bool { return p.Name == Renewal }); i >= 0 {
		p, failed := r.Phases[i], 0
		if p.State == Failed {
			failed = 1
		}
		metric("kops_renewal_timestamp_seconds", "When this machine last checked which certificates to renew.", " "+strconv.FormatInt(p.Started.Unix(), 10))
		metric("kops_renewal_failed", "Whether that renewal failed; it is tried again every ten minutes.", " "+strconv.Itoa(failed))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// label escapes the value of a label.
func label(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}
