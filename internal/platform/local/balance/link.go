package balance

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// pause is how long an idle connection has been silent.
	pause = 100 * time.Millisecond
	// closeTimeout is how long the ends of a connection have to close it when asked to.
	closeTimeout = time.Second
)

// link joins a client's connection and the one to its backend.
type link struct {
	client, backend net.Conn
	// asks and answers are when the client and the backend last sent something, in
	// nanoseconds since 1970; 0: never.
	asks, answers atomic.Int64
	// ended is when both ends were asked to close; zero: they were not. Guarded by the
	// server's lock.
	ended time.Time
}

// copyBoth copies in both directions until both ends have finished sending.
func (l *link) copyBoth() {
	var wg sync.WaitGroup
	oneWay := func(to, from net.Conn, when *atomic.Int64) {
		_, _ = io.Copy(timedWriter{to, when}, from) // an error or EOF on either side ends this direction
		closeWrite(to)
	}
	wg.Go(func() { oneWay(l.client, l.backend, &l.answers) })
	oneWay(l.backend, l.client, &l.asks)
	wg.Wait()
}

// timedWriter records the time of every write.
type timedWriter struct {
	io.Writer
	when *atomic.Int64
}

func (n timedWriter) Write(p []byte) (int, error) {
	n.when.Store(time.Now().UnixNano())
	return n.Writer.Write(p)
}

// closeWrite closes the sending direction.
func closeWrite(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.CloseWrite() // it may be closed already
	}
}

// isIdle reports whether the backend sent last, some time ago: then, as far as can be told
// from outside of TLS, the client is not waiting for an answer.
func (l *link) isIdle(now time.Time) bool {
	answered := l.answers.Load()
	return answered > 0 && answered >= l.asks.Load() && now.Sub(time.Unix(0, answered)) >= pause
}

// drain closes the link if it is idle: first in a way that lets both ends close
// theirs, and if they do not do so in time, forcibly.
func (l *link) drain(now time.Time) {
	switch {
	case !l.ended.IsZero() && now.Sub(l.ended) >= closeTimeout:
		l.cut()
	case l.ended.IsZero() && l.isIdle(now):
		l.ended = now
		closeWrite(l.client)
		closeWrite(l.backend)
	}
}

func (l *link) cut() {
	l.client.Close() // the reader notices
	l.backend.Close()
}
