package web_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/web"
)

// It cannot use storetest, which begins by writing.
func TestAWebServerIsReadAndNothingElse(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.EscapedPath() {
		case "/c/a%20b/d%3Fe":
			_, _ = fmt.Fprint(w, "content") // the test would fail
		case "/c/secret":
			w.WriteHeader(http.StatusForbidden)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	backends := store.Backends{web.Backend(server.Client())}
	s, err := backends.Open(t.Context(), server.URL+"/c/")
	if err != nil {
		t.Fatal(err)
	}
	if data, v, err := s.Get(t.Context(), "a b/d?e"); string(data) != "content" || v != store.Version(store.Digest(data)) || err != nil {
		t.Errorf("%q, %q, %v", data, v, err)
	}
	for key, class := range map[string]fault.Class{"absent": fault.Gone, "secret": fault.Denied, "../c/secret": fault.Permanent} {
		if _, _, err := s.Get(t.Context(), key); !fault.Is(err, class) {
			t.Errorf("%s: %s: %v", key, fault.Of(err), err)
		}
	}
	_, put := s.Put(t.Context(), "a", nil, store.PutOptions{})
	var list error
	for _, err := range s.List(t.Context(), "a") {
		list = err
	}
	for call, err := range map[string]error{"write": put, "list": list, "delete": s.Delete(t.Context(), "a", store.DeleteOptions{})} {
		if !fault.Is(err, fault.Permanent) || err.Error() != call+" "+server.URL+"/c/a: a web server is read-only" || !strings.Contains(fault.Remedy(err), "bucket") {
			t.Errorf("%s: %v; %s", call, err, fault.Remedy(err))
		}
	}
	body, err := backends.Read(t.Context(), server.URL+"/c/a%20b/d%3Fe")
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if got, err := io.ReadAll(body); string(got) != "content" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := backends.Open(t.Context(), "https://"); !fault.Is(err, fault.Permanent) {
		t.Errorf("%v", err)
	}
}
