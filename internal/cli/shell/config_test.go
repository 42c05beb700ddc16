package shell

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// An app with a few variables, at a standstill.
func with(env map[string]string) *App {
	return &App{System: System{Env: func(name string) string { return env[name] }, Now: func() time.Time { return time.Time{} }, Err: &bytes.Buffer{}}}
}

func TestRequestsAreToldWithoutWhatTheyHold(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	for verbosity, want := range map[int]string{1: "", 2: "GET " + s.URL + "/bucket: 404 Not Found (0s)\n"} {
		app := with(nil)
		app.Verbosity = verbosity
		resp, err := app.httpClient().Get(s.URL + "/bucket?X-Amz-Signature=secret")
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		if got := app.Err.(*bytes.Buffer).String(); got != want {
			t.Errorf("-v %d: %q, want %q", verbosity, got, want)
		}
	}
}
