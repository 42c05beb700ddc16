package daemon

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestServingEndsWithTheContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, &http.Server{Addr: address, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) })})
	}()
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		resp, err := http.Get("http://" + address)
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode != 204 {
				t.Errorf("got %s", resp.Status)
			}
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	if err := Serve(t.Context(), &http.Server{Addr: address}); err == nil {
		t.Error("a taken address is served twice")
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestTheClusterIsFoundByItsKubeconfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Cluster(file, "program", "1")
	if err != nil || c.Host != "https://127.0.0.1:1" || c.UserAgent != "program/1" {
		t.Errorf("got %+v, %v", c, err)
	}
	if _, err := Cluster(file+"-absent", "program", "1"); err == nil || !strings.Contains(err.Error(), "how to connect to the cluster") {
		t.Errorf("got %v", err)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := newBounded(l, 3, 2)
	served := make(chan net.Conn)
	go func() {
		for {
			c, err := b.Accept()
			if err != nil {
				close(served)
				return
			}
			served <- c
		}
	}()
	from := func(address string) net.Conn {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
		c, err := d.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	refused := func(what string, c net.Conn) {
		t.Helper()
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Errorf("%s is served", what)
		}
	}
	from("127.0.0.1")
	first := <-served
	from("127.0.0.1")
	second := <-served
	refused("a third connection of an address", from("127.0.0.1"))
	from("127.0.0.2")
	third := <-served
	from("127.0.0.3")
	fourth := <-served
	refused("the oldest connection of the address with the most", first)
	refused("one too many while no address has more than one", from("127.0.0.4"))
	_, _ = second.Close(), second.Close() // closing twice counts once
	from("127.0.0.4")
	fifth := <-served
	refused("one too many after another has ended", from("127.0.0.5"))
	_, _, _, _, _ = first.Close(), third.Close(), fourth.Close(), fifth.Close(), l.Close()
	if _, more := <-served; more || b.all != 0 || len(b.open) != 0 {
		t.Errorf("at the end %d are counted, of %v", b.all, b.open)
	}
}
