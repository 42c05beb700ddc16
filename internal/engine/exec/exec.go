// Package exec carries out a plan: it streams the graph of steps, starting each as soon as the
// steps that it depends on are done, within the limits of each API.
//
// It must not know what the steps are about, nor how progress is shown.
package exec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/resource"
)

// Journal records intents before they happen and results after. Both must be safe for concurrent
// use. An error of Begin prevents the step.
type Journal interface {
	Begin(context.Context, plan.Step) error
	End(context.Context, plan.Step, error) error
}

// Clock is the executor's source of time.
type Clock struct {
	Now func() time.Time
	// Sleep waits, or returns the context's error.
	Sleep func(context.Context, time.Duration) error
	// Jitter returns a random number in [0,1), with which retries are spread out.
	Jitter func() float64
}

// Event is one thing that happened to a step. A step that keeps its resource only has events if
// others wait for the resource to be usable: Retrying, then Done or Failed.
type Event struct {
	Step  plan.Step
	State State
	// Object is the resulting object, for Done; nil for a deletion.
	Object  any
	Err     error // for Failed, Denied and Retrying
	Elapsed time.Duration
}

// MarshalJSON encodes the event without the object and its desired state.
func (e Event) MarshalJSON() ([]byte, error) {
	out := struct {
		Op      plan.Op          `json:"op"`
		Address resource.Address `json:"address"`
		State   State            `json:"state"`
		Error   string           `json:"error,omitempty"`
		// Seconds is how long the step has taken.
		Seconds float64 `json:"seconds"`
	}{Op: e.Step.Op, Address: e.Step.Address, State: e.State, Seconds: e.Elapsed.Seconds()}
	if e.Err != nil {
		out.Error = Cause(e.Err)
	}
	return json.Marshal(out)
}

// State is the state of a step.
type State string

const (
	Started  State = "started"
	Retrying State = "retrying"
	Done     State = "done"
	Failed   State = "failed"
	Skipped  State = "skipped"
	// Denied is the result of a lenient step for which the permissions do not suffice. The object
	// is unchanged, and dependent steps that only need the object continue.
	Denied State = "denied"
)

// Executor runs plans. Its fields must not change during a run.
type Executor struct {
	// Client returns the client that a kind needs.
	Client func(kind string) any
	// Observe lists a kind again, to find out whether a create whose response was lost took effect.
	Observe func(context.Context, resource.Any) ([]resource.Object, error)
	Journal Journal
	Limits  *Limits
	Clock   Clock
	// Patience is how long a step is retried while its error may be temporary; 0 means 10 minutes.
	Patience time.Duration
	// Guard, if not nil, is called before each attempt of a step. It returns an error, and cancels
	// the run's context, if this process may no longer change anything; calls may overlap.
	Guard func(context.Context) error
	// Report, if not nil, is called for each event; calls may overlap.
	Report func(Event)
}

// errSkipped is the result of a step that depends on a failed one.
var errSkipped = errors.New("skipped: a step it depends on failed")

// ErrStopped is wrapped by the error of a run that was stopped by its context.
var ErrStopped = errors.New("stopped")

// StepError is the failure of one step; for a kept resource, it means that the resource cannot be
// used.
type StepError struct {
	Op      plan.Op
	Address resource.Address
	Err     error
}

func (e *StepError) Error() string { return e.what() + ": " + Cause(e.Err) }

// what returns what the step should have done.
func (e *StepError) what() string {
	if e.Op == plan.Keep {
		return "wait for " + e.Address.String()
	}
	return string(e.Op) + " " + e.Address.String()
}

// Cause returns an error in one line, with its remedy.
func Cause(err error) string {
	text := err.Error()
	if r := fault.Remedy(err); r != "" && !strings.Contains(text, r) {
		text += "; " + r
	}
	return text
}

// Unwrap returns the cause.
func (e *StepError) Unwrap() error { return e.Err }

// Error has all failed steps of a run.
type Error struct {
	Failed  []*StepError
	Skipped int // changes not tried because a step they depend on failed
}

// Error lists each cause once, with the steps that failed because of it.
func (e *Error) Error() string {
	var lines, causes []string
	for _, f := range e.Failed {
		cause := Cause(f.Err)
		if i := slices.Index(causes, cause); i >= 0 {
			lines[i] += ", " + f.what()
			continue
		}
		lines, causes = append(lines, f.what()), append(causes, cause)
	}
	for i, cause := range causes {
		lines[i] += ": " + cause
	}
	if e.Skipped > 0 {
		lines = append(lines, Untried(e.Skipped)+"; run the command again to continue")
	}
	return strings.Join(lines, "\n")
}

// Untried says how many changes were not tried because of failures.
func Untried(n int) string {
	if n == 1 {
		return "1 change that depends on a failed change was not tried"
	}
	return fmt.Sprintf("%d changes that depend on failed changes were not tried", n)
}

// Unwrap returns the failures.
func (e *Error) Unwrap() []error {
	out := make([]error, len(e.Failed))
	for i, f := range e.Failed {
		out[i] = f
	}
	return out
}

// run is the state of one plan's execution.
type run struct {
	*Executor
	plan   *plan.Plan
	done   []chan struct{}
	errs   []error
	objs   []any
	holder map[resource.Address]int // the step whose object has the outputs
	needed []bool                   // whether a later write uses a kept object
	chain  []int                    // the length of the longest chain of steps that wait for each step
	made   atomic.Int32             // how many changes are done
}

// Run carries out the plan. Steps that do not depend on a failed one still run;
// the error is an *Error with all failures. If ctx ends the run, the error says how many
// changes are done, and wraps the context's cause and the *Error of the failures before it.
func (e *Executor) Run(ctx context.Context, p *plan.Plan) error {
	n := len(p.Steps)
	r := &run{Executor: e, plan: p, done: make([]chan struct{}, n), errs: make([]error, n), objs: make([]any, n),
		holder: map[resource.Address]int{}, needed: make([]bool, n), chain: chains(p)}
	for i, s := range p.Steps {
		r.done[i] = make(chan struct{})
		if s.Op != plan.Delete {
			r.holder[s.Address] = i
		}
		if s.Op == plan.Create || s.Op == plan.Update {
			for _, j := range s.After {
				r.needed[j] = true
			}
		}
	}
	var wg sync.WaitGroup
	for _, i := range r.urgentFirst() {
		wg.Go(func() {
			defer close(r.done[i])
			r.step(ctx, i)
		})
	}
	wg.Wait()
	return r.result(ctx)
}

// chains returns, for each step, the length of the longest chain of steps that wait for it: the
// whole run takes at least as long as the longest of them.
func chains(p *plan.Plan) []int {
	out := make([]int, len(p.Steps))
	for i := range slices.Backward(p.Steps) { // a step comes after those it depends on
		for _, j := range p.Steps[i].After {
			out[j] = max(out[j], out[i]+1)
		}
	}
	return out
}

// urgentFirst returns the order in which the steps begin: of steps that can start at the same time,
// those with the longest chains reach the limits first. Nothing relies on the order, because the
// limits serve waiting steps by the same criterion.
func (r *run) urgentFirst() []int {
	out := make([]int, len(r.chain))
	for i := range out {
		out[i] = i
	}
	slices.SortStableFunc(out, func(i, j int) int { return r.chain[j] - r.chain[i] })
	return out
}

func (r *run) result(ctx context.Context) error {
	out, stopped := &Error{}, false
	for i, err := range r.errs {
		switch {
		case err == nil:
		case errors.As(err, new(*stoppedError)):
			stopped = true
		case errors.Is(err, errSkipped):
			if r.plan.Steps[i].Op != plan.Keep {
				out.Skipped++
			}
		default:
			out.Failed = append(out.Failed, &StepError{Op: r.plan.Steps[i].Op, Address: r.plan.Steps[i].Address, Err: err})
		}
	}
	if stopped {
		err := fmt.Errorf("%w after %d of %d changes: %w", ErrStopped, r.made.Load(), len(r.plan.Steps)-r.plan.Count(plan.Keep), context.Cause(ctx))
		if len(out.Failed) > 0 {
			out.Skipped = 0 // it would include steps that were not tried because of the stop
			err = fmt.Errorf("%w\n%w", err, out)
		}
		return err
	}
	if len(out.Failed) > 0 {
		return out
	}
	return nil
}

// step waits for the steps that step i depends on, and carries it out.
func (r *run) step(ctx context.Context, i int) {
	s := r.plan.Steps[i]
	for _, j := range s.After {
		<-r.done[j]
		if r.errs[j] != nil {
			r.errs[i] = errSkipped
		}
	}
	if r.errs[i] != nil {
		if s.Op != plan.Keep { // there was nothing to try
			r.report(Event{Step: s, State: Skipped})
		}
		return
	}
	start := r.Clock.Now()
	if s.Op == plan.Keep {
		r.objs[i] = s.Have
		if r.needed[i] && !s.Shared {
			r.errs[i] = r.retry(ctx, i, func() error { return s.Kind.Ready(ctx, r.Client(s.Address.Kind), s.Have) })
			r.recordEnd(i, start)
		}
		return
	}
	if err := ctx.Err(); err != nil { // before a step begins
		r.errs[i] = &stoppedError{err}
		r.recordEnd(i, start)
		return
	}
	r.report(Event{Step: s, State: Started})
	r.objs[i], r.errs[i] = r.journaled(ctx, i)
	if s.Lenient && fault.Is(r.errs[i], fault.Denied) {
		r.report(Event{Step: s, State: Denied, Err: r.errs[i], Elapsed: r.Clock.Now().Sub(start)})
		r.objs[i], r.errs[i] = s.Have, nil
		return
	}
	r.recordEnd(i, start)
}

func (r *run) recordEnd(i int, start time.Time) {
	e := Event{Step: r.plan.Steps[i], State: Done, Object: r.objs[i], Elapsed: r.Clock.Now().Sub(start)}
	if err := r.errs[i]; err != nil {
		e.State, e.Err, e.Object = Failed, err, nil
	} else if e.Step.Op != plan.Keep {
		r.made.Add(1)
	}
	r.report(e)
}

func (r *run) report(e Event) {
	if r.Report != nil {
		r.Report(e)
	}
}

func (r *run) journaled(ctx context.Context, i int) (any, error) {
	s := r.plan.Steps[i]
	if err := ctx.Err(); err != nil {
		return nil, &stoppedError{err}
	}
	if err := r.Journal.Begin(ctx, s); err != nil {
		return nil, fmt.Errorf("write the journal: %w", err)
	}
	obj, err := r.apply(ctx, i)
	if jerr := r.Journal.End(context.WithoutCancel(ctx), s, err); jerr != nil {
		err = errors.Join(err, fmt.Errorf("write the journal: %w", jerr))
	}
	return obj, err
}

// lookup resolves a reference to an output of an earlier step's object.
func (r *run) lookup(a resource.Address, attr string) (string, bool) {
	i, ok := r.holder[a]
	if !ok {
		return "", false
	}
	return r.plan.Steps[i].Kind.Schema().Attr(r.objs[i], attr)
}
