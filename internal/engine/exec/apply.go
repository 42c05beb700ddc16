package exec

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/resource"
)

// apply carries out step i, and returns the object's new state.
func (r *run) apply(ctx context.Context, i int) (any, error) {
	s := r.plan.Steps[i]
	client := r.Client(s.Address.Kind)
	if s.Op == plan.Delete {
		err := r.retry(ctx, i, func() error { return s.Kind.Delete(ctx, client, s.Have) })
		if fault.Is(err, fault.Gone) {
			err = nil
		}
		return nil, err
	}
	schema := s.Kind.Schema()
	want := schema.Resolved(s.Want, r.lookup)
	if missing := schema.Unresolved(want); len(missing) > 0 {
		return nil, fmt.Errorf("it needs %s, which no step of the plan provides", strings.Join(missing, ", "))
	}
	obj := s.Have
	if s.Op == plan.Create {
		var err error
		if obj, err = r.create(ctx, i, want); err != nil {
			return nil, err
		}
	}
	// A volatile output may have changed since the plan was made; compare again.
	changes := schema.Diff(want, obj)
	if s.Op == plan.Update || len(changes) > 0 {
		err := r.retry(ctx, i, func() (err error) {
			obj, err = setAll(ctx, s.Kind, client, obj, want, changes)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if s.Op == plan.Create {
		if err := r.retry(ctx, i, func() error { return s.Kind.Ready(ctx, client, obj) }); err != nil {
			return nil, err
		}
	}
	return obj, nil
}

func setAll(ctx context.Context, k resource.Any, client, have, want any, changes []resource.Change) (any, error) {
	got, err := k.Set(ctx, client, have, want, changes)
	if err != nil {
		return have, err
	}
	return got, nil
}

// create creates an object. If a response is lost, it checks whether the object was created, so
// that a retry creates no duplicate. It also checks if the name is taken: a request of an earlier,
// stopped run may have taken effect after this run's observation.
func (r *run) create(ctx context.Context, i int, want any) (obj any, err error) {
	s := r.plan.Steps[i]
	client, key := r.Client(s.Address.Kind), s.Kind.KeyOf(want)
	lost := false
	err = r.retry(ctx, i, func() (err error) {
		if lost {
			if obj, err = r.find(ctx, s, key, want); obj != nil || err != nil {
				return err
			}
		}
		obj, err = s.Kind.Create(ctx, client, want)
		lost = lost || fault.Is(err, fault.Lost)
		return err
	})
	if !fault.Is(err, fault.Taken) {
		return obj, err
	}
	taken := err
	err = r.retry(ctx, i, func() (err error) {
		obj, err = r.find(ctx, s, key, want)
		return err
	})
	if obj == nil || err != nil {
		return nil, taken
	}
	return obj, nil
}

// find returns an object with the key that could have been created as wanted. An object that the
// step replaces, or a leftover, could not: it needs a new object.
func (r *run) find(ctx context.Context, s plan.Step, key string, want any) (any, error) {
	list, err := r.Observe(ctx, s.Kind)
	if err != nil {
		return nil, err
	}
	for _, o := range list {
		if o.Key == key && !slices.ContainsFunc(s.Kind.Schema().Diff(want, o.Got), needsNew) {
			return o.Got, nil
		}
	}
	return nil, nil
}

func needsNew(c resource.Change) bool {
	return c.Mode == resource.Replace || c.Mode == resource.Forbid
}

// Waits between attempts: short at first, as most obstacles disappear within a second.
const (
	firstWait = 100 * time.Millisecond
	longWait  = 5 * time.Second
	patience  = 10 * time.Minute
	// lostPatience is shorter: a lost connection is unlikely to recover soon, and a later run
	// continues where this one stopped.
	lostPatience = 30 * time.Second
)

// retry calls f within the API's limit until it succeeds, fails permanently, or the step's patience
// is exhausted. Patience begins with the first failure: waiting for a turn, and a slow call, do not
// use it up.
func (r *run) retry(ctx context.Context, i int, f func() error) error {
	s := r.plan.Steps[i]
	var end, lostEnd time.Time
	var obstacle error // the last real obstacle, rather than a throttled or lost attempt
	for wait := firstWait; ; wait = min(2*wait, longWait) {
		err := r.attempt(ctx, i, f)
		c := fault.Of(err)
		switch {
		case err != nil && ctx.Err() != nil:
			return &stoppedError{err}
		case err == nil || !(c.Retryable() || c == fault.Lost):
			return err
		}
		if obstacle == nil || c == fault.NotYet || c == fault.Conflict {
			obstacle = err
		}
		now := r.Clock.Now()
		if end.IsZero() {
			end = now.Add(cmp.Or(r.Patience, patience))
		}
		switch {
		case c != fault.Lost:
			lostEnd = time.Time{}
		case lostEnd.IsZero():
			lostEnd = now.Add(lostPatience)
		}
		asked := fault.After(err)
		if next := now.Add(max(wait, asked)); next.After(end) || !lostEnd.IsZero() && next.After(lostEnd) {
			return fmt.Errorf("gave up waiting: %w", obstacle)
		}
		r.report(Event{Step: s, State: Retrying, Err: err})
		if serr := r.Clock.Sleep(ctx, max(asked, wait/2+time.Duration(r.Clock.Jitter()*float64(wait/2)))); serr != nil {
			return &stoppedError{err}
		}
	}
}

// stoppedError is the error of a step at the time when the run was stopped. It is not a failure of
// the step.
type stoppedError struct{ error }

func (e *stoppedError) Unwrap() error { return e.error }

func (r *run) attempt(ctx context.Context, i int, f func() error) error {
	api := r.plan.Steps[i].Kind.KindAPI()
	if err := r.Limits.acquire(ctx, api, r.chain[i]); err != nil {
		return err
	}
	err := r.callGuarded(ctx, f)
	r.Limits.release(api, fault.Is(err, fault.Throttled))
	return err
}

// callGuarded calls f if the guard permits it, which is checked last because waiting for a turn takes
// time.
func (r *run) callGuarded(ctx context.Context, f func() error) error {
	if r.Guard != nil {
		if err := r.Guard(ctx); err != nil {
			return err
		}
	}
	return f()
}
