// Package proxy stands between a program under test and a server that plays a cloud.
// It adds latency, counts requests, and does what networks and clouds do at their
// worst: cut connections, throttle, answer from the past.
//
// It is for tests alone. It must not know any cloud, nor what the program under test is.
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

// Call says what one request asks for.
type Call struct {
	// Name is the service and the action, as in the API's reference: ec2.DescribeVpcs.
	Name string
	// Write says that the call changes something, and Lags that its answer may be of the past.
	Write, Lags bool
	// Throttled is the answer of a service that is asked too often.
	Throttled Answer
}

// Dialect reads from a request what it asks for.
type Dialect func(r *http.Request, body []byte) Call

// Answer is a response of a server, whole.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Proxy forwards every request to one server. Its methods may be used at any time.
type Proxy struct {
	// URL is what the program under test takes for the server.
	URL string

	target  string
	dialect Dialect
	client  *http.Client

	mu      sync.Mutex
	latency time.Duration
	counts  map[string]int
	writes  int
	cut     Cut
	isCut   bool
	percent int
	seed    uint64
	lag     int
	past    map[string]*past
	held    *hold
}

// hold is a call that has to wait.
type hold struct {
	call              string
	once              sync.Once
	reached, released chan struct{}
}

// Cut says where the connection breaks.
type Cut struct {
	// At is the number of the write, counted from 1 since the last Reset, at which
	// the connection is cut; 0 means never.
	At int
	// After lets the write reach the server and drops its answer. Otherwise it does not arrive.
	After bool
	// Once cuts this connection only. Otherwise every request fails from then on, until Heal.
	Once bool
	// Then is called once at the cut, before the client sees it: the place to kill
	// the program under test. May be nil.
	Then func()
}

// New starts a proxy before the server at target, for as long as the test runs.
func New(t testing.TB, target string, dialect Dialect) *Proxy {
	t.Helper()
	p := &Proxy{
		target: strings.TrimSuffix(target, "/"), dialect: dialect,
		client: &http.Client{
			Transport:     &http.Transport{MaxIdleConnsPerHost: 512, DisableCompression: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		counts: map[string]int{},
		past:   map[string]*past{},
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

// SetLatency sets what each request waits before it is forwarded; requests wait side by side.
func (p *Proxy) SetLatency(d time.Duration) { p.set(func() { p.latency = d }) }

// SetCut sets where the connection breaks.
func (p *Proxy) SetCut(c Cut) { p.set(func() { p.cut, p.isCut = c, false }) }

// Heal ends a cut.
func (p *Proxy) Heal() { p.SetCut(Cut{}) }

// Throttle answers this share of the requests, in percent, with an error that says
// to come back later. Which of the calls of one action are hit depends on the seed alone.
func (p *Proxy) Throttle(percent int, seed uint64) {
	p.set(func() { p.percent, p.seed = percent, seed })
}

// Lag answers the first n repetitions of a listing or description after a write as before it.
func (p *Proxy) Lag(n int) { p.set(func() { p.lag, p.past = n, map[string]*past{} }) }

// Hold lets every request of one call, such as "ec2.CreateVpc", wait before it is
// forwarded until release is called, which must be done. reached is closed when the
// first has come.
func (p *Proxy) Hold(call string) (reached <-chan struct{}, release func()) {
	h := &hold{call: call, reached: make(chan struct{}), released: make(chan struct{})}
	p.set(func() { p.held = h })
	return h.reached, sync.OnceFunc(func() {
		p.set(func() { p.held = nil })
		close(h.released)
	})
}

// wait lets a request wait if it is of the call, and reports whether its client is still there.
func (h *hold) wait(r *http.Request, call Call) bool {
	if h == nil || h.call != call.Name {
		return true
	}
	h.once.Do(func() { close(h.reached) })
	select {
	case <-h.released:
		return true
	case <-r.Context().Done():
		return false
	}
}

// Reset sets the counters to zero; latency and faults stay.
func (p *Proxy) Reset() { p.set(func() { p.counts, p.writes = map[string]int{}, 0 }) }

func (p *Proxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// Counts returns the number of requests by call, such as "ec2.DescribeVpcs", those answered with a fault too.
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

// Writes returns the number of requests that were to change something and were not throttled.
func (p *Proxy) Writes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.writes
}

// Report is the counts as text, a line for each call.
func (p *Proxy) Report() string {
	counts := p.Counts()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&b, "%6d %s\n", counts[name], name)
	}
	return b.String()
}

// past is an answer that may be given again.
type past struct {
	Answer

	write  int // the number of writes before it
	served int // how often it was given again
}

func (a Answer) send(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.Header)
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body) // a client that has gone misses nothing
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the client went away
	}
	call := p.dialect(r, body)
	fate := p.decide(call)
	if !wait(r, fate.latency) || !fate.held.wait(r, call) {
		panic(http.ErrAbortHandler)
	}
	if fate.throttled {
		call.Throttled.send(w)
		return
	}
	if fate.dead || (fate.cut && !fate.after) {
		fate.end()
	}
	print := r.Method + r.URL.String() + string(body)
	if old := p.remembered(call, print); old != nil {
		old.send(w)
		return
	}
	a, err := p.forward(r, body)
	if fate.cut {
		fate.end()
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	p.remember(call, print, a)
	a.send(w)
}

// fate is what happens to one request.
type fate struct {
	latency                     time.Duration
	throttled, dead, cut, after bool
	then                        func()
	held                        *hold
}

// end breaks the connection without an answer.
func (f fate) end() {
	if f.then != nil {
		f.then()
	}
	panic(http.ErrAbortHandler)
}

// decide counts a request and says what happens to it.
func (p *Proxy) decide(call Call) fate {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[call.Name]++
	f := fate{latency: p.latency, dead: p.isCut, held: p.held}
	if p.percent > 0 {
		h := fnv.New64a()
		_, _ = fmt.Fprint(h, p.seed, call.Name, p.counts[call.Name]) // a hash never fails
		f.throttled = mix(h.Sum64())%100 < uint64(p.percent)
	}
	if f.throttled || f.dead || !call.Write {
		return f
	}
	p.writes++
	if p.cut.At == p.writes {
		f.cut, f.after, f.then = true, p.cut.After, p.cut.Then
		p.isCut = !p.cut.Once
	}
	return f
}

// mix spreads the bits of a weak hash (the finalizer of MurmurHash3).
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// wait lets a request lie for a while, and reports whether its client is still there.
func wait(r *http.Request, d time.Duration) bool {
	return d <= 0 || clock.Sleep(r.Context(), d) == nil
}

// forward asks the server. The name of the host stays the client's, which is part of its signature.
func (p *Proxy) forward(r *http.Request, body []byte) (*past, error) {
	// A request that was sent is carried out even if its client goes away.
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
	defer in.Body.Close() // it was only read
	data, err := io.ReadAll(in.Body)
	if err != nil {
		return nil, err
	}
	in.Header.Del("Connection")
	in.Header.Del("Transfer-Encoding")
	return &past{Answer: Answer{in.StatusCode, in.Header, data}}, nil
}

// remembered is the answer from before the last write, while the lag lasts.
func (p *Proxy) remembered(call Call, print string) *past {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.past[print]
	if !call.Lags || old == nil || old.write == p.writes || old.served >= p.lag {
		return nil
	}
	old.served++
	return old
}

// remember keeps an answer for later.
func (p *Proxy) remember(call Call, print string, a *past) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lag > 0 && call.Lags {
		a.write = p.writes
		p.past[print] = a
	}
}
