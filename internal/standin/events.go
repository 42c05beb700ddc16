package standin

import (
	"context"
	"slices"
	"time"
)

// event is something that happens at a given time.
type event struct {
	at time.Time
	do func(context.Context)
}

// Now returns the time of the current call or event; only these may ask.
func (s *Server) Now() time.Time { return s.now }

// Schedule schedules an event after a duration; only calls and events may do so.
func (s *Server) Schedule(d time.Duration, do func(context.Context)) {
	e := &event{s.now.Add(d), do}
	at, _ := slices.BinarySearchFunc(s.events, e.at, func(x *event, t time.Time) int {
		if x.at.After(t) {
			return 1
		}
		return -1 // of two at the same time, the older is first
	})
	s.events = slices.Insert(s.events, at, e)
}

// Operate schedules the end of an operation that a call started: do runs then, and end gets its
// error. If the operation is to fail, do never runs.
func (s *Server) Operate(f Fate, d time.Duration, do func(context.Context) error, end func(error)) {
	s.Schedule(d+f.Delay, func(ctx context.Context) {
		err := f.Fails
		if err == nil {
			err = do(ctx)
		}
		end(err)
	})
}

// Wait blocks a call until done returns true, but not longer than most. Other calls and events go on.
// It returns the context's error if that ends first.
func (s *Server) Wait(ctx context.Context, most time.Duration, done func() bool) error {
	for end := s.now.Add(most); !done() && s.now.Before(end); {
		next := end
		if len(s.events) > 0 && s.events[0].at.Before(end) {
			next = s.events[0].at
		}
		d := max(next.Sub(s.now), time.Millisecond)
		s.mu.Unlock()
		err := s.o.Sleep(ctx, d)
		s.mu.Lock()
		if err != nil {
			return err
		}
		s.runDue(ctx)
	}
	return nil
}

// Run runs events in time until the context is done, even without requests.
func (s *Server) Run(ctx context.Context) error {
	for {
		s.mu.Lock()
		s.runDue(ctx)
		s.mu.Unlock()
		if err := s.o.Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

// runDue runs all events that are due.
func (s *Server) runDue(ctx context.Context) {
	now := s.o.Now()
	ctx = context.WithoutCancel(ctx) // events continue when the request that runs them is cancelled
	for len(s.events) > 0 && !s.events[0].at.After(now) {
		e := s.events[0]
		s.events = s.events[1:]
		s.now = e.at
		e.do(ctx)
		s.step()
	}
	if now.After(s.now) {
		s.now = now
	}
}

// step calls what must follow each change.
func (s *Server) step() {
	for _, f := range s.onStep {
		f()
	}
}
