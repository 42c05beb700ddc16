package agent

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/node/agent/report"
	"kops.local/kops/internal/node/host"
)

// Phases of a machine's start, in order. Those after PhaseObserve run concurrently, up to PhaseLaunch,
// which is the last phase of a start.
const (
	PhaseIdentify     = "identify"     // the boot configuration, and the machine's identity
	PhaseConfigure    = "configure"    // the node configuration, from the store or the controller
	PhaseRead         = "read"         // key material and manifests, from the store
	PhaseModel        = "model"        // the machine's desired state
	PhaseObserve      = "observe"      // its observed state
	PhaseSystem       = "system"       // packages, kernel, users, file systems
	PhaseDownload     = "download"     // files from mirrors
	PhaseFiles        = "files"        // files put in place
	PhaseCertificates = "certificates" // keys generated, certificates issued
	PhaseServices     = "services"     // units started
	PhaseImages       = "images"       // container images
	PhaseLaunch       = "launch"       // the cloud notified that the machine has started
	PhaseReady        = "ready"        // after a change in place: the restarted services run
	PhaseRenewal      = report.Renewal // certificates about to expire are reissued, long after the start
)

// recorder keeps a report; it is safe for concurrent use.
type recorder struct {
	mu       sync.Mutex
	report   report.Report
	now      func() time.Time
	onChange func(report.Report)
}

// change alters the report and publishes it.
func (r *recorder) change(f func(*report.Report)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.report)
	if r.onChange != nil {
		copied := r.report
		copied.Phases = append([]report.Phase(nil), r.report.Phases...)
		copied.Warnings = append([]string(nil), r.report.Warnings...) // the list of certificates is always replaced as a whole
		r.onChange(copied)
	}
}

// warn records a warning, once across all runs.
func (r *recorder) warn(text string) {
	text = report.Public(text)
	r.change(func(rep *report.Report) {
		if !slices.Contains(rep.Warnings, text) {
			rep.Warnings = append(rep.Warnings, text)
		}
	})
}

// entry returns the phase with a name, and adds it if it is missing.
func entry(r *report.Report, name string) *report.Phase {
	for i := range r.Phases {
		if r.Phases[i].Name == name {
			return &r.Phases[i]
		}
	}
	r.Phases = append(r.Phases, report.Phase{Name: name})
	return &r.Phases[len(r.Phases)-1]
}

// fail records an error. The report leaves the machine, so locations in the error
// that may contain secrets are removed.
func fail(p *report.Phase, err error) {
	p.Error, p.Remedy, p.Waiting = report.Public(err.Error()), report.Public(fault.Remedy(err)), false
}

// do runs a phase.
func (r *recorder) do(name string, f func() error) error {
	r.begin(name)
	err := f()
	r.end(name, err, false)
	return err
}

// rerun runs a phase again and drops its earlier result.
func (r *recorder) rerun(name string, f func() error) error {
	r.change(func(rep *report.Report) { *entry(rep, name) = report.Phase{Name: name} })
	return r.do(name, f)
}

// certificates records the certificates of a machine's graph, as they are on the machine.
func (r *recorder) certificates(m *host.Machine, g *graph.Graph) {
	var all []report.Certificate
	for n := range g.All() {
		c, is := n.Want.(*host.Certificate)
		if !is {
			continue
		}
		if x, _ := m.InspectCertificate(*c); x != nil {
			all = append(all, report.Certificate{File: c.Path, Subject: x.Subject.CommonName, Ends: x.NotAfter.UTC(), Authority: pki.SignedBy(x)})
		}
	}
	slices.SortFunc(all, func(a, b report.Certificate) int { return strings.Compare(a.File, b.File) })
	r.change(func(rep *report.Report) { rep.Certificates = all })
}

// part runs a part of a phase, which is reported only if it fails.
func (r *recorder) part(name string, f func() error) error {
	err := f()
	if err != nil {
		r.begin(name)
		r.end(name, err, false)
	}
	return err
}

func (r *recorder) begin(name string) {
	r.change(func(rep *report.Report) {
		p := entry(rep, name)
		p.State, p.Started = report.Running, r.now().UTC()
		p.Attempts++
	})
}

// end ends a phase; stopped reports that some of its parts were not attempted.
func (r *recorder) end(name string, err error, stopped bool) {
	r.change(func(rep *report.Report) {
		p := entry(rep, name)
		p.Seconds, p.Waiting = r.now().Sub(p.Started).Seconds(), false
		switch {
		case err != nil && !errors.Is(err, ErrJoined):
			p.State = report.Failed
			fail(p, err)
		case stopped:
			p.State = report.Stopped
		default:
			p.State = report.Passed
		}
	})
}
