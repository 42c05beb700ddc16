package node

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"kops.local/kops/internal/platform/onmachine"
)

// storage answers for Google's storage with the identity of the caller.
type storage struct{}

func (storage) RoundTrip(r *http.Request) (*http.Response, error) {
	who := "nobody at " + r.URL.Host
	if a := r.Header.Get("Authorization"); a != "" {
		who = a + " at " + r.URL.Host
	}
	return &http.Response{StatusCode: 200, Header: http.Header{"X-Goog-Generation": {"1"}}, Body: io.NopCloser(strings.NewReader(who)), Request: r}, nil
}

func TestAMachineOpensBucketsWithItsOwnAccount(t *testing.T) {
	metadata := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, `{"access_token":"machine","expires_in":3599}`) // the test would fail
	}))
	defer metadata.Close()
	for emulator, want := range map[string]string{"": "Bearer machine at storage.googleapis.com", "127.0.0.1:1": "nobody at 127.0.0.1:1", "https://s.example.com": "nobody at s.example.com"} {
		env := map[string]string{"STORAGE_EMULATOR_HOST": emulator, "GCE_METADATA_HOST": strings.TrimPrefix(metadata.URL, "http://")}
		w := onmachine.World{Env: func(name string) string { return env[name] }, Direct: metadata.Client()}
		s, err := Platform().Backends(w, &http.Client{Transport: storage{}}).Open(t.Context(), "gs://bucket")
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := s.Get(t.Context(), "a"); string(got) != want || err != nil {
			t.Errorf("at %q, it asks as %q, %v; want %q", emulator, got, err, want)
		}
	}
}
