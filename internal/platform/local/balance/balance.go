// Package balance is a TCP load balancer that asks its backends for their health. New connections
// go to ready backends. Open connections of a backend that says that it should get no more are
// drained; connections of a backend that stalls or is gone are cut, so that clients go elsewhere,
// unless there is nowhere to go.
//
// It must not know what the backends are.
package balance

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Front is one port that is balanced.
type Front struct {
	// Port is where clients connect, Target the port of the backends.
	Port, Target int
	// Check is what a ready backend answers with status 200: a URL without the
	// host's name, such as http://:3990/readyz. Empty: a backend that accepts a
	// connection is ready.
	Check string
}

const (
	// interval is the time between two checks of a backend, and checkTime how long one
	// may take; one that takes longer is asked again.
	interval  = 250 * time.Millisecond
	checkTime = time.Second
	// glance is the time between two looks at what was heard, and between two checks while
	// another backend is late.
	glance = 50 * time.Millisecond
)

// dialing is how long a backend may take to accept a connection, before the next is tried,
// and when none was that quick. The kernels are on one host: an answer takes no time.
var dialing = [...]time.Duration{150 * time.Millisecond, 2 * time.Second}

// said is what a try that failed says of a backend; unasked: nothing.
func said(err error) word {
	var n net.Error
	switch {
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return gone
	case errors.As(err, &n) && n.Timeout():
		return unasked
	}
	return closed
}

// Server balances one front.
type Server struct {
	front  Front
	log    *slog.Logger
	ctx    context.Context // of the server's whole life, ended by Close
	cancel context.CancelFunc
	wg     sync.WaitGroup
	listen net.Listener

	mu       sync.Mutex
	backends []*backend
	next     int
}

type backend struct {
	host   string
	record record
	told   string // of its health, last
	links  map[*link]bool
	hurry  chan struct{} // asks for a check before its time
	cancel context.CancelFunc
}

// Serve balances what connects to the listener, until Close.
func Serve(l net.Listener, f Front, log *slog.Logger) *Server {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{front: f, log: log, ctx: ctx, cancel: cancel, listen: l}
	s.wg.Go(s.accept)
	s.wg.Go(s.tend)
	return s
}

// Close ends every connection and returns when nothing is under way.
func (s *Server) Close() {
	s.cancel()
	s.listen.Close() // nothing is left to do with an error
	s.SetBackends(nil)
	s.wg.Wait()
}

// SetBackends sets the hosts that serve from now on. A new host is asked for its health at once; a
// removed one loses its connections. Hosts in leaving, which are among the hosts, get no new
// connections and are drained, as far as another is ready.
func (s *Server) SetBackends(hosts []string, leaving ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := map[string]*backend{}
	for _, b := range s.backends {
		old[b.host] = b
	}
	s.backends = nil
	for _, h := range hosts {
		b := old[h]
		if b == nil && s.ctx.Err() == nil {
			ctx, cancel := context.WithCancel(s.ctx)
			b = &backend{host: h, links: map[*link]bool{}, hurry: make(chan struct{}, 1), cancel: cancel}
			s.wg.Go(func() { s.watch(ctx, b) })
		}
		delete(old, h)
		if b != nil {
			b.record.leaves = slices.Contains(leaving, h)
			s.backends = append(s.backends, b)
		}
	}
	for _, b := range old {
		b.cancel()
		b.hangUp()
	}
}

// Drained reports whether a backend that leaves has no connections, or only such as have
// nowhere else to go.
func (s *Server) Drained(host string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	links, elsewhere := 0, false
	for _, b := range s.backends {
		if b.host == host {
			links = len(b.links)
		}
		elsewhere = elsewhere || b.record.sound(now)
	}
	return links == 0 || !elsewhere
}

// hangUp ends the backend's connections. The caller holds the lock.
func (b *backend) hangUp() {
	for l := range b.links {
		l.cut()
	}
	clear(b.links)
}

// watch asks a backend for its health until ctx ends.
func (s *Server) watch(ctx context.Context, b *backend) {
	client := &http.Client{Timeout: checkTime, Transport: &http.Transport{
		// The check carries no secret and only asks whether anybody is there:
		// clients verify the certificate themselves, end to end.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
	}}
	defer client.CloseIdleConnections()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		s.note(b, func(r record) record { return r.ask(time.Now()) })
		w := s.ask(ctx, client, b.host)
		if ctx.Err() != nil {
			return
		}
		if w != unasked {
			s.note(b, func(r record) record { return r.answer(w, time.Now()) })
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-b.hurry:
		}
	}
}

// ask returns what a backend says; unasked: it said nothing in time.
func (s *Server) ask(ctx context.Context, client *http.Client, host string) word {
	if s.front.Check == "" {
		c, err := (&net.Dialer{Timeout: checkTime}).DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(s.front.Target)))
		if err != nil {
			return said(err)
		}
		c.Close() // that it was accepted is all
		return ready
	}
	u, err := url.Parse(s.front.Check)
	if err != nil {
		return closed
	}
	u.Host = net.JoinHostPort(host, u.Port())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return closed
	}
	answer, err := client.Do(r)
	if err != nil {
		client.CloseIdleConnections()
		return said(err)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<16)) // so that the connection can serve again
	answer.Body.Close()                                            // read
	if answer.StatusCode != http.StatusOK {
		return unready
	}
	return ready
}

func (s *Server) note(b *backend, change func(record) record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.record = change(b.record)
}

// tend drains and cuts connections as the records of their backends say.
func (s *Server) tend() {
	ticker := time.NewTicker(glance)
	defer ticker.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-ticker.C:
			s.look(time.Now())
		}
	}
}

func (s *Server) look(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	records, fates := judge(s.records(), now)
	hurry := urgent(records, now)
	for i, b := range s.backends {
		b.record = records[i]
		if hurry {
			select {
			case b.hurry <- struct{}{}:
			default: // it is asked to already
			}
		}
		s.tell(b, fates[i], now)
		switch fates[i] {
		case cut:
			b.hangUp()
		case drain:
			for l := range b.links {
				l.drain(now)
			}
		}
	}
}

// records returns the backends' records. The caller holds the lock.
func (s *Server) records() []record {
	out := make([]record, len(s.backends))
	for i, b := range s.backends {
		out[i] = b.record
	}
	return out
}

// tell logs how a backend is, when that changed. The caller holds the lock.
func (s *Server) tell(b *backend, f fate, now time.Time) {
	state := [...]string{"not asked yet", "gone", "closed", "not ready", "ready"}[b.record.word]
	if b.record.silent(now) && b.record.word != unready {
		state = "silent"
	}
	is := state + [...]string{"", ", its connections are drained", ", its connections are cut"}[f]
	if is != b.told {
		s.log.Info("health of a backend", "port", s.front.Port, "backend", b.host, "is", is, "connections", len(b.links), "patience", b.record.patience)
		b.told = is
	}
}

// pick chooses a backend for a connection.
func (s *Server) pick(tried map[*backend]bool) *backend {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := choose(s.records(), s.next, func(i int) bool { return tried[s.backends[i]] }, time.Now())
	if i < 0 {
		return nil
	}
	s.next = i + 1
	return s.backends[i]
}

func (s *Server) accept() {
	for {
		c, err := s.listen.Accept()
		switch {
		case s.ctx.Err() != nil:
			return
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			s.log.Error("accept a connection", "port", s.front.Port, "error", err)
			select { // too many files are open, say
			case <-s.ctx.Done():
				return
			case <-time.After(interval / 5):
			}
			continue
		}
		s.wg.Go(func() { s.serve(c) })
	}
}

// serve connects a client to the first backend that takes the connection.
func (s *Server) serve(client net.Conn) {
	defer client.Close() // both ends are done
	for _, limit := range dialing {
		tried := map[*backend]bool{}
		for b := s.pick(tried); b != nil; b = s.pick(tried) {
			tried[b] = true
			d := net.Dialer{Timeout: limit}
			c, err := d.DialContext(s.ctx, "tcp", net.JoinHostPort(b.host, strconv.Itoa(s.front.Target)))
			if s.ctx.Err() == nil && err != nil {
				if w := said(err); w != unasked {
					s.note(b, func(r record) record { return r.hear(w, time.Now()) })
				}
				continue
			}
			if err == nil {
				s.pass(b, &link{client: client, backend: c})
			}
			return
		}
	}
}

// pass joins a link until both its ends are done, unless the backend no longer serves.
func (s *Server) pass(b *backend, l *link) {
	defer l.backend.Close() // both ends are done
	s.mu.Lock()
	serves := slices.Contains(s.backends, b)
	if serves {
		b.links[l] = true
	}
	s.mu.Unlock()
	if !serves {
		return
	}
	l.join()
	s.mu.Lock()
	delete(b.links, l)
	s.mu.Unlock()
}
