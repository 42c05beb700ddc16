package kops

import (
	"encoding/json"
	"time"

	"kops.local/kops/internal/engine/exec"
	"kops.local/kops/internal/engine/plan"
)

// Plan is a list of steps. Its JSON form holds everything that is known about each step.
type Plan struct {
	// Steps are in an order in which they can be carried out; one that keeps what is there is among them.
	Steps []Step
	// Deferred are deletions that only an update with Prune would make.
	Deferred []Step

	made *plan.Plan
}

// Op is what a step does.
type Op string

// What a step does. Replacing a resource takes two steps, a deletion and a creation.
const (
	OpKeep   Op = "keep"
	OpCreate Op = "create"
	OpModify Op = "modify"
	OpDelete Op = "delete"
)

// Step is one operation on one resource.
type Step struct {
	Op Op
	// Kind is the resource's, such as aws_vpc; Name is its own.
	Kind, Name string
	// Why says what makes the step needed, where its changes do not.
	Why     string
	Changes []FieldChange
	// Shared marks a resource that is used and kept as it is, Replaces the creation of one
	// in the place of one that is deleted.
	Shared, Replaces bool
	// After are the steps that must succeed first.
	After []int
}

// FieldChange is a value that differs. Path leads to it from the resource: Tags["team"].
type FieldChange struct{ Path, Have, Want string }

// newPlan shows a plan.
func newPlan(p *plan.Plan) *Plan {
	out := &Plan{made: p}
	for _, s := range p.Steps {
		out.Steps = append(out.Steps, newStep(s))
	}
	for _, s := range p.Deferred {
		out.Deferred = append(out.Deferred, newStep(s))
	}
	return out
}

func newStep(s plan.Step) Step {
	out := Step{Op: Op(s.Op), Kind: s.Address.Kind, Name: s.Address.Name, Why: s.Why, Shared: s.Shared, Replaces: s.Replaces, After: s.After}
	for _, c := range s.Changes {
		for _, l := range c.Leaves {
			out.Changes = append(out.Changes, FieldChange(l))
		}
	}
	return out
}

// Empty reports whether nothing would be done.
func (p *Plan) Empty() bool { return p.made.Empty() }

// PlanCount counts the resources of a plan by what becomes of them. A replaced one is
// counted once, though it takes two steps.
type PlanCount struct {
	Create   int `json:"create"`
	Modify   int `json:"modify"`
	Replace  int `json:"replace"`
	Delete   int `json:"delete"`
	Deferred int `json:"deferred"` // deleted with Prune only
	Keep     int `json:"keep"`
	Shared   int `json:"shared"`
}

// Count counts what the plan does.
func (p *Plan) Count() PlanCount { return PlanCount(p.made.Summary()) }

// As sets what target points to, where that is of the type that serves inside.
func (p *Plan) As(target any) bool {
	t, ok := target.(**plan.Plan)
	if ok {
		*t = p.made
	}
	return ok
}

// MarshalJSON writes all that is known of the plan.
func (p *Plan) MarshalJSON() ([]byte, error) { return json.Marshal(p.made) }

// StepEvent tells how a step goes.
type StepEvent struct {
	Step  Step
	State StepState
	// Err is why a step failed, or is tried again.
	Err error
	// Elapsed is how long the step has taken.
	Elapsed time.Duration

	of exec.Event
}

// StepState is what a step has come to.
type StepState string

// What a step has come to.
const (
	StepStarted  StepState = "started"
	StepRetrying StepState = "retrying"
	StepDone     StepState = "done"
	StepFailed   StepState = "failed"
	// StepSkipped: a step that had to succeed first has failed.
	StepSkipped StepState = "skipped"
	// StepDenied: the credentials do not suffice, and the update goes on without the step.
	StepDenied StepState = "denied"
)

func newStepEvent(e exec.Event) *StepEvent {
	return &StepEvent{Step: newStep(e.Step), State: StepState(e.State), Err: e.Err, Elapsed: e.Elapsed, of: e}
}

// As sets what target points to, where that is of the type that serves inside.
func (e *StepEvent) As(target any) bool {
	t, ok := target.(*exec.Event)
	if ok {
		*t = e.of
	}
	return ok
}

// MarshalJSON writes what the step does, to what, and what it has come to.
func (e *StepEvent) MarshalJSON() ([]byte, error) { return json.Marshal(e.of) }
