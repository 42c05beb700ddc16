package open_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/store/gs/token"
	"kops.local/kops/internal/store/open"
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

func TestWhoAsksGooglesStorage(t *testing.T) {
	machine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, `{"access_token":"machine","expires_in":3599}`) // the test would fail
	}))
	defer machine.Close()
	mine := func(context.Context) (token.Token, error) {
		return token.Token{Access: "mine", Expires: time.Now().Add(time.Hour)}, nil
	}
	metadata := strings.TrimPrefix(machine.URL, "http://")
	for name, c := range map[string]struct {
		options open.Options
		env     map[string]string
		want    string
	}{
		"a user":                   {open.Options{Token: mine, Direct: machine.Client()}, nil, "Bearer mine at storage.googleapis.com"},
		"a machine":                {open.Options{Direct: machine.Client()}, nil, "Bearer machine at storage.googleapis.com"},
		"what runs nowhere":        {open.Options{}, nil, "nobody at storage.googleapis.com"},
		"a user, of a stand-in":    {open.Options{Token: mine}, map[string]string{"STORAGE_EMULATOR_HOST": "127.0.0.1:1"}, "nobody at 127.0.0.1:1"},
		"a machine, of a stand-in": {open.Options{Direct: machine.Client()}, map[string]string{"STORAGE_EMULATOR_HOST": "https://s.example.com"}, "nobody at s.example.com"},
	} {
		c.options.HTTP = &http.Client{Transport: storage{}}
		c.options.Env = func(name string) string {
			if name == "GCE_METADATA_HOST" {
				return metadata
			}
			return c.env[name]
		}
		s, err := open.Backends(c.options).Open(t.Context(), "gs://bucket")
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := s.Get(t.Context(), "a"); string(got) != c.want || err != nil {
			t.Errorf("%s: asked is as %q, %v; want %q", name, got, err, c.want)
		}
	}
}
