package balance

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// site is a backend on an address of its own; all have one port.
type site struct {
	host   string
	server *httptest.Server
	status atomic.Int32
}

// serveOn starts a backend that says its host's name, and whether it is ready with a status.
func serveOn(t *testing.T, host string, port int) *site {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		t.Skipf("SKIPPED, NOTHING WAS TESTED: this host has no address %s: %v", host, err)
	}
	s := &site{host: host}
	s.status.Store(http.StatusOK)
	s.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			w.WriteHeader(int(s.status.Load()))
			return
		}
		io.WriteString(w, host) // the client is the test
	}))
	s.server.Listener.Close() // the one that it made for itself
	s.server.Listener = l
	s.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.server.StartTLS()
	t.Cleanup(s.server.Close)
	return s
}

type bench struct {
	*testing.T
	*Server
	port     int // of the backends
	backends []*site
}

func newBench(t *testing.T, hosts ...string) *bench {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Skipf("SKIPPED, NOTHING WAS TESTED: this host has one loopback address only: %v", err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	free.Close() // its number is the point
	b := &bench{T: t, port: port}
	for _, h := range hosts {
		b.backends = append(b.backends, serveOn(t, h, port))
	}
	b.Server = Serve(l, Front{Port: l.Addr().(*net.TCPAddr).Port, Target: port, Check: "https://:" + strconv.Itoa(port) + "/readyz"}, slog.New(slog.DiscardHandler))
	t.Cleanup(b.Close)
	b.SetBackends(hosts)
	return b
}

// ask returns who answered.
func (b *bench) ask() (string, error) {
	transport := b.backends[0].server.Client().Transport.(*http.Transport).Clone()
	transport.TLSClientConfig.InsecureSkipVerify = true //nolint:gosec // a test's own server
	transport.DisableKeepAlives = true
	c := http.Client{Transport: transport, Timeout: 5 * time.Second}
	r, err := c.Get(fmt.Sprintf("https://%s/", b.listen.Addr()))
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	data, err := io.ReadAll(r.Body)
	return string(data), err
}

// answering waits until exactly these hosts answer.
func (b *bench) answering(hosts ...string) {
	b.Helper()
	start := time.Now()
	for {
		got := map[string]bool{}
		failed := false
		for range 2 * max(len(hosts), 2) {
			who, err := b.ask()
			failed = failed || err != nil
			got[who] = true
		}
		ok := !failed && len(got) == len(hosts)
		for _, h := range hosts {
			ok = ok && got[h]
		}
		if ok {
			return
		}
		if time.Since(start) > time.Minute {
			b.Fatalf("%v answer (failed: %t), not %v", got, failed, hosts)
		}
	}
}

// Checks that are late now and then end nobody's connections.
func TestSettle(t *testing.T) {
	late, refused := failed(context.DeadlineExceeded), failed(syscall.ECONNREFUSED)
	missed := 0
	for i, c := range []struct{ answer, want health }{
		{ready, ready}, {late, unready}, {late, unready}, {ready, ready}, {late, unready}, {unready, unready},
		{late, unready}, {late, unready}, {late, silent}, {late, silent}, {ready, ready}, {refused, silent},
	} {
		var got health
		if got, missed = settle(c.answer, missed); got != c.want {
			t.Errorf("answer %d makes %d, not %d", i, got, c.want)
		}
	}
}

// A connection that comes too late to a backend does not make it answer again.
func TestALateConnectionIsNoAnswer(t *testing.T) {
	s := &Server{log: slog.New(slog.DiscardHandler)}
	for _, c := range []struct {
		was, want health
		why       error
	}{
		{silent, silent, context.DeadlineExceeded}, {ready, ready, context.DeadlineExceeded}, {ready, silent, syscall.ECONNREFUSED},
	} {
		b := &backend{health: c.was}
		if s.refused(b, c.why); b.health != c.want {
			t.Errorf("%v makes %d of %d, not %d", c.why, b.health, c.was, c.want)
		}
	}
}

func TestOnlyReadyBackendsServe(t *testing.T) {
	b := newBench(t, "127.0.0.2", "127.0.0.3")
	b.answering("127.0.0.2", "127.0.0.3")
	b.backends[0].status.Store(http.StatusInternalServerError)
	b.answering("127.0.0.3")
	b.backends[0].status.Store(http.StatusOK)
	b.answering("127.0.0.2", "127.0.0.3")
	b.SetBackends([]string{"127.0.0.2"})
	b.answering("127.0.0.2")
	// When none is ready, those that answer serve.
	b.backends[0].status.Store(http.StatusInternalServerError)
	b.answering("127.0.0.2")
}

// A backend that is gone is noticed by the first connection, which another one serves.
func TestADeadBackendFailsNobody(t *testing.T) {
	b := newBench(t, "127.0.0.2", "127.0.0.3")
	b.answering("127.0.0.2", "127.0.0.3")
	b.backends[0].server.Close()
	for range 6 {
		if who, err := b.ask(); err != nil || who != "127.0.0.3" {
			t.Errorf("%q, %v", who, err)
		}
	}
}

// open returns a connection through the load balancer to the only backend, which has answered on it.
func (b *bench) open() net.Conn {
	b.Helper()
	c, err := net.Dial("tcp", b.listen.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return c
}

func TestConnectionsOutliveUnreadinessButNotSilence(t *testing.T) {
	b := newBench(t, "127.0.0.2")
	b.answering("127.0.0.2")
	echo, err := net.Listen("tcp", "127.0.0.3:"+strconv.Itoa(b.port))
	if err != nil {
		t.Skipf("SKIPPED, NOTHING WAS TESTED: %v", err)
	}
	defer echo.Close()
	b.SetBackends([]string{"127.0.0.3"}) // no TLS: it accepts connections and never answers a check
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() {
				r := bufio.NewReader(c)
				for {
					line, err := r.ReadString('\n')
					if err != nil {
						c.Close()
						return
					}
					io.WriteString(c, line)
				}
			}()
		}
	}()
	c := b.open()
	c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, "hello\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || line != "hello\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the connection of a backend that does not answer its check goes on")
	}

	b.SetBackends([]string{"127.0.0.2"})
	b.answering("127.0.0.2")
	kept := b.open()
	b.backends[0].status.Store(http.StatusInternalServerError)
	time.Sleep(3 * interval) // the time in which a check would end the connection
	kept.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := kept.Read(make([]byte, 1)); err == nil || !err.(net.Error).Timeout() {
		t.Errorf("the connection of a backend that is not ready was ended: %v", err)
	}
}
