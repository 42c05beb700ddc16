package rehearsal_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"kops.local/kops/internal/platform/rehearsal"
)

func TestAHandlerIsAskedWithoutANetwork(t *testing.T) {
	c := http.Client{Transport: rehearsal.HandlerTransport{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		w.Header().Set("X-Answer", "yes")
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusCreated)
		}
		_, _ = fmt.Fprint(w, r.Method, " ", r.Host, " ", string(text), err) // it is written to memory
	})}}
	for method, want := range map[string]string{http.MethodGet: "200 yes GET cloud <nil>", http.MethodPost: "201 yes POST cloud body<nil>"} {
		var body io.Reader
		if method == http.MethodPost {
			body = strings.NewReader("body")
		}
		r, err := http.NewRequestWithContext(t.Context(), method, "http://cloud/", body)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = ""
		a, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(a.Body)
		if got := fmt.Sprint(a.StatusCode, " ", a.Header.Get("X-Answer"), " ", string(text)); err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
		_ = a.Body.Close() // it was read
	}
}

func TestAHandlerThatAbortsBreaksTheConnection(t *testing.T) {
	client := http.Client{Transport: rehearsal.HandlerTransport{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })}}
	if _, err := client.Get("http://cloud.example.com"); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
}
