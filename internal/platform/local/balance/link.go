package balance

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// pause is how long nothing is said on a connection that is idle.
	pause = 100 * time.Millisecond
	// farewell is how long the ends of a connection that was asked to end have for it.
	farewell = time.Second
)

// link is a client's connection and that to its backend, joined.
type link struct {
	client, backend net.Conn
	// asks and answers are when the client, and when the backend, said something
	// last, in nanoseconds since 1970; 0: it has not.
	asks, answers atomic.Int64
	// ended is when both were asked to end; zero: they were not. Under the server's lock.
	ended time.Time
}

// join copies both ways until both ends have said all they have to say.
func (l *link) join() {
	var wg sync.WaitGroup
	oneWay := func(to, from net.Conn, when *atomic.Int64) {
		_, _ = io.Copy(noting{to, when}, from) // an end of either is the end of this way
		finish(to)
	}
	wg.Go(func() { oneWay(l.client, l.backend, &l.answers) })
	oneWay(l.backend, l.client, &l.asks)
	wg.Wait()
}

// noting notes when something is written.
type noting struct {
	io.Writer
	when *atomic.Int64
}

func (n noting) Write(p []byte) (int, error) {
	n.when.Store(time.Now().UnixNano())
	return n.Writer.Write(p)
}

// finish says that nothing more is said.
func finish(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.CloseWrite() // it may be closed already
	}
}

// idle reports whether the backend had the last word, some time ago: nobody waits for an
// answer then, as far as one can tell from outside of TLS.
func (l *link) idle(now time.Time) bool {
	answered := l.answers.Load()
	return answered > 0 && answered >= l.asks.Load() && now.Sub(time.Unix(0, answered)) >= pause
}

// drain ends the link if it is idle, in such a way that both ends can end
// theirs, and at once if they did not in time.
func (l *link) drain(now time.Time) {
	switch {
	case !l.ended.IsZero() && now.Sub(l.ended) >= farewell:
		l.cut()
	case l.ended.IsZero() && l.idle(now):
		l.ended = now
		finish(l.client)
		finish(l.backend)
	}
}

func (l *link) cut() {
	l.client.Close() // the reader finds out
	l.backend.Close()
}
