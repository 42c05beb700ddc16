package kops

import (
	"encoding/json"
	"time"

	"kops.local/kops/internal/engine/exec"
	"kops.local/kops/internal/engine/plan"
)

// Plan is a list of steps. Its JSON form holds everything that is known about each step.
type Plan struct {
	// Steps are in an order in which they can be applied; steps that keep an existing resource are included.
	Steps []Step
	// Deferred are deletions that only an update with Prune would do.
	Deferred []Step

	plan *plan.Plan
}

// Op is the operation of a step.
type Op string

// Operations of a step. Replacing a resource takes two steps, a deletion and a creation.
const (
	OpKeep   Op = "keep"
	OpCreate Op = "create"
	OpModify Op = "modify"
	OpDelete Op = "delete"
)

// Step is one operation on one resource.
type Step struct {
	Op Op
	// Kind is the kind of the resource, such as aws_vpc; Name is its name.
	Kind, Name string
	// Why is the reason for the step, if its changes do not explain it.
	Why     string
	Changes []FieldChange
	// Shared marks a resource that is used and left unchanged, Replaces a creation that replaces a
	// deleted resource.
	Shared, Replaces bool
	// After are the steps that must succeed first.
	After []int
}

// FieldChange is a field with different values. Path is its path in the resource: Tags["team"].
type FieldChange struct{ Path, Have, Want string }

// newPlan converts a plan to its public form.
func newPlan(p *plan.Plan) *Plan {
	out := &Plan{plan: p}
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
func (p *Plan) Empty() bool { return p.plan.Empty() }

// PlanCount counts the resources of a plan by operation. A replaced one is
// counted once, although it takes two steps.
type PlanCount struct {
	Create   int `json:"create"`
	Modify   int `json:"modify"`
	Replace  int `json:"replace"`
	Delete   int `json:"delete"`
	Deferred int `json:"deferred"` // deleted only with Prune
	Keep     int `json:"keep"`
	Shared   int `json:"shared"`
}

// Count counts the operations of the plan.
func (p *Plan) Count() PlanCount { return PlanCount(p.plan.Summary()) }

// As sets the value that target points to, if that has the internal type.
func (p *Plan) As(target any) bool {
	t, ok := target.(**plan.Plan)
	if ok {
		*t = p.plan
	}
	return ok
}

// MarshalJSON writes everything known about the plan.
func (p *Plan) MarshalJSON() ([]byte, error) { return json.Marshal(p.plan) }

// StepEvent reports the progress of a step.
type StepEvent struct {
	Step  Step
	State StepState
	// Err is the reason why a step failed, or is being retried.
	Err error
	// Elapsed is how long the step has taken.
	Elapsed time.Duration

	event exec.Event
}

// StepState is the state of a step.
type StepState string

// States of a step.
const (
	StepStarted  StepState = "started"
	StepRetrying StepState = "retrying"
	StepDone     StepState = "done"
	StepFailed   StepState = "failed"
	// StepSkipped: a step that had to succeed first has failed.
	StepSkipped StepState = "skipped"
	// StepDenied means that the credentials do not have a permission, and the update continues without the step.
	StepDenied StepState = "denied"
)

func newStepEvent(e exec.Event) *StepEvent {
	return &StepEvent{Step: newStep(e.Step), State: StepState(e.State), Err: e.Err, Elapsed: e.Elapsed, event: e}
}

// As sets the value that target points to, if that has the internal type.
func (e *StepEvent) As(target any) bool {
	t, ok := target.(*exec.Event)
	if ok {
		*t = e.event
	}
	return ok
}

// MarshalJSON writes the operation of the step, its resource, and its state.
func (e *StepEvent) MarshalJSON() ([]byte, error) { return json.Marshal(e.event) }
