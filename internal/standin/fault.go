package standin

import (
	"slices"
	"time"
)

// Moment is when a fault takes effect.
type Moment int

// The moments of a fault.
const (
	// Before: the call is rejected, and has no effect.
	Before Moment = iota
	// After: the call takes effect, but the response is the error.
	After
	// Lost: the call takes effect, and the connection is closed without a response.
	Lost
	// Inside: the response is an operation, which fails; it has no effect. A call that starts no
	// operation is rejected.
	Inside
	// Never: the call succeeds; only Delay and Meanwhile happen.
	Never
)

// Fault is an injected failure.
type Fault struct {
	// Method is the ID of the affected method; empty: every method that changes anything.
	Method string
	// The first Skip calls succeed, then Times of them fail; 0 means once.
	Skip, Times int
	When        Moment
	// Error is the response; nil: the usual one of the cloud.
	Error error
	// Delay is how much longer the operation takes that the call starts.
	Delay time.Duration
	// Meanwhile, when not nil, is called before the call takes effect, and may send requests: an
	// object that was listed may be gone when it is read.
	Meanwhile func()
}

// Fate is what a fault means for the operation that a call starts.
type Fate struct {
	// Fails is the error with which the operation ends; nil: it has its own.
	Fails error
	// Delay is how much longer it takes.
	Delay time.Duration
}

// Inject adds a fault. The first fault that applies to a call is used, in the order in which they
// were added.
func (s *Server) Inject(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.Times == 0 {
		f.Times = 1
	}
	if f.Error == nil {
		f.Error = s.api.Usual
	}
	s.faults = append(s.faults, &f)
}

// takeFault returns the fault for a call and counts it.
func (s *Server) takeFault(m Method) Fault {
	for i, f := range s.faults {
		if f.Method != m.ID && (f.Method != "" || !m.Writes) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		if f.Times--; f.Times == 0 {
			s.faults = slices.Delete(s.faults, i, i+1)
		}
		return *f
	}
	return Fault{When: Never}
}
