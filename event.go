package kops

import (
	"context"
	"errors"
	"sync"
	"time"

	"kops.local/kops/finding"
	"kops.local/kops/internal/engine/exec"
	"kops.local/kops/internal/store/clusterstore"
)

// Event is one thing that happens in a call, told to the On of the call's options. Kind
// says what happened, and which of the fields after it are set.
type Event struct {
	// Cluster is whose call it is.
	Cluster string    `json:"cluster"`
	Kind    EventKind `json:"kind"`
	// Phase is what the call does from now on, such as observe; "" says that it shows
	// what it found.
	Phase string `json:"phase,omitempty"`
	// Plan is what an update or a deletion will do.
	Plan *Update `json:"plan,omitempty"`
	// Step is what became of a step of the plan.
	Step *StepEvent `json:"step,omitempty"`
	// Holder says in a sentence who holds the lease that is watched, for the time of Watch.
	Holder string        `json:"holder,omitempty"`
	Watch  time.Duration `json:"watch,omitempty"`
	// Validation is the result of one look at the cluster.
	Validation *Validation `json:"validation,omitempty"`
	// Rollout is how far a rollout is; Continued says that another process had begun it.
	Rollout   *Rollout `json:"rollout,omitempty"`
	Continued bool     `json:"continued,omitempty"`
	// Findings are what pre-checks of an upgrade found, or a look for room before a rollout.
	Findings finding.List `json:"findings,omitempty"`
	// Stage is the part of a reconciliation that begins.
	Stage *ReconcileStage `json:"stage,omitempty"`
	// Restore is what the restore of a backup means.
	Restore *EtcdRestore `json:"restore,omitempty"`
	// Rotation is how far a rotation has come.
	Rotation *Rotation `json:"rotation,omitempty"`
	// Care is what was done for an etcd cluster so far.
	Care *EtcdCare `json:"care,omitempty"`
}

// EventKind is what happened.
type EventKind string

// Kinds of events.
const (
	// EventPhase: the call passes to the next Phase.
	EventPhase EventKind = "phase"
	// EventPlan: the Plan is made, and nothing is done yet.
	EventPlan EventKind = "plan"
	// EventStep: a Step began, ended or is tried again.
	EventStep EventKind = "step"
	// EventLeased and EventReleased: the call took the cluster's lease, and gave it back.
	EventLeased   EventKind = "leased"
	EventReleased EventKind = "released"
	// EventWatching: the call watches a lease that has ended, as its last Holder may
	// still live; EventWatched: it has done so.
	EventWatching EventKind = "watching"
	EventWatched  EventKind = "watched"
	// EventValidation: the call looked at the cluster once.
	EventValidation EventKind = "validation"
	// EventRollout: a Rollout begins, is Continued, or has come further.
	EventRollout EventKind = "rollout"
	// EventChecked: the cluster was looked at before an upgrade, or a rollout, and Findings are known.
	EventChecked EventKind = "checked"
	// EventStage: a reconciliation passes to its next Stage.
	EventStage EventKind = "stage"
	// EventRestore: it is known what the Restore means, and nothing is done yet.
	EventRestore EventKind = "restore"
	// EventRotation: the Rotation begins its next step, or ended.
	EventRotation EventKind = "rotation"
	// EventCare: the managers of an etcd cluster are at what they were asked for; Care says
	// how far.
	EventCare EventKind = "care"
	// EventAwaiting: the restore was asked for, and is waited for.
	EventAwaiting EventKind = "awaiting"
)

// On gets the events of one call, one after the other. An error stops the call as soon as possible, and is in the chain of the call's error. On may
// be nil.
type On func(Event) error

// OnPlan is an On that gets the plan only.
func OnPlan(f func(*Update) error) On {
	return func(e Event) error {
		if e.Kind != EventPlan {
			return nil
		}
		return f(e.Plan)
	}
}

// call is one call as far as its events go.
type call struct {
	cluster string
	on      On
	mu      sync.Mutex
}

func (c *call) tell(e Event) error {
	if c.on == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e.Cluster = c.cluster
	return c.on(e)
}

func (c *call) phase(name string) error { return c.tell(Event{Kind: EventPhase, Phase: name}) }

// plan tells a plan before anything is done.
func (c *call) plan(u *Update) error { return c.tell(Event{Kind: EventPlan, Plan: u}) }

// watch tells that a lease is watched. It is watched to its end, whatever is answered.
func (c *call) watch(h *clusterstore.Held, d time.Duration) (over func()) {
	_ = c.tell(Event{Kind: EventWatching, Holder: h.Describe(), Watch: d})
	return func() { _ = c.tell(Event{Kind: EventWatched}) }
}

// steps runs f, which reports the steps of a plan. The context of f ends when one of them
// is answered with an error.
func (c *call) steps(ctx context.Context, f func(context.Context, func(exec.Event)) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var mu sync.Mutex
	var stopped error
	err := f(ctx, func(e exec.Event) {
		if err := c.tell(Event{Kind: EventStep, Step: newStepEvent(e)}); err != nil {
			mu.Lock()
			defer mu.Unlock()
			stopped = err
			stop()
		}
	})
	mu.Lock()
	defer mu.Unlock()
	if stopped != nil {
		return errors.Join(stopped, err)
	}
	return err
}
