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

// Result collects what comes of a plan, for programs. It is safe for concurrent
// use; give its Report to the executor.
type Result struct {
	mu    sync.Mutex
	now   func() time.Time
	start time.Time
	plan  *plan.Plan
	last  map[stepKey]exec.Event
	begun map[stepKey]bool
}

// stepKey tells one step of a plan from all others.
type stepKey struct {
	address resource.Address
	op      plan.Op
	have    any
}

func keyOf(s plan.Step) stepKey { return stepKey{s.Address, s.Op, s.Have} }

// NewResult returns the result of a run that begins now. It is of no plan until Start.
func NewResult(now func() time.Time) *Result {
	return &Result{now: now, start: now(), plan: &plan.Plan{}, last: map[stepKey]exec.Event{}, begun: map[stepKey]bool{}}
}

// Start takes the plan that is carried out.
func (r *Result) Start(p *plan.Plan) { r.plan = p }

// Report takes one event of the executor.
func (r *Result) Report(e exec.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.State == exec.Started {
		r.begun[keyOf(e.Step)] = true
	}
	r.last[keyOf(e.Step)] = e
}

// resultFormat is the number of the format of a resultDocument.
const resultFormat = 1

// Run says to which run a plan or a result belongs, with further facts about it.
type Run struct {
	Cluster, Version string
	// Time is when a plan was made.
	Time time.Time
	// Aftermath is what it leaves to do; nil: nothing is said of that.
	Aftermath any
	// Risks are what in it deserves a second look.
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
	// Summary counts resources by what was to become of them, Outcome steps by what became of them.
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

// JSON writes the result of a run that ended with an error, or with none. refused
// says that a guard was its cause.
func (r *Result) JSON(w io.Writer, run Run, err error, refused bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	doc := resultDocument{Format: resultFormat, Cluster: run.Cluster, Version: run.Version, Time: r.start.UTC(), Seconds: seconds(r.now().Sub(r.start)),
		Summary: r.plan.Summary(), Error: errorOf(err), Aftermath: run.Aftermath, Outcome: map[string]int{}, Steps: []resultStep{}, Deferred: []resultAddress{}}
	for _, s := range r.plan.Steps {
		e, told := r.last[keyOf(s)]
		if s.Op == plan.Keep && e.State != exec.Failed {
			continue
		}
		step := r.step(s, e, told)
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

// step is what became of one step, which may have had no event.
func (r *Result) step(s plan.Step, e exec.Event, told bool) resultStep {
	out := resultStep{resultAddress: resultAddress{s.Address, ids(s.Kind, s.Have)}, Action: s.Op, Seconds: seconds(e.Elapsed), Outcome: "not-tried"}
	switch {
	case !told || e.State == exec.Skipped:
	case e.State == exec.Done:
		out.Outcome = "done"
		if e.Object != nil {
			out.IDs = ids(s.Kind, e.Object)
		}
	case e.State == exec.Denied:
		out.Outcome, out.Error = "denied", errorOf(e.Err)
	case e.State == exec.Failed && !errors.Is(e.Err, context.Canceled):
		out.Outcome, out.Error = "failed", errorOf(e.Err)
	case r.begun[keyOf(s)]:
		out.Outcome = "interrupted"
	}
	return out
}

func seconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

// ids are the identities of an object, of which there may be none.
func ids(k resource.Any, obj any) []string {
	out := []string{}
	if obj != nil && k != nil {
		k.Schema().Identities(obj, func(id string) { out = append(out, id) })
	}
	return out
}
