package metadata

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"kops.local/kops/internal/engine/fault"
)

func TestAService(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("X-Flavor") != "yes":
			w.WriteHeader(http.StatusForbidden)
		case r.URL.Path == "/v1/name":
			_, _ = w.Write([]byte(r.Method + " one\n")) // the test would fail
		case r.URL.Path == "/v1/long":
			_, _ = w.Write([]byte(strings.Repeat("x", maxResponse+1))) // it may be cut off
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	s := Service{HTTP: server.Client(), Root: server.URL + "/v1", Header: "X-Flavor", Value: "yes"}
	for key, want := range map[string]string{"name": "GET one", "none": ""} {
		if got, err := s.Get(t.Context(), key); got != want || err != nil {
			t.Errorf("%s: got %q, %v", key, got, err)
		}
	}
	var err error
	get := s.Getter(t.Context(), &err)
	if got := get("name") + get("none"); got != "GET one" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	err = errors.New("before")
	if got := get("name"); got != "" || err.Error() != "before" {
		t.Errorf("after an error: got %q, %v", got, err)
	}
	if got, err := s.Get(t.Context(), "long"); len(got) != maxResponse || err != nil {
		t.Errorf("of a long value, it reads %d bytes, %v", len(got), err)
	}
	if got, err := s.Request(t.Context(), http.MethodPut, "name"); got != "PUT one\n" || err != nil {
		t.Errorf("PUT: got %q, %v", got, err)
	}
	if _, err := s.Request(t.Context(), http.MethodPut, "none"); !fault.Is(err, fault.Gone) {
		t.Errorf("PUT: %v", err)
	}
	for want, bad := range map[string]Service{
		"it returned 403 Forbidden": {HTTP: server.Client(), Root: server.URL + "/v1"},
		"connection refused":        {HTTP: http.DefaultClient, Root: "http://127.0.0.1:1"},
	} {
		if _, err := bad.Get(t.Context(), "name"); !fault.Is(err, fault.NotYet) || !strings.Contains(err.Error(), "get name from the metadata service: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := (Service{HTTP: http.DefaultClient, Root: "http://a b"}).Get(t.Context(), "name"); !fault.Is(err, fault.Permanent) {
		t.Errorf("an invalid URL: %v", err)
	}
}
