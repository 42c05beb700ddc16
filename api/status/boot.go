package status

import (
	"fmt"
	"strings"
	"time"
)

// BootReport is the report of a machine's boot. It is rewritten whenever it changes.
type BootReport struct {
	Cluster string    `json:"cluster,omitempty"`
	Group   string    `json:"group,omitempty"`
	Node    string    `json:"node,omitempty"`
	Version string    `json:"version,omitempty"` // nodeup's
	Started time.Time `json:"started"`
	// Run counts the retries of nodeup since it was started.
	Run    int         `json:"run"`
	Phases []BootPhase `json:"phases"`
	// Done means that the machine is in its desired state.
	Done     bool     `json:"done"`
	Warnings []string `json:"warnings,omitempty"`
	// Adapted are the settings that differ from the machine's configuration because it is
	// a container: "FIELD: VALUE, WHY".
	Adapted []string `json:"adapted,omitempty"`
	// Certificates are the machine's certificates when it last renewed them or checked
	// whether it had to; the phase renewal shows when that was.
	Certificates []Certificate `json:"certificates,omitempty"`
	// Down are the parts of the machine that have failed since its boot, and not recovered.
	Down []Down `json:"down,omitempty"`
}

// Down is a part of a machine that does not work, such as its kubelet.
type Down struct {
	Name  string    `json:"name"`
	Since time.Time `json:"since"`
	// Error is the symptom, and Log is the end of the part's log.
	Error string   `json:"error"`
	Log   []string `json:"log,omitempty"`
}

// Certificate is a certificate that a machine holds.
type Certificate struct {
	// File is its path: a file of its own, or a kubeconfig.
	File string `json:"file"`
	// Subject is its common name.
	Subject string    `json:"subject"`
	Ends    time.Time `json:"ends"`
	// Authority is the authority that signed it: the beginning of its key identifier.
	Authority string `json:"authority,omitempty"`
}

// ClusterCertificate is a certificate of a cluster, wherever it is stored.
type ClusterCertificate struct {
	// Holder is where it is: "store", "api server", "kubeconfig", or "node " and its name.
	Holder string `json:"holder"`
	// File is its path there; empty for a certificate that was seen in use.
	File    string    `json:"file,omitempty"`
	Subject string    `json:"subject"`
	Ends    time.Time `json:"ends"`
	// Keyset and Signer are the keyset and its item that signed it; empty if no item of the store did.
	Keyset string `json:"keyset,omitempty"`
	Signer string `json:"signer,omitempty"`
	// Former means that this item no longer signs, and Distrusted that it is no longer trusted.
	Former     bool `json:"former,omitempty"`
	Distrusted bool `json:"distrusted,omitempty"`
}

// BootPhase is one phase of a boot.
type BootPhase struct {
	Name  string    `json:"name"`
	State BootState `json:"state"`
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
	// Waiting means for a running phase that the error is only the missing answer of the control
	// plane, which may itself be starting.
	Waiting bool `json:"waiting,omitempty"`
}

// BootState is the state of a phase.
type BootState string

// States of a phase.
const (
	Running BootState = "running"
	Passed  BootState = "done"
	Failed  BootState = "failed"
	// Stopped means that a part was not tried, because another phase failed.
	Stopped BootState = "stopped"
)

// Broken returns the first phase that has failed, or otherwise the first unfinished phase with
// an error other than having to wait; nil if there is neither.
func (r *BootReport) Broken() *BootPhase {
	for _, state := range []BootState{Failed, Running} {
		for i, p := range r.Phases {
			if p.State == state && (state == Failed || p.Error != "" && !p.Waiting) {
				return &r.Phases[i]
			}
		}
	}
	return nil
}

// String returns the report as text, one line per phase.
func (r *BootReport) String() string {
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
