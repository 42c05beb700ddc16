package status

import (
	"fmt"
	"strings"
	"time"
)

// BootReport is the account of a machine's start. It is written again whenever it changes.
type BootReport struct {
	Cluster string    `json:"cluster,omitempty"`
	Group   string    `json:"group,omitempty"`
	Node    string    `json:"node,omitempty"`
	Version string    `json:"version,omitempty"` // nodeup's
	Started time.Time `json:"started"`
	// Run counts how often nodeup has retried since it was started.
	Run    int         `json:"run"`
	Phases []BootPhase `json:"phases"`
	// Done says that the machine holds what it is to hold.
	Done     bool     `json:"done"`
	Warnings []string `json:"warnings,omitempty"`
	// Adapted is what the machine has otherwise than its configuration says, because it is
	// a container: "FIELD: VALUE, WHY".
	Adapted []string `json:"adapted,omitempty"`
	// Certificates are those that the machine holds, as they were when it last renewed
	// them or looked whether it had to, which the phase renewal tells of.
	Certificates []Certificate `json:"certificates,omitempty"`
	// Down are the parts of the machine that have failed since its start, and not recovered.
	Down []Down `json:"down,omitempty"`
}

// Down is a part of a machine that does not work, such as its kubelet.
type Down struct {
	Name  string    `json:"name"`
	Since time.Time `json:"since"`
	// Error says what is seen of it, and Log is the end of what it wrote.
	Error string   `json:"error"`
	Log   []string `json:"log,omitempty"`
}

// Certificate is a certificate that a machine holds.
type Certificate struct {
	// File is where it is: a file of its own, or a kubeconfig.
	File string `json:"file"`
	// Subject is its common name.
	Subject string    `json:"subject"`
	Ends    time.Time `json:"ends"`
	// Authority tells which authority signed it: the begin of the identifier of its key.
	Authority string `json:"authority,omitempty"`
}

// ClusterCertificate is a certificate of a cluster, wherever it is.
type ClusterCertificate struct {
	// Holder is who has it: "store", "api server", "kubeconfig", or "node " and its name.
	Holder string `json:"holder"`
	// File is where it is there; empty for what was seen in use.
	File    string    `json:"file,omitempty"`
	Subject string    `json:"subject"`
	Ends    time.Time `json:"ends"`
	// Keyset and Signer are the keyset that signed it, and its item; empty where none of the store did.
	Keyset string `json:"keyset,omitempty"`
	Signer string `json:"signer,omitempty"`
	// Former says that this item is no longer the one that signs, and Distrusted that it is no longer believed.
	Former     bool `json:"former,omitempty"`
	Distrusted bool `json:"distrusted,omitempty"`
}

// BootPhase is one phase of a start.
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
	// Waiting says of a phase that runs that the error is only that the control plane,
	// which may itself be starting, gives no answer yet.
	Waiting bool `json:"waiting,omitempty"`
}

// BootState is what a phase has come to.
type BootState string

// States of a phase.
const (
	Running BootState = "running"
	Passed  BootState = "done"
	Failed  BootState = "failed"
	// Stopped says that a part was not tried, because of a failure in another phase.
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

// String is the report in words, a line for each phase.
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
