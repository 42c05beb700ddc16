// Package proxy is a proxy between a program under test and a server that emulates a cloud.
// It adds latency, counts requests, and simulates the worst of networks and clouds:
// broken connections, throttling, stale responses.
//
// It is for tests only. It must not know any cloud, nor what the program under test is.
package proxy

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kops.local/kops/internal/engine/clock"
)

// Call describes one request.
type Call struct {
	// Name is the service and the action, as in the API's reference: ec2.DescribeVpcs.
	Name string
	// Write means that the call changes something, and Lags that its response may be stale.
	Write, Lags bool
	// Refused returns the service's response to a request that it refuses.
	Refused func(Refusal) Answer
}

// Refusal is why a service refuses a request.
type Refusal int

// The reasons of a refusal.
const (
	Throttled Refusal = iota // there were too many requests
	Denied                   // the user has no permission
	OverQuota                // the account has as much as it may have
)

// Dialect parses a request into a Call.
type Dialect func(r *http.Request, body []byte) Call

// Answer is the complete response of a server.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Proxy forwards every request to one server. Its methods are safe for concurrent use.
type Proxy struct {
	// URL is the address that the program under test uses as the server's.
	URL string

	target  string
	dialect Dialect
	client  *http.Client

	mu             sync.Mutex
	latency        time.Duration
	counts         map[string]int
	writes         int
	cut            Cut
	broken         bool
	throttle, lose share
	refused        map[string]Refusal // by call
	lag            int
	answers        map[string]*pastAnswer
	hold           *heldCall
}

// share is a share of the calls of each action. Which calls are in it depends only on the seed.
type share struct {
	percent int
	seed    uint64
}

// heldCall is a call whose requests must wait.
type heldCall struct {
	call              string
	once              sync.Once
	reached, released chan struct{}
	forward           bool // set before released is closed
}

// Cut defines where the connection breaks.
type Cut struct {
	// At is the number of the write, counted from 1 since the last Reset, at which
	// the connection is cut; 0 means never.
	At int
	// After lets the write reach the server and drops the response. Otherwise the write does not arrive.
	After bool
	// Once breaks only this connection. Otherwise every request fails from then on, until Restore.
	Once bool
	// Then is called once at the cut, before the client sees it: the place to kill
	// the program under test. May be nil.
	Then func()
}

// New starts a proxy in front of the server at target, which runs until the test ends.
func New(t testing.TB, target string, dialect Dialect) *Proxy {
	t.Helper()
	p := &Proxy{
		target: strings.TrimSuffix(target, "/"), dialect: dialect,
		client: &http.Client{
			Transport:     &http.Transport{MaxIdleConnsPerHost: 512, DisableCompression: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		counts:  map[string]int{},
		answers: map[string]*pastAnswer{},
	}
	server := httptest.NewServer(p)
	p.URL = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		p.client.CloseIdleConnections()
	})
	return p
}

// SetLatency sets the delay of each request before it is forwarded; requests wait concurrently.
func (p *Proxy) SetLatency(d time.Duration) { p.set(func() { p.latency = d }) }

// SetCut sets where the connection breaks.
func (p *Proxy) SetCut(c Cut) { p.set(func() { p.cut, p.broken = c, false }) }

// Restore undoes a cut.
func (p *Proxy) Restore() { p.SetCut(Cut{}) }

// Throttle answers this percentage of the requests with a throttling error. Which of the calls
// of one action are affected depends only on the seed.
func (p *Proxy) Throttle(percent int, seed uint64) {
	p.set(func() { p.throttle = share{percent, seed} })
}

// Lose drops the responses to this percentage of the writes, which do reach the server. Which of the
// calls of one action are affected depends only on the seed.
func (p *Proxy) Lose(percent int, seed uint64) {
	p.set(func() { p.lose = share{percent, seed} })
}

// Refuse answers all requests of these calls, such as "ec2.CreateVpc", with a refusal, and lets the calls
// that it refused before pass.
func (p *Proxy) Refuse(why Refusal, calls ...string) {
	p.set(func() {
		p.refused = map[string]Refusal{}
		for _, c := range calls {
			p.refused[c] = why
		}
	})
}

// Lag makes the first n repetitions of a list or describe call after a write return the response from before it.
func (p *Proxy) Lag(n int) { p.set(func() { p.lag, p.answers = n, map[string]*pastAnswer{} }) }

// Hold delays every request of one call, such as "ec2.CreateVpc", until release is called,
// which is required. Then the requests are forwarded, or dropped, as if they had been lost on their
// way. reached is closed when the first request arrives.
func (p *Proxy) Hold(call string) (reached <-chan struct{}, release func(forward bool)) {
	h := &heldCall{call: call, reached: make(chan struct{}), released: make(chan struct{})}
	p.set(func() { p.hold = h })
	var once sync.Once
	return h.reached, func(forward bool) {
		once.Do(func() {
			p.set(func() { p.hold = nil })
			h.forward = forward
			close(h.released)
		})
	}
}

// wait delays a request if it is of the held call, and reports whether it is to be forwarded.
func (h *heldCall) wait(r *http.Request, call Call) bool {
	if h == nil || h.call != call.Name {
		return true
	}
	h.once.Do(func() { close(h.reached) })
	select {
	case <-h.released:
		return h.forward
	case <-r.Context().Done():
		return false
	}
}

// Reset resets the counters; latency and faults remain.
func (p *Proxy) Reset() { p.set(func() { p.counts, p.writes = map[string]int{}, 0 }) }

func (p *Proxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// Counts returns the number of requests by call, such as "ec2.DescribeVpcs", including those answered with a fault.
func (p *Proxy) Counts() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.counts)
}

// Requests returns the number of requests.
func (p *Proxy) Requests() int {
	n := 0
	for _, c := range p.Counts() {
		n += c
	}
	return n
}

// Writes returns the number of write requests that were not refused.
func (p *Proxy) Writes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.writes
}

// Report returns the counts as text, one line per call.
func (p *Proxy) Report() string {
	counts := p.Counts()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&b, "%6d %s\n", counts[name], name)
	}
	return b.String()
}

// pastAnswer is a response that may be repeated.
type pastAnswer struct {
	Answer

	write  int // the number of writes before it
	served int // how often it was repeated
}

func (a Answer) send(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.Header)
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body) // the client may have disconnected
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the client disconnected
	}
	call := p.dialect(r, body)
	fate := p.decide(call)
	if !wait(r, fate.latency) || !fate.hold.wait(r, call) {
		panic(http.ErrAbortHandler)
	}
	if fate.refused {
		call.Refused(fate.why).send(w)
		return
	}
	if fate.broken || (fate.cut && !fate.after) {
		fate.finish()
	}
	print := r.Method + r.URL.String() + string(body)
	if old := p.staleAnswer(call, print); old != nil {
		old.send(w)
		return
	}
	a, err := p.forward(r, body)
	if fate.cut {
		fate.finish()
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	p.remember(call, print, a)
	a.send(w)
}

// handling is the handling of one request.
type handling struct {
	latency                     time.Duration
	refused, broken, cut, after bool
	why                         Refusal
	then                        func()
	hold                        *heldCall
}

// finish closes the connection without a response.
func (f handling) finish() {
	if f.then != nil {
		f.then()
	}
	panic(http.ErrAbortHandler)
}

// decide counts a request and decides how it is handled.
func (p *Proxy) decide(call Call) handling {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[call.Name]++
	f := handling{latency: p.latency, broken: p.broken, hold: p.hold}
	if f.why, f.refused = p.refused[call.Name]; !f.refused {
		f.refused = p.throttle.has(call.Name, p.counts[call.Name]) // Throttled is the zero value
	}
	if f.refused || f.broken || !call.Write {
		return f
	}
	p.writes++
	switch {
	case p.cut.At == p.writes:
		f.cut, f.after, f.then = true, p.cut.After, p.cut.Then
		p.broken = !p.cut.Once
	case p.lose.has(call.Name, p.counts[call.Name]):
		f.cut, f.after = true, true
	}
	return f
}

// has reports whether the nth call of an action is in the share.
func (s share) has(call string, n int) bool {
	if s.percent == 0 {
		return false
	}
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, s.seed, call, n) // a hash never fails
	return mix(h.Sum64())%100 < uint64(s.percent)
}

// mix spreads the bits of a weak hash (the finalizer of MurmurHash3).
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// wait delays a request, and reports whether its client is still connected.
func wait(r *http.Request, d time.Duration) bool {
	return d <= 0 || clock.Sleep(r.Context(), d) == nil
}

// forward sends the request to the server. The Host header stays the client's, because it is signed.
func (p *Proxy) forward(r *http.Request, body []byte) (*pastAnswer, error) {
	// A request that was sent is completed even if its client disconnects.
	out, err := http.NewRequest(r.Method, p.target+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	out.Header, out.Host = r.Header.Clone(), r.Host
	out.Header.Del("Connection")
	in, err := p.client.Do(out)
	if err != nil {
		return nil, err
	}
	defer in.Body.Close() // only read
	data, err := io.ReadAll(in.Body)
	if err != nil {
		return nil, err
	}
	in.Header.Del("Connection")
	in.Header.Del("Transfer-Encoding")
	return &pastAnswer{Answer: Answer{in.StatusCode, in.Header, data}}, nil
}

// staleAnswer returns the response from before the last write, while the lag lasts.
func (p *Proxy) staleAnswer(call Call, print string) *pastAnswer {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.answers[print]
	if !call.Lags || old == nil || old.write == p.writes || old.served >= p.lag {
		return nil
	}
	old.served++
	return old
}

// remember stores a response for later.
func (p *Proxy) remember(call Call, print string, a *pastAnswer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lag > 0 && call.Lags {
		a.write = p.writes
		p.answers[print] = a
	}
}
