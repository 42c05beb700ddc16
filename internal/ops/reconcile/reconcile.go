// Package reconcile defines the order in which a cluster is brought to the state that its objects
// describe: the control plane before the machines that depend on it, and one hop of an upgrade
// after the other. Each deed does nothing if there is nothing to do, so that a restarted run
// continues where an interrupted one stopped.
//
// It must not know how a deed is carried out.
package reconcile

import (
	"context"
	"fmt"
)

// Actions are the actions of a run, each called as often as needed. Check examines the cluster before
// a hop begins. Next also examines it, and writes the next hop into the objects; it returns false
// if there is none.
type Actions struct {
	Check  func(context.Context) error
	Update func(ctx context.Context, scope Scope) error
	Await  func(context.Context) error
	Roll   func(ctx context.Context, scope Scope) error
	Next   func(context.Context) (bool, error)
	// On is called with each stage before it begins.
	On func(context.Context, Stage) error
}

// Scope is the part of a cluster that a deed is about.
type Scope string

// Scopes. Pruned is All, and also deletes unwanted objects.
const (
	ControlPlane Scope = "control plane"
	All          Scope = "all"
	Pruned       Scope = "pruned"
)

// Stage is a part of the run, and its position among all of them.
type Stage struct {
	Number, Of int
	Name       string
}

// stage is a Stage and its deed.
type stage struct {
	name string
	do   func(context.Context) error
}

// stages returns the stages of one hop, in kOps' order.
func (d *Actions) stages() []stage {
	update := func(s Scope) func(context.Context) error {
		return func(ctx context.Context) error { return d.Update(ctx, s) }
	}
	roll := func(s Scope) func(context.Context) error {
		return func(ctx context.Context) error { return d.Roll(ctx, s) }
	}
	return []stage{
		{"check the cluster", d.Check},
		{"update the control plane", update(ControlPlane)},
		{"wait for the control plane", d.Await},
		{"roll the control plane", roll(ControlPlane)},
		{"update everything", update(All)},
		{"roll everything", roll(All)},
		{"delete resources that are no longer wanted", update(Pruned)},
	}
}

// Names lists the stages of each hop.
func Names() []string {
	var out []string
	for _, s := range (&Actions{}).stages() {
		out = append(out, s.name)
	}
	return out
}

// Run runs all stages, or up to the first deed that fails.
func Run(ctx context.Context, d Actions) error {
	for more := true; more; {
		all := d.stages()
		for i, s := range all {
			if err := d.On(ctx, Stage{i + 1, len(all), s.name}); err != nil {
				return err
			}
			if err := s.do(ctx); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
		var err error
		if more, err = d.Next(ctx); err != nil {
			return err
		}
	}
	return nil
}
