package kinds

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/ops/bundle"
)

// TestMirror: the keeper serves a bundle at the host's address as long as the mirror exists.
func TestMirror(t *testing.T) {
	const cluster = "mirror.k8s.local"
	l := newLab(t, cluster)
	publisher := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/release/tool" {
			http.NotFound(w, r)
			return
		}
		io.WriteString(w, "a program") //nolint:errcheck // a test's own server
	}))
	defer publisher.Close()
	dir := t.TempDir()
	_, err := bundle.Create(t.Context(), bundle.Options{Dir: dir, HTTP: publisher.Client(), Arches: []download.Arch{download.AMD64},
		Want: bundle.Want{Files: map[string]string{publisher.URL + "/release/tool": ""}}})
	l.ok(err)
	net := build(l, &Networks, Network{Cluster: cluster, CIDR: "10.199.7.0/24", Up: true})
	m := build(l, &Mirrors, Mirror{Cluster: cluster, Name: "bundle", Network: resource.Lit(net.ID), Bundle: dir, Port: 3989})
	if m.Address != "10.199.7.1:3989" {
		t.Errorf("the address is %s", m.Address)
	}
	get := func(path string) (int, string) {
		t.Helper()
		answer, err := http.Get("http://" + m.Address + path)
		l.ok(err)
		defer answer.Body.Close() //nolint:errcheck // only read
		data, err := io.ReadAll(answer.Body)
		l.ok(err)
		return answer.StatusCode, string(data)
	}
	if code, text := get("/release/tool"); code != http.StatusOK || text != "a program" {
		t.Errorf("a file: %d %s", code, text)
	}
	if code, text := get("/release/other"); code != http.StatusNotFound || !strings.Contains(text, bundle.Remedy) {
		t.Errorf("a file that the bundle lacks: %d %s", code, text)
	}
	seen, err := Mirrors.List(t.Context(), l.Client, resource.Scope{Cluster: cluster})
	l.ok(err)
	if len(seen) != 1 || len(Mirrors.Erase().Schema().Diff(m, seen[0])) != 0 || seen[0].Address != m.Address {
		t.Errorf("observed %+v, made %+v", seen, m)
	}
	remove(l, &Mirrors, m)
	l.wait("the mirror is gone", func() error {
		if err := dialPort(t.Context(), m.Address); err == nil {
			return io.ErrUnexpectedEOF // the port is still open
		}
		return nil
	})
	remove(l, &Networks, net)
	l.nothingLeft()
}
