package gs_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/gs"
)

// Objects are read as anybody, and else as the account of the machine, who is asked past the proxy.
func TestObjectsAreRead(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		auth := r.Header.Get("Authorization")
		switch {
		case r.URL.Path == "/public/kubelet" && auth == "", r.URL.Path == "/private/kubelet" && auth == "Bearer t":
			_, _ = io.WriteString(w, "of google") // the test would fail
		case strings.HasPrefix(r.URL.Path, "/private/"):
			w.WriteHeader(http.StatusUnauthorized)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	machine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/computeMetadata/v1/instance/service-accounts/default/token" && r.Header.Get("Metadata-Flavor") == "Google" {
			_, _ = io.WriteString(w, `{"access_token":"t","expires_in":3599}`) // the test would fail
		}
	}))
	t.Cleanup(machine.Close)
	own := gs.Config{Storage: server.URL, Server: machine.URL, Metadata: http.DefaultClient}
	for _, c := range []struct {
		config     gs.Config
		url, error string
	}{
		{own, "gs://public/kubelet", ""},
		{own, "gs://private/kubelet", ""},
		{own, "gs://public/other", "the server answers 404 Not Found"},
		{own, "gs://private/other", "the server answers 401 Unauthorized"},
		{gs.Config{Storage: server.URL}, "gs://private/kubelet", "the server answers 401 Unauthorized"},
		{gs.Config{Storage: server.URL, Server: server.URL, Metadata: http.DefaultClient}, "gs://private/kubelet", "and the machine has no account: the server answers 404 Not Found"},
	} {
		body, err := store.Backends{gs.Backend(c.config)}.Read(t.Context(), c.url)
		if err != nil {
			if c.error == "" || !strings.Contains(err.Error(), c.error) {
				t.Errorf("%s: %v", c.url, err)
			}
			continue
		}
		got, err := io.ReadAll(body)
		if cerr := body.Close(); err != nil || cerr != nil || string(got) != "of google" || c.error != "" {
			t.Errorf("%s: %q %v %v", c.url, got, err, cerr)
		}
	}
}

func TestNothingIsWritten(t *testing.T) {
	b := store.Backends{store.Folders(), gs.Backend(gs.Config{})}
	_, err := b.Open(t.Context(), "gs://bucket/folder")
	if !fault.Is(err, fault.Permanent) || strings.Contains(fault.Remedy(err), "gs://") {
		t.Errorf("%v; %s", err, fault.Remedy(err))
	}
}
