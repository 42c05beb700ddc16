package exec_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/engine/exec"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/journal"
)

func TestPatience(t *testing.T) {
	for _, class := range []fault.Class{fault.Throttled, fault.NotYet, fault.Conflict, fault.Lost} {
		runInBubble(t, "an error that may pass is tried again: "+string(class), func(t *testing.T, l *lab) {
			k := l.kind("k")
			l.does["create a"] = first(fault.New(class, "one"), fault.New(class, "two"))
			x := l.try(t, kinds(k), false, node(k, "a"))
			if err := x.Run(t.Context(), x.plan); err != nil {
				t.Fatal(err)
			}
			equal(t, "events", []string{"started create a", "retrying create a: one", "retrying create a: two", "done create a"}, x.events)
		})
	}
	for _, class := range []fault.Class{fault.Permanent, fault.Denied, fault.Quota, fault.Gone} {
		runInBubble(t, "an error that stays is not: "+string(class), func(t *testing.T, l *lab) {
			k := l.kind("k")
			l.does["create a"] = func(int) error { return fault.New(class, "no") }
			x := l.try(t, kinds(k), false, node(k, "a"))
			if err := x.Run(t.Context(), x.plan); !fault.Is(err, class) || l.count["create a"] != 1 {
				t.Errorf("%d calls, error: %v", l.count["create a"], err)
			}
		})
	}
	for _, c := range []struct {
		patience, least, most time.Duration
	}{{0, 9 * time.Minute, 10 * time.Minute}, {time.Minute, 50 * time.Second, time.Minute}} {
		runInBubble(t, fmt.Sprintf("patience %s ends", c.patience), func(t *testing.T, l *lab) {
			k := l.kind("k")
			// The error names the obstacle, not the throttling that happened to come last.
			l.does["create a"] = func(n int) error {
				if n == 0 {
					return fault.New(fault.Conflict, "in use by b")
				}
				return fault.New(fault.Throttled, "slow down")
			}
			x := l.try(t, kinds(k), false, node(k, "a"))
			x.Patience = c.patience
			err := x.Run(t.Context(), x.plan)
			equal(t, "message", "create k/a: gave up waiting: in use by b", err.Error())
			if took := time.Since(l.start); took < c.least || took > c.most {
				t.Errorf("gave up after %s", took)
			}
		})
	}
	runInBubble(t, "waits are short at first and grow to a few seconds", func(t *testing.T, l *lab) {
		k := l.kind("k")
		var at []time.Duration
		l.does["create a"] = func(int) error {
			at = append(at, time.Since(l.start))
			return fault.New(fault.NotYet, "pending")
		}
		x := l.try(t, kinds(k), false, node(k, "a"))
		_ = x.Run(t.Context(), x.plan) // it gives up
		if at[1] > 200*time.Millisecond {
			t.Errorf("the first wait is %s", at[1])
		}
		for i := 1; i < len(at); i++ {
			if wait := at[i] - at[i-1]; wait > 5*time.Second || i > 10 && wait < 2*time.Second {
				t.Errorf("wait %d is %s", i, wait)
			}
		}
	})
}

func TestAStepWaitsAsLongAsTheServerAsks(t *testing.T) {
	ask := func(after time.Duration) error {
		return &fault.Error{Class: fault.Throttled, After: after, Err: errors.New("slow down")}
	}
	runInBubble(t, "then it goes on", func(t *testing.T, l *lab) {
		k := l.kind("k")
		l.does["create a"] = first(ask(20*time.Second), ask(time.Millisecond))
		x := l.try(t, kinds(k), false, node(k, "a"))
		if err := x.Run(t.Context(), x.plan); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(l.start); took < 20*time.Second || took > 21*time.Second {
			t.Errorf("it took %s", took)
		}
	})
	runInBubble(t, "but it does not begin to wait for longer than its patience", func(t *testing.T, l *lab) {
		k := l.kind("k")
		l.does["create a"] = func(int) error { return ask(time.Hour) }
		x := l.try(t, kinds(k), false, node(k, "a"))
		if err := x.Run(t.Context(), x.plan); !fault.Is(err, fault.Throttled) || time.Since(l.start) > time.Second {
			t.Errorf("it took %s: %v", time.Since(l.start), err)
		}
	})
}

func TestCancellation(t *testing.T) {
	runInBubble(t, "a cancelled run stops waiting, starts nothing, and says why", func(t *testing.T, l *lab) {
		k := l.kind("k")
		why := errors.New("the lease was lost")
		ctx, cancel := context.WithCancelCause(t.Context())
		l.does["create a"] = func(int) error { return fault.New(fault.NotYet, "pending") }
		a := node(k, "a")
		x := l.try(t, kinds(k), false, a, node(k, "b", a))
		var log bytes.Buffer
		x.Journal = journal.New(&log, time.Now)
		time.AfterFunc(30*time.Second, func() { cancel(why) })
		err := x.Run(ctx, x.plan)
		if !errors.Is(err, why) {
			t.Errorf("error: %v", err)
		}
		if took := time.Since(l.start); took != 30*time.Second {
			t.Errorf("it took %s", took)
		}
		if l.count["create b"] > 0 {
			t.Error("b was created")
		}
		if got := log.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, `"event":"failed"`) {
			t.Errorf("the journal must tell how the step ended: %s", got)
		}
	})
	runInBubble(t, "a step that waits for its turn stops waiting", func(t *testing.T, l *lab) {
		k := l.kind("k")
		ctx, cancel := context.WithCancel(t.Context())
		l.duration["create a"] = time.Hour
		x := l.try(t, kinds(k), false, node(k, "a"), node(k, "b"))
		x.Limits = exec.NewLimits(nil, 1)
		time.AfterFunc(time.Second, cancel)
		if err := x.Run(ctx, x.plan); !errors.Is(err, context.Canceled) {
			t.Errorf("error: %v", err)
		}
		if took := time.Since(l.start); took != time.Second {
			t.Errorf("it took %s", took)
		}
	})
	runInBubble(t, "a run that is cancelled before it starts does nothing", func(t *testing.T, l *lab) {
		k := l.kind("k")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		x := l.try(t, kinds(k), false, node(k, "a"))
		if err := x.Run(ctx, x.plan); !errors.Is(err, context.Canceled) || len(l.calls) > 0 {
			t.Errorf("calls %v, error %v", l.calls, err)
		}
	})
}

// A call may hang, and a step may wait long for its turn; neither uses up the patience for a later
// failure.
func TestPatienceBeginsWithTheFailure(t *testing.T) {
	for _, class := range []fault.Class{fault.Lost, fault.Throttled} {
		runInBubble(t, "a call that hangs and then fails is tried again: "+string(class), func(t *testing.T, l *lab) {
			k := l.kind("k")
			l.duration["create a"] = 11 * time.Minute
			l.does["create a"] = first(fault.New(class, "no answer"))
			x := l.try(t, kinds(k), false, node(k, "a"))
			if err := x.Run(t.Context(), x.plan); err != nil {
				t.Error(err)
			}
		})
		runInBubble(t, "so is one that had to wait for its turn: "+string(class), func(t *testing.T, l *lab) {
			k := l.kind("k")
			for _, n := range []string{"create a", "create b"} {
				l.duration[n] = 11 * time.Minute
				l.does[n] = first(fault.New(class, "no answer"))
			}
			x := l.try(t, kinds(k), false, node(k, "a"), node(k, "b"))
			x.Limits = exec.NewLimits(nil, 1)
			if err := x.Run(t.Context(), x.plan); err != nil {
				t.Error(err)
			}
		})
	}
}

// Without a connection a step gives up early, but responses in between show that there is one.
func TestLostAnswersInARow(t *testing.T) {
	for _, c := range []struct {
		answers     bool
		least, most time.Duration
	}{{false, 20 * time.Second, 30 * time.Second}, {true, 9 * time.Minute, 10 * time.Minute}} {
		runInBubble(t, fmt.Sprintf("with answers in between: %v", c.answers), func(t *testing.T, l *lab) {
			k := l.kind("k")
			l.add(item{Name: "a"})
			l.does["update a uses= size=1"] = func(n int) error {
				if c.answers && n%3 == 0 {
					return fault.New(fault.Throttled, "slow down")
				}
				return fault.New(fault.Lost, "no answer")
			}
			x := l.try(t, kinds(k), false, k.New("a", item{Name: "a", Size: 1}))
			if err := x.Run(t.Context(), x.plan); err == nil {
				t.Error("it succeeded")
			}
			if took := time.Since(l.start); took < c.least || took > c.most {
				t.Errorf("gave up after %s", took)
			}
		})
	}
}

func TestAStoppedRunReportsItsFailures(t *testing.T) {
	runInBubble(t, "what failed before the stop is told, and what the stop cut off is not", func(t *testing.T, l *lab) {
		k := l.kind("k")
		ctx, cancel := context.WithCancelCause(t.Context())
		l.does["create a"] = func(int) error { return fault.New(fault.Denied, "no permission") }
		l.does["create b"] = func(int) error { return fault.New(fault.NotYet, "pending") }
		l.duration["create c"] = time.Hour
		x := l.try(t, kinds(k), false, node(k, "a"), node(k, "b"), node(k, "c"))
		time.AfterFunc(time.Second, func() { cancel(errors.New("the lease was lost")) })
		err := x.Run(ctx, x.plan)
		equal(t, "message", "stopped after 0 of 3 changes: the lease was lost\ncreate k/a: no permission", err.Error())
		var failed *exec.Error
		if !errors.As(err, &failed) || len(failed.Failed) != 1 || !fault.Is(err, fault.Denied) {
			t.Errorf("error: %v", err)
		}
	})
	runInBubble(t, "the next call of a step is not made after the stop", func(t *testing.T, l *lab) {
		k := l.kind("k")
		ctx, cancel := context.WithCancel(t.Context())
		// A cloud's client may not check its context before it sends a request.
		l.does["update a uses= size=1"] = func(int) error { t.Error("updated after the stop"); return nil }
		l.does["create a"] = func(int) error { cancel(); return nil }
		x := l.try(t, kinds(k), false, k.New("a", item{Name: "a", Size: 1}))
		if err := x.Run(ctx, x.plan); !errors.Is(err, context.Canceled) {
			t.Errorf("error: %v", err)
		}
		if n := l.count["update a uses= size=1"]; n > 0 {
			t.Errorf("%d calls after the stop", n)
		}
	})
}
