// Package enginetest is the engine for tests: it plans a graph for a cloud and applies the plan
// as kops does, without a state store.
//
// It must not know any kind, and is for tests alone.
package enginetest

import (
	"context"
	"fmt"
	"io"
	"testing"

	"kops.local/kops/internal/engine/exec"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/journal"
	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/resource"
)

// Engine is the engine on one cloud.
type Engine struct {
	TB testing.TB
	// Client returns a client of the cloud, and Snapshot one that may cache what it has seen.
	Client, Snapshot func() any
	Kinds            []resource.Any
	Clock            exec.Clock
	// Prune makes every plan delete unwanted objects, not only plans of all objects that a cluster
	// has.
	Prune bool
}

// Observer returns an observer that uses a client.
func (e *Engine) Observer(client any) *observe.Observer {
	return &observe.Observer{Client: func(string) any { return client }, Sleep: e.Clock.Sleep}
}

// Plan compares the desired state with the existing objects: the ones named in want, or all of the
// cluster's.
func (e *Engine) Plan(cluster string, want *graph.Graph, all bool) *plan.Plan {
	e.TB.Helper()
	have, err := e.Observer(e.Snapshot()).Snapshot(e.TB.Context(), cluster, e.Kinds, want, all)
	if err != nil {
		e.TB.Fatal(err)
	}
	p, err := plan.Make(want, have, e.Kinds, plan.Options{Prune: all || e.Prune})
	if err != nil {
		e.TB.Fatal(err)
	}
	return p
}

// Carry applies a plan that was made from want.
func (e *Engine) Carry(cluster string, want *graph.Graph, p *plan.Plan, all bool) error {
	client, scopes := e.Client(), observe.Scopes(cluster, want, all)
	x := &exec.Executor{
		Client: func(string) any { return client },
		Observe: func(ctx context.Context, k resource.Any) ([]resource.Object, error) {
			return e.Observer(client).List(ctx, k, scopes(k.KindName()))
		},
		Journal: journal.New(io.Discard, e.Clock.Now), Limits: exec.NewLimits(nil, 4), Clock: e.Clock,
	}
	return x.Run(e.TB.Context(), p)
}

// Apply plans, and applies the plan.
func (e *Engine) Apply(cluster string, want *graph.Graph, all bool) {
	e.TB.Helper()
	if err := e.Carry(cluster, want, e.Plan(cluster, want, all), all); err != nil {
		e.TB.Fatal(err)
	}
}

// Changes lists what a plan would do, and in which fields.
func Changes(p *plan.Plan) []string {
	var out []string
	for _, s := range p.Steps {
		if s.Op != plan.Keep {
			out = append(out, fmt.Sprintf("%s %s %+v", s.Op, s.Address, s.Changes))
		}
	}
	for _, s := range p.Deferred {
		out = append(out, "deferred "+s.Address.String())
	}
	return out
}
