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
	"sync/atomic"
	"testing"
	"time"
)

// site is a backend on an address of its own; all have one port.
type site struct {
	host   string
	server *httptest.Server
	status atomic.Int32
	// holds receives requests for /held, which are answered after release is closed.
	holds, release chan struct{}
}

// serveOn starts a backend that says its host's name, and whether it is ready with a status.
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

func TestOnlyReadyBackendsServe(t *testing.T) {
	b := newBench(t, "127.0.0.2", "127.0.0.3")
	b.answering("127.0.0.2", "127.0.0.3")
	b.backends[0].status.Store(http.StatusInternalServerError)
	b.answering("127.0.0.3")
	b.backends[0].status.Store(http.StatusOK)
	b.answering("127.0.0.2", "127.0.0.3")
	b.SetBackends([]string{"127.0.0.2"})
	b.answering("127.0.0.2")
	// When none is ready, backends that answer serve.
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

// eventually waits until f is true.
func (b *bench) eventually(what string, f func() bool) {
	b.Helper()
	for start := time.Now(); !f(); {
		if time.Since(start) > time.Minute {
			b.Fatalf("%s: not after %s", what, time.Since(start))
		}
		time.Sleep(interval / 10) // the servers need the time
	}
}

// kept is a client that keeps its connections.
func (b *bench) kept() *http.Client {
	transport := b.backends[0].server.Client().Transport.(*http.Transport).Clone()
	transport.TLSClientConfig.InsecureSkipVerify = true //nolint:gosec // a test's own server
	b.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

// get returns who answered a client, on a path of its server.
func (b *bench) get(c *http.Client, path string) (string, error) {
	r, err := c.Get(fmt.Sprintf("https://%s%s", b.listen.Addr(), path))
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	data, err := io.ReadAll(r.Body)
	return string(data), err
}

// When a backend turns unready, a request that is under way is answered, and the
// connection is not used again.
func TestAConnectionIsDrainedWhenItsBackendTurnsUnready(t *testing.T) {
	b := newBench(t, "127.0.0.2", "127.0.0.3")
	b.answering("127.0.0.2", "127.0.0.3")
	b.SetBackends([]string{"127.0.0.2"})
	idle, busy := b.kept(), b.kept()
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
	b.eventually("another backend is there", func() bool { return b.known("127.0.0.3") == ready })
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

// A backend that leaves gets nothing new, and is drained once its open requests are answered; if
// nobody else serves it continues.
func TestABackendThatLeavesIsDrained(t *testing.T) {
	b := newBench(t, "127.0.0.2", "127.0.0.3")
	b.answering("127.0.0.2", "127.0.0.3")
	b.SetBackends([]string{"127.0.0.2"})
	busy, answered := b.kept(), make(chan error, 1)
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
	b.answering("127.0.0.2")
	b.SetBackends([]string{"127.0.0.2", "127.0.0.3"}, "127.0.0.2")
	b.answering("127.0.0.3")
	if b.Drained("127.0.0.2") {
		t.Error("it is drained while a request is under way")
	}
	close(b.backends[0].release)
	if err := <-answered; err != nil {
		t.Errorf("the request under way: %v", err)
	}
	b.eventually("it has no connection", func() bool { return b.Drained("127.0.0.2") && b.links("127.0.0.2") == 0 })
}

// known is what is known of a backend, and links how many connections it has.
func (b *bench) known(host string) word {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, x := range b.Server.backends {
		if x.host == host {
			return x.record.word
		}
	}
	return unasked
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

// A backend that accepts connections and answers no check loses its connections,
// but only when another is ready.
func TestAConnectionIsCutWhereItsBackendStallsAndAnotherIsReady(t *testing.T) {
	b := newBench(t, "127.0.0.2")
	b.answering("127.0.0.2")
	l, err := net.Listen("tcp", "127.0.0.3:"+strconv.Itoa(b.port))
	if err != nil {
		t.Skipf("SKIPPED, NOTHING WAS TESTED: %v", err)
	}
	defer l.Close() // the kernel accepts what nobody serves
	b.SetBackends([]string{"127.0.0.3"})
	c, err := net.Dial("tcp", b.listen.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() // it was only read
	silent := func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.Server.backends[0].record.silent(time.Now().Add(-2 * glance)) // it was looked at since
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
