package balance

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// site is a backend on its own address; all use one port.
type site struct {
	host   string
	server *httptest.Server
	status atomic.Int32
	// holds receives requests for /held, which are answered after release is closed.
	holds, release chan struct{}
}

// serveOn starts a backend that returns its host's name, and reports whether it is ready by
// its status.
func serveOn(t *testing.T, host string, port int) *site {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		t.Skipf("SKIPPED, NOTHING WAS TESTED: this host has no address %s: %v", host, err)
	}
	s := &site{host: host, holds: make(chan struct{}, 1), release: make(chan struct{})}
	s.status.Store(http.StatusOK)
	s.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			w.WriteHeader(int(s.status.Load()))
			return
		}
		if r.URL.Path == "/held" {
			s.holds <- struct{}{}
			<-s.release
		}
		io.WriteString(w, host) // the test is the client
	}))
	s.server.Listener.Close() // the one that httptest opened
	s.server.Listener = l
	s.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.server.StartTLS()
	t.Cleanup(s.server.Close)
	return s
}

type bench struct {
	*testing.T
	*Server
	port     int // the backends' port
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
	free.Close() // only its number was needed
	b := &bench{T: t, port: port}
	for _, h := range hosts {
		b.backends = append(b.backends, serveOn(t, h, port))
	}
	b.Server = Serve(l, Front{Port: l.Addr().(*net.TCPAddr).Port, Target: port, Check: "https://:" + strconv.Itoa(port) + "/readyz"}, slog.New(slog.DiscardHandler))
	t.Cleanup(b.Close)
	b.SetBackends(hosts)
	return b
}

// ask returns the name of the backend that answered.
func (b *bench) ask() (string, error) {
	transport := b.backends[0].server.Client().Transport.(*http.Transport).Clone()
	transport.TLSClientConfig.InsecureSkipVerify = true //nolint:gosec // a test's own server
	transport.DisableKeepAlives = true
	c := http.Client{Transport: transport, Timeout: 5 * time.Second}
	r, err := c.Get(fmt.Sprintf("https://%s/", b.listener.Addr()))
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	data, err := io.ReadAll(r.Body)
	return string(data), err
}

// waitForAnswers waits until exactly these hosts answer.
func (b *bench) waitForAnswers(hosts ...string) {
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

func TestOnlyReadyBackendsServe(t *testing.T) {
	b := newBench(t, "127.0.0.2", "127.0.0.3")
	b.waitForAnswers("127.0.0.2", "127.0.0.3")
	b.backends[0].status.Store(http.StatusInternalServerError)
	b.waitForAnswers("127.0.0.3")
	b.backends[0].status.Store(http.StatusOK)
	b.waitForAnswers("127.0.0.2", "127.0.0.3")
	b.SetBackends([]string{"127.0.0.2"})
	b.waitForAnswers("127.0.0.2")
	// If none is ready, backends that respond still serve.
	b.backends[0].status.Store(http.StatusInternalServerError)
	b.waitForAnswers("127.0.0.2")
}

// A backend that is gone is noticed on the first connection, which another backend serves.
func TestADeadBackendFailsNobody(t *testing.T) {
	b := newBench(t, "127.0.0.2", "127.0.0.3")
	b.waitForAnswers("127.0.0.2", "127.0.0.3")
	b.backends[0].server.Close()
	for range 6 {
		if who, err := b.ask(); err != nil || who != "127.0.0.3" {
			t.Errorf("%q, %v", who, err)
		}
	}
}

// eventually waits until f is true.
func (b *bench) eventually(what string, f func() bool) {
	b.Helper()
	for start := time.Now(); !f(); {
		if time.Since(start) > time.Minute {
			b.Fatalf("%s: not after %s", what, time.Since(start))
		}
		time.Sleep(interval / 10) // give the servers time
	}
}

// keepAliveClient returns a client that keeps its connections.
func (b *bench) keepAliveClient() *http.Client {
	transport := b.backends[0].server.Client().Transport.(*http.Transport).Clone()
	transport.TLSClientConfig.InsecureSkipVerify = true //nolint:gosec // a test's own server
	b.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

// get requests a path through a client, and returns the name of the backend that answered.
func (b *bench) get(c *http.Client, path string) (string, error) {
	r, err := c.Get(fmt.Sprintf("https://%s%s", b.listener.Addr(), path))
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	data, err := io.ReadAll(r.Body)
	return string(data), err
}

// When a backend becomes unready, a request in progress is answered, and its
// connection is not reused.
func TestAConnectionIsDrainedWhenItsBackendTurnsUnready(t *testing.T) {
	b := newBench(t, "127.0.0.2", "127.0.0.3")
	b.waitForAnswers("127.0.0.2", "127.0.0.3")
	b.SetBackends([]string{"127.0.0.2"})
	idle, busy := b.keepAliveClient(), b.keepAliveClient()
	for _, c := range []*http.Client{idle, busy} {
		if who, err := b.get(c, "/"); err != nil || who != "127.0.0.2" {
			t.Fatal(who, err)
		}
	}
	b.SetBackends([]string{"127.0.0.2", "127.0.0.3"})
	answered := make(chan error, 1)
	go func() {
		who, err := b.get(busy, "/held")
		if err == nil && who != "127.0.0.2" {
			err = fmt.Errorf("%s answered", who)
		}
		answered <- err
	}()
	<-b.backends[0].holds
	b.eventually("another backend is there", func() bool { return b.statusOf("127.0.0.3") == ready })
	b.backends[0].status.Store(http.StatusInternalServerError)
	b.eventually("the idle connection has ended", func() bool { return b.links("127.0.0.2") == 1 })
	select {
	case err := <-answered:
		t.Fatalf("the request under way ended with %v", err)
	default:
	}
	close(b.backends[0].release)
	if err := <-answered; err != nil {
		t.Errorf("the request under way: %v", err)
	}
	b.eventually("its connection has ended as well", func() bool { return b.links("127.0.0.2") == 0 })
	for _, c := range []*http.Client{idle, busy} {
		if who, err := b.get(c, "/"); err != nil || who != "127.0.0.3" {
			t.Error(who, err)
		}
	}
}

// A backend that leaves gets no new connections, and is drained once its open requests are
// answered; if no other backend is ready it continues to serve.
func TestABackendThatLeavesIsDrained(t *testing.T) {
	b := newBench(t, "127.0.0.2", "127.0.0.3")
	b.waitForAnswers("127.0.0.2", "127.0.0.3")
	b.SetBackends([]string{"127.0.0.2"})
	busy, answered := b.keepAliveClient(), make(chan error, 1)
	go func() {
		who, err := b.get(busy, "/held")
		if err == nil && who != "127.0.0.2" {
			err = fmt.Errorf("%s answered", who)
		}
		answered <- err
	}()
	<-b.backends[0].holds
	b.SetBackends([]string{"127.0.0.2"}, "127.0.0.2")
	b.eventually("nobody else serves, so that nothing is waited for", func() bool { return b.Drained("127.0.0.2") })
	b.waitForAnswers("127.0.0.2")
	b.SetBackends([]string{"127.0.0.2", "127.0.0.3"}, "127.0.0.2")
	b.waitForAnswers("127.0.0.3")
	if b.Drained("127.0.0.2") {
		t.Error("it is drained while a request is under way")
	}
	close(b.backends[0].release)
	if err := <-answered; err != nil {
		t.Errorf("the request under way: %v", err)
	}
	b.eventually("it has no connection", func() bool { return b.Drained("127.0.0.2") && b.links("127.0.0.2") == 0 })
}

// statusOf returns the last status of a backend, and links its number of connections.
func (b *bench) statusOf(host string) status {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, x := range b.Server.backends {
		if x.host == host {
			return x.record.status
		}
	}
	return unchecked
}

func (b *bench) links(host string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, x := range b.Server.backends {
		if x.host == host {
			return len(x.links)
		}
	}
	return 0
}

// A backend that accepts connections but answers no check loses its connections, but
// only while another is ready.
func TestAConnectionIsCutWhereItsBackendStallsAndAnotherIsReady(t *testing.T) {
	b := newBench(t, "127.0.0.2")
	b.waitForAnswers("127.0.0.2")
	l, err := net.Listen("tcp", "127.0.0.3:"+strconv.Itoa(b.port))
	if err != nil {
		t.Skipf("SKIPPED, NOTHING WAS TESTED: %v", err)
	}
	defer l.Close() // the kernel accepts connections that nothing serves
	b.SetBackends([]string{"127.0.0.3"})
	c, err := net.Dial("tcp", b.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() // it was only read
	silent := func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.Server.backends[0].record.isSilent(time.Now().Add(-2 * tick)) // evaluated since then
	}
	b.eventually("a backend is silent", silent)
	if n := b.links("127.0.0.3"); n != 1 {
		t.Fatalf("it has %d connections; there is nowhere to go", n)
	}
	b.SetBackends([]string{"127.0.0.3", "127.0.0.2"})
	c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection goes on: %v", err)
	}
}

// TestOnlyChangesAreLogged: for a backend without connections, what would happen to them does not count as
// a change.
func TestOnlyChangesAreLogged(t *testing.T) {
	var log strings.Builder
	s := &Server{log: slog.New(slog.NewTextHandler(&log, nil))}
	start := time.Unix(1e9, 0)
	for range 2 {
		s.backends = append(s.backends, &backend{links: map[*link]bool{}, checkNow: make(chan struct{}, 1), record: record{}.startCheck(start).finishCheck(ready, start)})
	}
	s.backends[0].record = s.backends[0].record.startCheck(start).finishCheck(notReady, start)
	for n := range 10 * int(drainTime/time.Second) {
		now := start.Add(time.Duration(n) * time.Second)
		other := &s.backends[1].record
		if *other = other.finishCheck(ready, now); n%4 == 3 { // late for a moment, with nowhere to go
			*other = other.startCheck(now.Add(-slowAfter))
		}
		s.applyPolicy(now)
	}
	if n := strings.Count(log.String(), "\n"); n != 2 {
		t.Errorf("two backends without connections, of which neither changes, are logged %d times:\n%s", n, log.String())
	}
}
