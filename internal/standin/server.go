package standin

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"kops.local/kops/internal/engine/clock"
)

// Options say how a stand-in behaves.
type Options struct {
	// Now and Sleep are the clock; nil: the real clock.
	Now   func() time.Time
	Sleep func(context.Context, time.Duration) error
	// Seed determines random values.
	Seed uint64
	// OnBug is called with bugs of the stand-in: a method that it does not implement, or a response
	// that the vendor's description forbids. May be nil; it must not call the stand-in.
	OnBug func(error)
}

// API is a cloud's API as its stand-in plays it.
type API struct {
	// Route returns the call that a request makes, or an error if the API has no such method. It may be
	// called while another request is handled.
	Route func(*http.Request) (Call, error)
	// Refuse returns the response for an error.
	Refuse func(error) Answer
	// Header adds the headers of every response; nil: there are none.
	Header func(http.Header)
	// Usual is the error of a fault without its own.
	Usual error
}

// Call is one request for a method. Its functions are called while no other request is handled.
type Call interface {
	// Method returns the requested method.
	Method() Method
	// Check returns an error if the description forbids the request, or the caller has no permission.
	// The call then has no effect, and no fault applies to it.
	Check(body []byte) error
	// Play carries out the call and returns its response, which it has judged.
	Play(Fate) (Answer, error)
}

// Method is a method of the API.
type Method struct {
	// ID identifies it for faults and counts, such as POST /servers.
	ID string
	// Writes is false if calls change nothing. Starts reports that calls start an operation, which
	// ends later.
	Writes, Starts bool
}

// Answer is a response.
type Answer struct {
	Status int         // 0: 200, or 204 without a body
	Header http.Header // those of this response alone
	Body   any         // sent as JSON; nil: there is none
}

// Server handles the requests of a stand-in. Functions of calls and events are called one at a time;
// those of its methods that say so may be called only by them.
type Server struct {
	// Random is the source of random values, for calls and events only.
	Random *rand.Rand

	o   Options
	api API

	mu       sync.Mutex
	now      time.Time
	events   []*event
	faults   []*Fault
	requests map[string]int
	onStep   []func()
}

// New returns a server without methods of its own.
func New(o Options, api API) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Sleep == nil {
		o.Sleep = clock.Sleep
	}
	return &Server{o: o, api: api, now: o.Now(), requests: map[string]int{}, Random: rand.New(rand.NewPCG(o.Seed, 0))}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a, lost := s.answer(w.Header(), r)
	if lost {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), a.Header)
	if a.Body == nil {
		if a.Status == 0 {
			a.Status = http.StatusNoContent
		}
		w.WriteHeader(a.Status)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	if a.Status != 0 {
		w.WriteHeader(a.Status)
	}
	_ = json.NewEncoder(w).Encode(a.Body) // if it fails, the client is gone
}

// answer returns the response to a request, and whether it must be lost.
func (s *Server) answer(h http.Header, r *http.Request) (a Answer, lost bool) {
	call, err := s.api.Route(r)
	var body []byte
	if err == nil {
		body, err = io.ReadAll(r.Body)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runDue(r.Context())
	if err == nil {
		a, lost, err = s.play(r.Context(), call, body)
	}
	if err != nil {
		a = s.api.Refuse(err)
	}
	if s.api.Header != nil {
		s.api.Header(h)
	}
	s.step()
	return a, lost
}

// play carries out a call, with the fault that applies to it.
func (s *Server) play(ctx context.Context, call Call, body []byte) (a Answer, lost bool, err error) {
	m := call.Method()
	s.requests[m.ID]++
	if err := call.Check(body); err != nil {
		return Answer{}, false, err
	}
	f := s.takeFault(m)
	if f.Meanwhile != nil {
		s.mu.Unlock()
		f.Meanwhile()
		s.mu.Lock()
		s.runDue(ctx)
	}
	fate := Fate{Delay: f.Delay}
	switch {
	case f.When == Before, f.When == Inside && !m.Starts:
		return Answer{}, false, f.Error
	case f.When == Inside:
		fate.Fails = f.Error
	}
	a, err = call.Play(fate)
	if err == nil && (f.When == After || f.When == Lost) {
		return a, f.When == Lost, f.Error
	}
	return a, false, err
}

// Bug reports a bug of the stand-in, and returns it.
func (s *Server) Bug(err error) error {
	if s.o.OnBug != nil {
		s.o.OnBug(err)
	}
	return err
}

// Requests returns the number of calls so far, by the method's ID.
func (s *Server) Requests() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.requests)
}

// Do runs the events that are due, then calls f while no request is handled.
func (s *Server) Do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runDue(context.Background())
	f()
	s.step()
}
