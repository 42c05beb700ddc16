// Package balance is a TCP load balancer with health checks. New connections go to ready backends.
// Open connections of a backend that reports that it is not ready are drained; connections of a
// backend that stalls or is gone are cut, so that clients reconnect elsewhere, unless no other
// backend is ready.
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

// Front is one load-balanced port.
type Front struct {
	// Port is where clients connect, Target is the backends' port.
	Port, Target int
	// Check is the URL, without a host name, for which a ready backend returns status 200, such as
	// http://:3990/readyz. Empty: a backend that accepts a connection is ready.
	Check string
}

const (
	// interval is the time between two checks of a backend, and checkTime the timeout
	// of a check; one that times out is repeated.
	interval  = 250 * time.Millisecond
	checkTime = time.Second
	// tick is the time between two evaluations of the policy, and between two checks
	// while another backend is late.
	tick = 20 * time.Millisecond
)

// dialTimeouts is how long a backend may take to accept a connection before the next is tried:
// in the first round, and in the second if none was that quick. All are on one host, so an
// answer takes almost no time.
var dialTimeouts = [...]time.Duration{150 * time.Millisecond, 2 * time.Second}

// classifyDialError classifies a failed attempt: what it tells about the backend, or unchecked for nothing.
func classifyDialError(err error) status {
	var n net.Error
	switch {
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return unreachable
	case errors.As(err, &n) && n.Timeout():
		return unchecked
	}
	return closed
}

// Server balances the load of one front.
type Server struct {
	front    Front
	log      *slog.Logger
	ctx      context.Context // of the server's whole life, cancelled by Close
	cancel   context.CancelFunc
	wg       sync.WaitGroup
	listener net.Listener

	mu       sync.Mutex
	backends []*backend
	next     int
}

type backend struct {
	host     string
	record   record
	logged   string // health that was logged last
	links    map[*link]bool
	checkNow chan struct{} // requests a check before its time
	cancel   context.CancelFunc
}

// Serve balances the connections to the listener until Close is called.
func Serve(l net.Listener, f Front, log *slog.Logger) *Server {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{front: f, log: log, ctx: ctx, cancel: cancel, listener: l}
	s.wg.Go(s.accept)
	s.wg.Go(s.enforcePolicy)
	return s
}

// Close closes every connection and returns when everything has stopped.
func (s *Server) Close() {
	s.cancel()
	s.listener.Close() // an error has no consequence here
	s.SetBackends(nil)
	s.wg.Wait()
}

// SetBackends sets the hosts that serve from now on. A new host is checked at once; a removed one
// loses its connections. Hosts in leaving, which are also in hosts, get no new connections and are
// drained, as long as another is ready.
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
			b = &backend{host: h, links: map[*link]bool{}, checkNow: make(chan struct{}, 1), cancel: cancel}
			s.wg.Go(func() { s.watch(ctx, b) })
		}
		delete(old, h)
		if b != nil {
			b.record.leaving = slices.Contains(leaving, h)
			s.backends = append(s.backends, b)
		}
	}
	for _, b := range old {
		b.cancel()
		b.closeLinks()
	}
}

// Drained reports whether a backend that leaves has no connections, or only connections
// that have nowhere else to go.
func (s *Server) Drained(host string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	links, elsewhere := 0, false
	for _, b := range s.backends {
		if b.host == host {
			links = len(b.links)
		}
		elsewhere = elsewhere || b.record.isHealthy(now)
	}
	return links == 0 || !elsewhere
}

// closeLinks closes the backend's connections. The caller holds the lock.
func (b *backend) closeLinks() {
	for l := range b.links {
		l.cut()
	}
	clear(b.links)
}

// watch checks a backend's health until ctx is done.
func (s *Server) watch(ctx context.Context, b *backend) {
	client := &http.Client{Timeout: checkTime, Transport: &http.Transport{
		// The check carries no secret and only finds out whether the backend responds:
		// clients verify the certificate themselves, end to end.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
	}}
	defer client.CloseIdleConnections()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		s.updateRecord(b, func(r record) record { return r.startCheck(time.Now()) })
		w := s.check(ctx, client, b.host)
		if ctx.Err() != nil {
			return
		}
		if w != unchecked {
			s.updateRecord(b, func(r record) record { return r.finishCheck(w, time.Now()) })
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-b.checkNow:
		}
	}
}

// check returns the result of a health check; unchecked if there was no answer in time.
func (s *Server) check(ctx context.Context, client *http.Client, host string) status {
	if s.front.Check == "" {
		c, err := (&net.Dialer{Timeout: checkTime}).DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(s.front.Target)))
		if err != nil {
			return classifyDialError(err)
		}
		c.Close() // only that it was accepted matters
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
		return classifyDialError(err)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<16)) // so that the connection can be reused
	answer.Body.Close()                                            // it was read
	if answer.StatusCode != http.StatusOK {
		return notReady
	}
	return ready
}

func (s *Server) updateRecord(b *backend, change func(record) record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.record = change(b.record)
}

// enforcePolicy drains and cuts connections as the policy decides.
func (s *Server) enforcePolicy() {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-ticker.C:
			s.applyPolicy(time.Now())
		}
	}
}

func (s *Server) applyPolicy(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	records, fates := decide(s.records(), now)
	hurry := isUrgent(records, now)
	for i, b := range s.backends {
		b.record = records[i]
		if hurry {
			select {
			case b.checkNow <- struct{}{}:
			default: // a check is requested already
			}
		}
		s.logState(b, fates[i], now) // before its connections are closed, which it reports
		switch fates[i] {
		case cut:
			b.closeLinks()
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

// logState logs a backend's health and what happens to its connections, if it has any, when that changed. The
// caller holds the lock.
func (s *Server) logState(b *backend, f action, now time.Time) {
	state := [...]string{"not asked yet", "gone", "closed", "not ready", "ready"}[b.record.status]
	if b.record.isSilent(now) && b.record.status != notReady {
		state = "silent"
	}
	text := state
	if len(b.links) > 0 {
		text += [...]string{"", ", its connections are drained", ", its connections are cut"}[f]
	}
	if text != b.logged {
		s.log.Info("health of a backend", "port", s.front.Port, "backend", b.host, "is", text, "connections", len(b.links), "patience", b.record.patience)
		b.logged = text
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
		c, err := s.listener.Accept()
		switch {
		case s.ctx.Err() != nil:
			return
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			s.log.Error("accept a connection", "port", s.front.Port, "error", err)
			select { // for example, too many open files
			case <-s.ctx.Done():
				return
			case <-time.After(interval / 5):
			}
			continue
		}
		s.wg.Go(func() { s.serve(c) })
	}
}

// serve connects a client to the first backend that accepts the connection.
func (s *Server) serve(client net.Conn) {
	defer client.Close() // both ends are finished
	for _, limit := range dialTimeouts {
		tried := map[*backend]bool{}
		for b := s.pick(tried); b != nil; b = s.pick(tried) {
			tried[b] = true
			d := net.Dialer{Timeout: limit}
			c, err := d.DialContext(s.ctx, "tcp", net.JoinHostPort(b.host, strconv.Itoa(s.front.Target)))
			if s.ctx.Err() == nil && err != nil {
				if w := classifyDialError(err); w != unchecked {
					s.updateRecord(b, func(r record) record { return r.observe(w, time.Now()) })
				}
				continue
			}
			if err == nil {
				s.runLink(b, &link{client: client, backend: c})
			}
			return
		}
	}
}

// runLink runs a link until both its ends are finished, unless the backend no longer serves.
func (s *Server) runLink(b *backend, l *link) {
	defer l.backend.Close() // both ends are finished
	s.mu.Lock()
	serves := slices.Contains(s.backends, b)
	if serves {
		b.links[l] = true
	}
	s.mu.Unlock()
	if !serves {
		return
	}
	l.copyBoth()
	s.mu.Lock()
	delete(b.links, l)
	s.mu.Unlock()
}
