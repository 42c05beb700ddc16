// Package report is the account that a machine gives of its start: what nodeup
// writes, and kops reads.
//
// It must not know how a machine is started, nor how its report is had.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// File is where a machine keeps its report.
const File = "/var/log/kops-boot.json"

// Report is the account of a machine's start. It is written again whenever it changes.
type Report struct {
	Cluster string    `json:"cluster,omitempty"`
	Group   string    `json:"group,omitempty"`
	Node    string    `json:"node,omitempty"`
	Version string    `json:"version,omitempty"` // nodeup's
	Started time.Time `json:"started"`
	// Run counts how often nodeup began anew since it was started.
	Run    int     `json:"run"`
	Phases []Phase `json:"phases"`
	// Done says that the machine holds what it is to hold.
	Done     bool     `json:"done"`
	Warnings []string `json:"warnings,omitempty"`
}

// Phase is one phase of a start.
type Phase struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Attempts counts tries, over all runs.
	Attempts int       `json:"attempts"`
	Started  time.Time `json:"started"`
	// Seconds is how long the phase took, or has taken so far.
	Seconds float64 `json:"seconds"`
	// Steps counts what was changed.
	Steps int `json:"steps,omitempty"`
	// Error is the last error; it stays when a later try succeeds. Remedy is what helps.
	Error  string `json:"error,omitempty"`
	Remedy string `json:"remedy,omitempty"`
	// Waiting says of a phase that runs that the error is only that the control plane,
	// which may itself be starting, gives no answer yet.
	Waiting bool `json:"waiting,omitempty"`
}

// State is what a phase has come to.
type State string

// States of a phase.
const (
	Running State = "running"
	Passed  State = "done"
	Failed  State = "failed"
	// Stopped says that a part was not tried, because of a failure in another phase.
	Stopped State = "stopped"
)

// Broken returns the first phase that has failed, or, when none has, the first that has not
// ended and met an error, other than that it has to wait; nil when there is neither.
func (r *Report) Broken() *Phase {
	for _, state := range []State{Failed, Running} {
		for i, p := range r.Phases {
			if p.State == state && (state == Failed || p.Error != "" && !p.Waiting) {
				return &r.Phases[i]
			}
		}
	}
	return nil
}

// String is the report in words, a line for each phase.
func (r *Report) String() string {
	var b strings.Builder
	for _, p := range r.Phases {
		fmt.Fprintf(&b, "%-12s %-7s %6.1fs", p.Name, p.State, p.Seconds)
		if p.Steps > 0 {
			fmt.Fprintf(&b, "  %d changed", p.Steps)
		}
		if p.Attempts > 1 {
			fmt.Fprintf(&b, "  %d attempts", p.Attempts)
		}
		if p.Error != "" {
			fmt.Fprintf(&b, "  %s", p.Error)
			if p.Remedy != "" {
				fmt.Fprintf(&b, "; %s", p.Remedy)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// WriteJSON writes the report as one JSON document.
func (r *Report) WriteJSON(w io.Writer) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write the boot report: %w", err)
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// Parse reads what WriteJSON wrote.
func Parse(text []byte) (*Report, error) {
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("read the boot report: %w", err)
	}
	return &r, nil
}
