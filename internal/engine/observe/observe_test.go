package observe_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/test/sim"
)

type testObject struct {
	Name string         `res:"replace"`
	Ref  resource.Value `res:"replace"`
	ID   string         `res:"out,id" out:"id"`
}

// cloud responds to the nth list of a kind with a function.
type cloud struct {
	mu       sync.Mutex
	answer   func(kind string, n int) error
	duration time.Duration
	calls    map[string]int
	busy     int
	maxBusy  int
	scopes   map[string]resource.Scope
}

func (c *cloud) kind(name string) *resource.Kind[testObject, *cloud] {
	return &resource.Kind[testObject, *cloud]{Name: name, Key: func(t *testObject) string { return t.Name + t.Ref.String() },
		List: func(ctx context.Context, c *cloud, s resource.Scope) ([]*testObject, error) {
			c.mu.Lock()
			n := c.calls[name]
			c.calls[name], c.busy, c.scopes[name] = n+1, c.busy+1, s
			c.maxBusy = max(c.maxBusy, c.busy)
			c.mu.Unlock()
			defer func() { c.mu.Lock(); c.busy--; c.mu.Unlock() }()
			time.Sleep(c.duration)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if c.answer != nil {
				if err := c.answer(name, n); err != nil {
					return nil, err
				}
			}
			return []*testObject{{Name: name + "-object"}}, nil
		}}
}

func bubble(t *testing.T, name string, f func(t *testing.T, c *cloud, o *observe.Observer)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := &cloud{calls: map[string]int{}, scopes: map[string]resource.Scope{}}
			f(t, c, &observe.Observer{Client: func(string) any { return c }, Sleep: sim.Clock().Sleep})
		})
	})
}

func kindsOf(c *cloud, n int) (out []resource.Any) {
	for i := range n {
		out = append(out, c.kind(fmt.Sprintf("k%02d", i)).Erase())
	}
	return out
}

func TestSnapshot(t *testing.T) {
	for limit, most := range map[int]int{0: 16, 3: 3} {
		bubble(t, fmt.Sprintf("kinds are listed in parallel, within limit %d", limit), func(t *testing.T, c *cloud, o *observe.Observer) {
			c.duration, o.Limit = time.Second, limit
			var mu sync.Mutex
			done := map[string]int{}
			o.Done = func(kind string, n int) { mu.Lock(); defer mu.Unlock(); done[kind] = n }
			got, err := o.Snapshot(t.Context(), "c", kindsOf(c, 40), &graph.Graph{}, false)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != 40 || got["k07"][0].Key != "k07-object" || len(done) != 40 || done["k07"] != 1 {
				t.Errorf("%d kinds, %v, %v", len(got), got["k07"], done)
			}
			if c.maxBusy != most {
				t.Errorf("%d lists at once", c.maxBusy)
			}
		})
	}
	for _, class := range []fault.Class{fault.Throttled, fault.NotYet, fault.Conflict, fault.Lost} {
		bubble(t, "an error that may pass is asked again: "+string(class), func(t *testing.T, c *cloud, o *observe.Observer) {
			c.answer = func(kind string, n int) error {
				if n < 3 {
					return fault.New(class, "no")
				}
				return nil
			}
			start := time.Now()
			if _, err := o.Snapshot(t.Context(), "c", kindsOf(c, 1), &graph.Graph{}, false); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took != 1400*time.Millisecond {
				t.Errorf("it waited %s, want 200, 400 and 800 ms", took)
			}
		})
	}
	bubble(t, "it gives up after eight tries", func(t *testing.T, c *cloud, o *observe.Observer) {
		c.answer = func(string, int) error { return fault.New(fault.Throttled, "slow down") }
		_, err := o.Snapshot(t.Context(), "c", kindsOf(c, 1), &graph.Graph{}, false)
		if !fault.Is(err, fault.Throttled) || err.Error() != "list objects of kind k00: slow down" || c.calls["k00"] != 8 {
			t.Errorf("%d tries, error %v", c.calls["k00"], err)
		}
	})
	bubble(t, "another error fails at once, and stops the rest", func(t *testing.T, c *cloud, o *observe.Observer) {
		c.duration, o.Limit = time.Second, 1
		c.answer = func(kind string, _ int) error { return fault.New(fault.Denied, "no permission") }
		got, err := o.Snapshot(t.Context(), "c", kindsOf(c, 5), &graph.Graph{}, false)
		if !fault.Is(err, fault.Denied) || got != nil || c.calls["k00"] != 1 {
			t.Errorf("%v, error %v, asked %v", got, err, c.calls)
		}
	})
	bubble(t, "a wait ends when the context does", func(t *testing.T, c *cloud, o *observe.Observer) {
		c.answer = func(string, int) error { return fault.New(fault.Throttled, "slow down") }
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if _, err := o.Snapshot(ctx, "c", kindsOf(c, 1), &graph.Graph{}, false); !errors.Is(err, context.DeadlineExceeded) || c.calls["k00"] != 2 {
			t.Errorf("%d tries, error %v", c.calls["k00"], err)
		}
	})
}

func TestScopesNameWhatIsDesiredAndWhatIsShared(t *testing.T) {
	c := &cloud{}
	a, b := c.kind("a"), c.kind("b")
	g := &graph.Graph{}
	shared := a.Adopt("shared", "a-1", testObject{Name: "shared"})
	if err := g.Add(shared, a.New("x", testObject{Name: "x"}), a.New("y", testObject{Name: "y", Ref: shared.Out("id")})); err != nil {
		t.Fatal(err)
	}
	scopes := observe.Scopes("cluster", g, true)
	got := scopes("a")
	slices.Sort(got.Names)
	if d := cmp.Diff(resource.Scope{Cluster: "cluster", All: true, Adopted: []string{"a-1"}, Names: []string{"x", "y${a/shared.id}"}}, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(resource.Scope{Cluster: "cluster", All: true}, scopes(b.Name)); d != "" {
		t.Error(d)
	}
}
