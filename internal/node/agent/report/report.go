// Package report is the account that a machine gives of its start: what nodeup
// writes, and kops reads.
//
// It must not know how a machine is started, nor how its report is had.
package report

import (
	"encoding/json"
	"fmt"
	"io"

	"kops.local/kops/api/status"
)

// File is where a machine keeps its report.
const File = "/var/log/kops-boot.json"

// Report is the account of a machine's start, which is written again whenever it changes.
type (
	Report = status.BootReport
	Phase  = status.BootPhase
	State  = status.BootState
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

// Parse reads what WriteJSON wrote.
func Parse(text []byte) (*Report, error) {
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("read the boot report: %w", err)
	}
	return &r, nil
}
