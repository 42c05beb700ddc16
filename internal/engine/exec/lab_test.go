package exec_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kops.local/kops/internal/engine/exec"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/test/sim"
)

// item is what the lab creates. Its identifier is its name with a number.
type item struct {
	Name string `res:"replace"`
	Uses resource.Value
	Size int `res:",post"`

	ID      string `res:"out,id" out:"id"`
	Version int    `res:"out,volatile" out:"version"`
}

// lab records the calls of an executor, and makes them slow or fail.
type lab struct {
	start time.Time
	// does is called with how often "VERB NAME" was called before.
	does map[string]func(n int) error
	// duration is how long a call takes.
	duration map[string]time.Duration

	mu      sync.Mutex
	seq     int
	created []*item
	calls   []string
	count   map[string]int
	busy    map[string]int // calls under way by API
	maxBusy map[string]int
}

func newLab() *lab {
	return &lab{start: time.Now(), does: map[string]func(int) error{}, duration: map[string]time.Duration{},
		count: map[string]int{}, busy: map[string]int{}, maxBusy: map[string]int{}}
}

// call makes one call; effect is its effect on the inventory.
func (l *lab) call(ctx context.Context, api, name string, effect func()) error {
	l.mu.Lock()
	n := l.count[name]
	l.count[name]++
	l.calls = append(l.calls, fmt.Sprintf("%s %s", time.Since(l.start), name))
	l.busy[api]++
	l.maxBusy[api] = max(l.maxBusy[api], l.busy[api])
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.busy[api]--
	}()
	select {
	case <-time.After(l.duration[name]):
	case <-ctx.Done():
		return ctx.Err()
	}
	var err error
	if f := l.does[name]; f != nil {
		err = f(n)
	}
	if err == nil && effect != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		effect()
	}
	return err
}

// add adds an item to the inventory; the caller must hold the lock, unless nothing runs
// concurrently.
func (l *lab) add(i item) *item {
	l.seq++
	i.ID = fmt.Sprintf("%s-%d", i.Name, l.seq)
	l.created = append(l.created, &i)
	return &i
}

func (l *lab) kind(name string) *resource.Kind[item, *lab] {
	return &resource.Kind[item, *lab]{
		Name: name, API: name, Key: func(i *item) string { return i.Name },
		List: func(ctx context.Context, l *lab, _ resource.Scope) (out []*item, err error) {
			return out, l.call(ctx, name, "list", func() {
				for _, i := range l.created {
					c := *i
					out = append(out, &c)
				}
			})
		},
		Create: func(ctx context.Context, l *lab, i *item) error {
			return l.call(ctx, name, "create "+i.Name, func() { *i = *l.add(item{Name: i.Name, Uses: i.Uses}) })
		},
		Update: []resource.Setter[item, *lab]{{Fields: []string{"Uses", "Size"}, Set: func(ctx context.Context, l *lab, have, want *item) error {
			return l.call(ctx, name, fmt.Sprintf("update %s uses=%s size=%d", have.Name, want.Uses, want.Size), func() { have.Version++ })
		}}},
		Ready: func(ctx context.Context, l *lab, i *item) error { return l.call(ctx, name, "ready "+i.Name, nil) },
		Delete: func(ctx context.Context, l *lab, i *item) error {
			return l.call(ctx, name, "delete "+i.Name, func() {
				l.created = slices.DeleteFunc(l.created, func(o *item) bool { return o.ID == i.ID })
			})
		},
	}
}

// trial is one plan with its executor.
type trial struct {
	*exec.Executor
	lab    *lab
	plan   *plan.Plan
	mu     sync.Mutex
	events []string
}

// try plans the nodes against the lab's inventory, without running the plan.
func (l *lab) try(t *testing.T, kinds []*resource.Kind[item, *lab], prune bool, ns ...resource.Node) *trial {
	t.Helper()
	g := &graph.Graph{}
	if err := g.Add(ns...); err != nil {
		t.Fatal(err)
	}
	have := plan.Snapshot{}
	var erased []resource.Any
	for _, k := range kinds {
		erased = append(erased, k.Erase())
		for _, i := range l.created {
			c := *i
			have[k.Name] = append(have[k.Name], resource.Object{Key: i.Name, Got: &c})
		}
	}
	p, err := plan.Make(g, have, erased, plan.Options{Prune: prune})
	if err != nil {
		t.Fatal(err)
	}
	x := &trial{lab: l, plan: p}
	clock := sim.Clock()
	o := &observe.Observer{Client: func(string) any { return l }, Sleep: clock.Sleep}
	x.Executor = &exec.Executor{
		Client: func(string) any { return l },
		Observe: func(ctx context.Context, k resource.Any) ([]resource.Object, error) {
			return o.List(ctx, k, resource.Scope{})
		},
		Journal: silentJournal{}, Limits: exec.NewLimits(nil, 100), Clock: clock, Report: x.report,
	}
	return x
}

func (x *trial) report(e exec.Event) {
	x.mu.Lock()
	defer x.mu.Unlock()
	text := fmt.Sprintf("%s %s %s", e.State, e.Step.Op, e.Step.Address.Name)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	x.events = append(x.events, text)
}

type silentJournal struct{}

func (silentJournal) Begin(context.Context, plan.Step) error      { return nil }
func (silentJournal) End(context.Context, plan.Step, error) error { return nil }

// callsOf returns the calls that start with a verb, with their times if timed is set.
func (l *lab) callsOf(timed bool, verbs ...string) (out []string) {
	for _, c := range l.calls {
		at, call, _ := strings.Cut(c, " ")
		verb, _, _ := strings.Cut(call, " ")
		if !slices.Contains(verbs, verb) {
			continue
		}
		if timed {
			call = at + " " + call
		}
		out = append(out, call)
	}
	return out
}

// first returns a behaviour in which the first calls return the errors, and later ones succeed.
func first(errs ...error) func(int) error {
	return func(n int) error {
		if n < len(errs) {
			return errs[n]
		}
		return nil
	}
}
