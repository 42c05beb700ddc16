package controller_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kops.local/kops/internal/contract/programs"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/controller"
	"kops.local/kops/internal/store"
)

// countingStore counts the reads of a store.
type countingStore struct {
	store.Store
	reads, lists atomic.Int32
}

func (c *countingStore) List(ctx context.Context, prefix string) iter.Seq2[store.Info, error] {
	c.lists.Add(1)
	return c.Store.List(ctx, prefix)
}

func (c *countingStore) Get(ctx context.Context, key string) ([]byte, store.Version, error) {
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
	base := &countingStore{Store: store.NewMemory("test")}
	nodeup := put(t, base, keyOf("nodeup", "nodeup.gz"), "nodeup")
	changed := put(t, base, keyOf("nodeup of yesterday", "nodeup.gz"), "nodeup, changed")
	put(t, base, "pki/private/kubernetes-ca/keyset.yaml", "key")
	s := &controller.Server{Programs: controller.NewPrograms(base, time.Now)}
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
		{http.MethodGet, "/" + changed, 404, "has a different file for this digest; run kops update cluster --yes"},
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

// A group of machines starts at the same time.
func TestManyMachinesReadTheStoreOnce(t *testing.T) {
	base := &countingStore{Store: store.NewMemory("test")}
	nodeup := put(t, base, keyOf("nodeup", "nodeup.gz"), "nodeup")
	p := controller.NewPrograms(base, time.Now)
	var g sync.WaitGroup
	for range 200 {
		g.Go(func() {
			var w *httptest.ResponseRecorder
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/"+nodeup, nil)
			for n := 0; ; n++ { // like curl's retries: excess machines are told to wait
				r.RemoteAddr = fmt.Sprintf("10.0.%d.1:1", n%200)
				if w = httptest.NewRecorder(); serve(p, w, r) {
					break
				}
			}
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

// serve reports whether a request was answered, and not rejected with a wait.
func serve(h http.Handler, w *httptest.ResponseRecorder, r *http.Request) bool {
	h.ServeHTTP(w, r)
	return w.Code != http.StatusTooManyRequests
}

// A store that denies access is reported, and tried again.
func TestAFailingStoreIsRetried(t *testing.T) {
	inner := store.NewMemory("test")
	key := put(t, inner, keyOf("nodeup", "nodeup.gz"), "nodeup")
	base := &failingStore{Store: inner, failures: 1}
	p := controller.NewPrograms(base, time.Now)
	for _, want := range []int{502, 200} {
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/"+key, nil))
		if w.Code != want || want == 502 && !strings.Contains(w.Body.String(), "403 Forbidden") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
}

// Requests for programs that do not exist do not cause a request to the store each, and
// one sender's requests cause no more than its share.
func TestAFloodForProgramsReadsTheStoreInDrops(t *testing.T) {
	base := &countingStore{Store: store.NewMemory("test")}
	nodeup := put(t, base, keyOf("nodeup", "nodeup.gz"), "nodeup")
	changed := put(t, base, keyOf("nodeup of yesterday", "nodeup.gz"), "nodeup, changed")
	now := time.Unix(1e9, 0)
	p := controller.NewPrograms(base, func() time.Time { return now })
	ask := func(key, from string) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/"+key, nil)
		r.RemoteAddr = from
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		return w.Code
	}
	codes := map[int]int{}
	for n := range 20_000 {
		codes[ask(keyOf(strconv.Itoa(n), "nodeup.gz"), "10.0.0.1:1")]++
	}
	if codes[404] != 100 || codes[429] != 19_900 || base.lists.Load() != 1 || base.reads.Load() != 0 {
		t.Errorf("%v; the store was listed %d times, read %d times", codes, base.lists.Load(), base.reads.Load())
	}
	for n := range 1000 { // another sender each time
		from := fmt.Sprintf("10.1.%d.%d:1", n/250, n%250)
		if got := ask(changed, from); got != 404 {
			t.Fatalf("a program that was changed: %d", got)
		}
		if got := ask(nodeup, from); got != 200 {
			t.Fatalf("a program that is there: %d", got)
		}
	}
	if base.lists.Load() != 1 || base.reads.Load() != 2 {
		t.Errorf("the store was listed %d times, read %d times", base.lists.Load(), base.reads.Load())
	}
	put(t, base, changed, "nodeup of yesterday")
	now = now.Add(5 * time.Second)
	if got := ask(changed, "10.2.0.1:1"); got != 200 {
		t.Errorf("a program that was mended: %d", got)
	}
	large := put(t, base, keyOf("large", "nodeup.gz"), strings.Repeat("x", 41<<20))
	now = now.Add(5 * time.Second)
	if got := ask(large, "10.2.0.1:1"); got != 404 || base.reads.Load() != 3 {
		t.Errorf("a program that is too long: %d, the store was read %d times", got, base.reads.Load())
	}
}

// slowReceiver is a receiver of an answer that takes nothing of the body until it is released.
type slowReceiver struct {
	*httptest.ResponseRecorder
	began   chan<- struct{}
	release <-chan struct{}
}

func (s slowReceiver) Write(data []byte) (int, error) {
	s.began <- struct{}{}
	<-s.release
	return s.ResponseRecorder.Write(data)
}

// However many receive a program slowly, others receive theirs, and all share one copy of it.
func TestSlowReceiversTakeNothingFromOthers(t *testing.T) {
	base := &countingStore{Store: store.NewMemory("test")}
	var keys []string
	for _, letter := range []string{"a", "b", "c"} { // more than fits into the cache
		text := strings.Repeat(letter, 20<<20)
		keys = append(keys, put(t, base, keyOf(text, "nodeup.gz"), text))
	}
	p := controller.NewPrograms(base, time.Now)
	request := func(key string, n int) *http.Request {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/"+key, nil)
		r.RemoteAddr = fmt.Sprintf("10.0.0.%d:1", n)
		return r
	}
	began, release := make(chan struct{}), make(chan struct{})
	var g sync.WaitGroup
	for n := range 100 {
		slow := slowReceiver{httptest.NewRecorder(), began, release}
		slow.Body = nil
		g.Go(func() { p.ServeHTTP(slow, request(keys[0], n%4)) })
		<-began
	}
	for n, key := range keys {
		w := httptest.NewRecorder()
		if p.ServeHTTP(w, request(key, 10+n)); w.Code != http.StatusOK || w.Body.Len() != 20<<20 {
			t.Errorf("another program: %d, %d bytes", w.Code, w.Body.Len())
		}
	}
	w := httptest.NewRecorder()
	runtime.GC()
	if p.ServeHTTP(w, request(keys[0], 20)); w.Code != http.StatusOK || base.reads.Load() != 3 {
		t.Errorf("a program that is being sent: %d, the store was read %d times", w.Code, base.reads.Load())
	}
	close(release)
	g.Wait()
}

type failingStore struct {
	store.Store
	failures int
}

func (r *failingStore) Get(ctx context.Context, key string) ([]byte, store.Version, error) {
	if r.failures--; r.failures >= 0 {
		return nil, "", fault.New(fault.Denied, "403 Forbidden")
	}
	return r.Store.Get(ctx, key)
}
