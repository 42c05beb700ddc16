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

// Event is one event of a call, passed to the On of the call's options. Kind is
// what happened, and determines which of the following fields are set.
type Event struct {
	// Cluster is the cluster of the call.
	Cluster string    `json:"cluster"`
	Kind    EventKind `json:"kind"`
	// Phase is the current activity of the call, such as observe; "" means that it shows
	// the result.
	Phase string `json:"phase,omitempty"`
	// Plan is what an update or a deletion will do.
	Plan *Update `json:"plan,omitempty"`
	// Step is the progress of a step of the plan.
	Step *StepEvent `json:"step,omitempty"`
	// Holder describes in a sentence who holds the watched lease, which is watched for the time Watch.
	Holder string        `json:"holder,omitempty"`
	Watch  time.Duration `json:"watch,omitempty"`
	// Validation is the result of one check of the cluster.
	Validation *Validation `json:"validation,omitempty"`
	// Rollout is the progress of a rollout; Continued means that another process had begun it.
	Rollout   *Rollout `json:"rollout,omitempty"`
	Continued bool     `json:"continued,omitempty"`
	// Findings are the results of the pre-checks of an upgrade, or of the capacity check before a rollout.
	Findings finding.List `json:"findings,omitempty"`
	// Stage is the part of a reconciliation that begins.
	Stage *ReconcileStage `json:"stage,omitempty"`
	// Restore describes the consequences of restoring a backup.
	Restore *EtcdRestore `json:"restore,omitempty"`
	// Rotation is the progress of a rotation.
	Rotation *Rotation `json:"rotation,omitempty"`
	// Care is the progress of a maintenance task on an etcd cluster.
	Care *EtcdCare `json:"care,omitempty"`
}

// EventKind is the kind of an Event.
type EventKind string

// Kinds of events.
const (
	// EventPhase: the call enters the next Phase.
	EventPhase EventKind = "phase"
	// EventPlan: the Plan is ready, and nothing is done yet.
	EventPlan EventKind = "plan"
	// EventStep: a Step began, ended or is being retried.
	EventStep EventKind = "step"
	// EventLeased and EventReleased: the call acquired the cluster's lease, and released it.
	EventLeased   EventKind = "leased"
	EventReleased EventKind = "released"
	// EventWatching: the call watches an expired lease, because its last Holder may
	// still be running; EventWatched: it has finished watching.
	EventWatching EventKind = "watching"
	EventWatched  EventKind = "watched"
	// EventValidation: the call checked the cluster once.
	EventValidation EventKind = "validation"
	// EventRollout: a Rollout begins, is Continued, or has progressed.
	EventRollout EventKind = "rollout"
	// EventChecked: the cluster was checked before an upgrade, or a rollout, and Findings are known.
	EventChecked EventKind = "checked"
	// EventStage: a reconciliation enters its next Stage.
	EventStage EventKind = "stage"
	// EventRestore: the consequences of the Restore are known, and nothing is done yet.
	EventRestore EventKind = "restore"
	// EventRotation: the Rotation begins its next step, or has ended.
	EventRotation EventKind = "rotation"
	// EventCare: the managers of an etcd cluster are working on the requested task; Care is
	// the progress.
	EventCare EventKind = "care"
	// EventAwaiting: the restore was requested, and the call waits for it.
	EventAwaiting EventKind = "awaiting"
)

// On receives the events of one call, one after the other. An error stops the call as soon as possible,
// and is in the chain of the call's error. On may be nil.
type On func(Event) error

// OnPlan returns an On that passes only the plan to f.
func OnPlan(f func(*Update) error) On {
	return func(e Event) error {
		if e.Kind != EventPlan {
			return nil
		}
		return f(e.Plan)
	}
}

// reporter sends the events of one call to its On.
type reporter struct {
	cluster string
	on      On
	mu      sync.Mutex
}

func (r *reporter) report(e Event) error {
	if r.on == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Cluster = r.cluster
	return r.on(e)
}

func (r *reporter) phase(name string) error { return r.report(Event{Kind: EventPhase, Phase: name}) }

// plan reports a plan before anything is done.
func (r *reporter) plan(u *Update) error { return r.report(Event{Kind: EventPlan, Plan: u}) }

// watch reports that a lease is watched. It is watched to the end, even if On returns an error.
func (r *reporter) watch(h *clusterstore.LeaseHeldError, d time.Duration) (over func()) {
	_ = r.report(Event{Kind: EventWatching, Holder: h.Describe(), Watch: d})
	return func() { _ = r.report(Event{Kind: EventWatched}) }
}

// steps runs f, which reports the steps of a plan. The context of f is canceled when On returns
// an error for one of them.
func (r *reporter) steps(ctx context.Context, f func(context.Context, func(exec.Event)) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var mu sync.Mutex
	var stopped error
	err := f(ctx, func(e exec.Event) {
		if err := r.report(Event{Kind: EventStep, Step: newStepEvent(e)}); err != nil {
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
