package text

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"kops.local/kops/finding"
	"kops.local/kops/internal/engine/exec"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/resource"
)

// Result collects the results of a plan, for programs. It is safe for concurrent use; pass its
// Report to the executor.
type Result struct {
	mu      sync.Mutex
	now     func() time.Time
	start   time.Time
	plan    *plan.Plan
	last    map[stepKey]exec.Event
	started map[stepKey]bool
}

// stepKey identifies a step of a plan.
type stepKey struct {
	address resource.Address
	op      plan.Op
	have    any
}

func keyOf(s plan.Step) stepKey { return stepKey{s.Address, s.Op, s.Have} }

// NewResult returns the result of a run that begins now. It has no plan until Start.
func NewResult(now func() time.Time) *Result {
	return &Result{now: now, start: now(), plan: &plan.Plan{}, last: map[stepKey]exec.Event{}, started: map[stepKey]bool{}}
}

// Start sets the plan that is carried out.
func (r *Result) Start(p *plan.Plan) { r.plan = p }

// Report processes one event of the executor.
func (r *Result) Report(e exec.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.State == exec.Started {
		r.started[keyOf(e.Step)] = true
	}
	r.last[keyOf(e.Step)] = e
}

// resultFormat is the version of a resultDocument's format.
const resultFormat = 1

// Run describes the run to which a plan or a result belongs, with further information.
type Run struct {
	Cluster, Version string
	// Time is when a plan was made.
	Time time.Time
	// Aftermath is what remains to be done after it; nil if that is not reported.
	Aftermath any
	// Risks are what deserves a second look.
	Risks finding.List
}

type resultDocument struct {
	Format  int          `json:"format"`
	Cluster string       `json:"cluster"`
	Version string       `json:"version"`
	Time    time.Time    `json:"time"`
	Seconds float64      `json:"seconds"`
	Result  string       `json:"result"` // done, unchanged, failed, interrupted or refused
	Error   *resultError `json:"error,omitempty"`
	// Summary counts resources by what was planned for them, Outcome steps by their results.
	Summary   plan.Summary    `json:"summary"`
	Outcome   map[string]int  `json:"outcome"`
	Steps     []resultStep    `json:"steps"`
	Deferred  []resultAddress `json:"deferred"`
	Aftermath any             `json:"aftermath,omitempty"`
	Risks     finding.List    `json:"risks,omitempty"`
}

type resultAddress struct {
	Address resource.Address `json:"address"`
	IDs     []string         `json:"ids"`
}

type resultStep struct {
	resultAddress
	Action  plan.Op      `json:"action"`
	Outcome string       `json:"outcome"` // done, failed, denied, interrupted or not-tried
	Seconds float64      `json:"seconds"`
	Error   *resultError `json:"error,omitempty"`
}

type resultError struct {
	Class   string `json:"class"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
}

func errorOf(err error) *resultError {
	if err == nil {
		return nil
	}
	return &resultError{Class: string(fault.Of(err)), Message: err.Error(), Remedy: fault.Remedy(err)}
}

// JSON writes the result of a run that ended with an error, or nil. refused means that a guard was
// its cause.
func (r *Result) JSON(w io.Writer, run Run, err error, refused bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	doc := resultDocument{Format: resultFormat, Cluster: run.Cluster, Version: run.Version, Time: r.start.UTC(), Seconds: seconds(r.now().Sub(r.start)),
		Summary: r.plan.Summary(), Error: errorOf(err), Aftermath: run.Aftermath, Outcome: map[string]int{}, Steps: []resultStep{}, Deferred: []resultAddress{}}
	for _, s := range r.plan.Steps {
		e, reported := r.last[keyOf(s)]
		if s.Op == plan.Keep && e.State != exec.Failed {
			continue
		}
		step := r.step(s, e, reported)
		doc.Outcome[step.Outcome]++
		doc.Steps = append(doc.Steps, step)
	}
	for _, s := range r.plan.Deferred {
		doc.Deferred = append(doc.Deferred, resultAddress{s.Address, ids(s.Kind, s.Have)})
	}
	switch {
	case err != nil && refused:
		doc.Result = "refused"
	case errors.Is(err, exec.ErrStopped), errors.Is(err, context.Canceled):
		doc.Result = "interrupted"
	case err != nil:
		doc.Result = "failed"
	case r.plan.Empty():
		doc.Result = "unchanged"
	default:
		doc.Result = "done"
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(doc); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

// step returns the result of one step, which may have had no event.
func (r *Result) step(s plan.Step, e exec.Event, reported bool) resultStep {
	out := resultStep{resultAddress: resultAddress{s.Address, ids(s.Kind, s.Have)}, Action: s.Op, Seconds: seconds(e.Elapsed), Outcome: "not-tried"}
	switch {
	case !reported || e.State == exec.Skipped:
	case e.State == exec.Done:
		out.Outcome = "done"
		if e.Object != nil {
			out.IDs = ids(s.Kind, e.Object)
		}
	case e.State == exec.Denied:
		out.Outcome, out.Error = "denied", errorOf(e.Err)
	case e.State == exec.Failed && !errors.Is(e.Err, context.Canceled):
		out.Outcome, out.Error = "failed", errorOf(e.Err)
	case r.started[keyOf(s)]:
		out.Outcome = "interrupted"
	}
	return out
}

func seconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

// ids returns the identities of an object, which may be nil.
func ids(k resource.Any, obj any) []string {
	out := []string{}
	if obj != nil && k != nil {
		k.Schema().Identities(obj, func(id string) { out = append(out, id) })
	}
	return out
}
