package controller_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"kops.local/kops/internal/contract/programs"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/controller"
	"kops.local/kops/internal/store"
)

// counted counts what is read of a store.
type counted struct {
	store.Store
	reads atomic.Int32
}

func (c *counted) Get(ctx context.Context, key string) ([]byte, store.Version, error) {
	c.reads.Add(1)
	return c.Store.Get(ctx, key)
}

func put(t *testing.T, s store.Store, key, text string) string {
	t.Helper()
	if _, err := s.Put(t.Context(), key, []byte(text), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	return key
}

func keyOf(text, name string) string {
	sum := sha256.Sum256([]byte(text))
	return programs.File{Path: name, SHA256: hex.EncodeToString(sum[:])}.Key()
}

func TestProgramsAreServedByTheirDigest(t *testing.T) {
	base := &counted{Store: store.NewMemory("test")}
	nodeup := put(t, base, keyOf("nodeup", "nodeup.gz"), "nodeup")
	changed := put(t, base, keyOf("nodeup of yesterday", "nodeup.gz"), "nodeup, changed")
	put(t, base, "pki/private/kubernetes-ca/keyset.yaml", "key")
	s := &controller.Server{Programs: &controller.Programs{Base: base}}
	ask := func(method, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
		return w
	}
	for _, c := range []struct {
		method, path string
		status       int
		says         string
	}{
		{http.MethodGet, "/" + nodeup, 200, "nodeup"},
		{http.MethodHead, "/" + nodeup, 200, ""},
		{http.MethodPost, "/" + nodeup, 405, "only GET"},
		{http.MethodGet, "/" + changed, 404, "has for this digest is something else; run kops update cluster --yes"},
		{http.MethodGet, "/" + keyOf("unheard of", "nodeup.gz"), 404, "run kops update cluster --yes"},
		{http.MethodGet, "/" + strings.Replace(nodeup, "nodeup.gz", "other.gz", 1), 404, ""},
		{http.MethodGet, "/programs/../pki/private/kubernetes-ca/keyset.yaml", 404, ""},
		{http.MethodGet, "/pki/private/kubernetes-ca/keyset.yaml", 404, ""},
		{http.MethodGet, "/programs/", 404, ""},
	} {
		if w := ask(c.method, c.path); w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s %s: %d %s", c.method, c.path, w.Code, w.Body)
		}
	}
}

// A group of machines starts at once.
func TestManyMachinesReadTheStoreOnce(t *testing.T) {
	base := &counted{Store: store.NewMemory("test")}
	nodeup := put(t, base, keyOf("nodeup", "nodeup.gz"), "nodeup")
	p := &controller.Programs{Base: base}
	var g sync.WaitGroup
	for range 200 {
		g.Go(func() {
			w := httptest.NewRecorder()
			p.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/"+nodeup, nil))
			if w.Body.String() != "nodeup" || w.Header().Get("Content-Length") != "6" {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	g.Wait()
	if n := base.reads.Load(); n != 1 {
		t.Errorf("the store was read %d times", n)
	}
}

// A store that refuses is told of, and asked again.
func TestAStoreThatRefusesIsAskedAgain(t *testing.T) {
	inner := store.NewMemory("test")
	key := put(t, inner, keyOf("nodeup", "nodeup.gz"), "nodeup")
	base := &refusing{Store: inner, left: 1}
	p := &controller.Programs{Base: base}
	for _, want := range []int{502, 200} {
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/"+key, nil))
		if w.Code != want || want == 502 && !strings.Contains(w.Body.String(), "403 Forbidden") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
}

type refusing struct {
	store.Store
	left int
}

func (r *refusing) Get(ctx context.Context, key string) ([]byte, store.Version, error) {
	if r.left--; r.left >= 0 {
		return nil, "", fault.New(fault.Denied, "403 Forbidden")
	}
	return r.Store.Get(ctx, key)
}
