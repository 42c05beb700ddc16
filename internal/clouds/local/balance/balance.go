// Package balance is a TCP load balancer that asks its backends for their
// health: a backend that does not answer gets no more connections and loses
// those it has; one that answers that it is not ready, or late, keeps what it has.
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
	"strconv"
	"sync"
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
	// interval is the time between two checks of a backend, and patience how long one may take.
	interval = 500 * time.Millisecond
	patience = time.Second
	dialing  = 2 * time.Second
	// misses is how many checks in a row may be late before a backend counts as
	// silent. On a host that has too much to do all backends are late at times, and
	// clients that all come anew are the last thing it needs.
	misses = 3
)

// health of a backend.
type health int

const (
	silent   health = iota // it does not answer
	unready                // it answers that it should get no more
	ready                  // it answers that it is ready
	untested               // it was not asked yet
	late                   // it did not answer in time
)

// settle says what an answer means after so many that were late, and how many are now.
func settle(h health, missed int) (health, int) {
	switch {
	case h != late:
		return h, 0
	case missed+1 >= misses:
		return silent, missed + 1
	}
	return unready, missed + 1
}

// failed is the health of a backend with whom a try failed so.
func failed(err error) health {
	var n net.Error
	if errors.As(err, &n) && n.Timeout() {
		return late
	}
	return silent
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
	health health
	conns  map[net.Conn]bool // to the backend and from its clients
	cancel context.CancelFunc
}

// Serve balances what connects to the listener, until Close.
func Serve(l net.Listener, f Front, log *slog.Logger) *Server {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{front: f, log: log, ctx: ctx, cancel: cancel, listen: l}
	s.wg.Go(s.accept)
	return s
}

// Close ends every connection and returns when nothing is under way.
func (s *Server) Close() {
	s.cancel()
	s.listen.Close() // nothing is left to do with an error
	s.SetBackends(nil)
	s.wg.Wait()
}

// SetBackends says which hosts serve from now on. One that is new is asked for
// its health at once; one that no longer serves loses its connections.
func (s *Server) SetBackends(hosts []string) {
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
			b = &backend{host: h, health: untested, conns: map[net.Conn]bool{}, cancel: cancel}
			s.wg.Go(func() { s.watch(ctx, b) })
		}
		delete(old, h)
		if b != nil {
			s.backends = append(s.backends, b)
		}
	}
	for _, b := range old {
		b.cancel()
		b.hangUp()
	}
}

// hangUp ends the backend's connections. The caller holds the lock.
func (b *backend) hangUp() {
	for c := range b.conns {
		c.Close() // whoever reads it finds out
	}
	clear(b.conns)
}

// watch asks a backend for its health until ctx ends.
func (s *Server) watch(ctx context.Context, b *backend) {
	client := &http.Client{Timeout: patience, Transport: &http.Transport{
		// The check carries no secret and only asks whether anybody is there:
		// clients verify the certificate themselves, end to end.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
	}}
	defer client.CloseIdleConnections()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for missed := 0; ; {
		h := s.ask(ctx, client, b.host)
		if ctx.Err() != nil {
			return
		}
		h, missed = settle(h, missed)
		s.found(b, h)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (s *Server) ask(ctx context.Context, client *http.Client, host string) health {
	if s.front.Check == "" {
		c, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(s.front.Target)))
		if err != nil {
			return failed(err)
		}
		c.Close() // that it was accepted is all
		return ready
	}
	u, err := url.Parse(s.front.Check)
	if err != nil {
		return silent
	}
	u.Host = net.JoinHostPort(host, u.Port())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return silent
	}
	answer, err := client.Do(r)
	if err != nil {
		client.CloseIdleConnections()
		return failed(err)
	}
	io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<16)) // so that the connection can serve again
	answer.Body.Close()                                     // read
	if answer.StatusCode != http.StatusOK {
		return unready
	}
	return ready
}

// found notes what a backend answered.
func (s *Server) found(b *backend, h health) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.health != h {
		s.log.Info("health of a backend", "port", s.front.Port, "backend", b.host, "ready", h == ready, "answers", h != silent)
	}
	b.health = h
	if h == silent {
		b.hangUp()
	}
}

// refused notes why a backend did not take a connection. One that is late is for
// the checks to judge, which may have found it silent by now.
func (s *Server) refused(b *backend, err error) {
	if failed(err) == silent {
		s.found(b, silent)
	}
}

// pick chooses a backend for a connection, those that are ready in turn. When
// none is, one that may be reached serves: a client's own error is better than none.
func (s *Server) pick(tried map[*backend]bool) *backend {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, least := range []health{ready, unready} {
		for i := range s.backends {
			b := s.backends[(s.next+i)%len(s.backends)]
			if (b.health == least || least == unready && b.health == untested) && !tried[b] {
				s.next = (s.next + i + 1) % len(s.backends)
				return b
			}
		}
	}
	return nil
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
	tried := map[*backend]bool{}
	for {
		b := s.pick(tried)
		if b == nil {
			return
		}
		tried[b] = true
		d := net.Dialer{Timeout: dialing}
		c, err := d.DialContext(s.ctx, "tcp", net.JoinHostPort(b.host, strconv.Itoa(s.front.Target)))
		if err != nil {
			s.refused(b, err)
			continue
		}
		if s.hold(b, client, c) {
			join(client, c)
			s.release(b, client, c)
		}
		c.Close() // both ends are done
		return
	}
}

// hold notes a backend's connections, unless it no longer serves.
func (s *Server) hold(b *backend, conns ...net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.backends {
		if x == b {
			for _, c := range conns {
				b.conns[c] = true
			}
			return true
		}
	}
	return false
}

func (s *Server) release(b *backend, conns ...net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range conns {
		delete(b.conns, c)
	}
}

// join copies both ways until both ends have said all they have to say.
func join(a, b net.Conn) {
	var wg sync.WaitGroup
	oneWay := func(to, from net.Conn) {
		io.Copy(to, from) // an end of either is the end of this way
		if t, ok := to.(*net.TCPConn); ok {
			t.CloseWrite() // the other may be closed already
		}
	}
	wg.Go(func() { oneWay(a, b) })
	oneWay(b, a)
	wg.Wait()
}
