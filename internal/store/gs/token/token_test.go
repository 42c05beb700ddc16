package token_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store/gs/token"
)

func TestTheAccountOfAMachine(t *testing.T) {
	for _, c := range []struct{ body, access, error string }{
		{`{"access_token":"t","expires_in":3599,"token_type":"Bearer"}`, "t", ""},
		{"", "", "the machine has no account: the metadata server answers 404"},
		{"<html>", "", "the machine has no account: the metadata server's answer is not a token"},
		{"{}", "", "the machine has no account: the metadata server's answer is not a token"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/computeMetadata/v1/instance/service-accounts/default/token" || r.Header.Get("Metadata-Flavor") != "Google" || c.body == "" {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			_, _ = fmt.Fprint(w, c.body) // the test would fail
		}))
		defer server.Close()
		for _, at := range []string{server.URL, strings.TrimPrefix(server.URL, "http://")} {
			got, err := token.MachineSource(http.DefaultClient, at)(t.Context())
			left := time.Until(got.Expires)
			if c.error == "" && (err != nil || got.Access != c.access || left > time.Hour || left < 50*time.Minute) {
				t.Errorf("%s: %v, %v", c.body, got, err)
			}
			if c.error != "" && (!fault.Is(err, fault.Denied) || err.Error() != c.error || fault.Remedy(err) == "") {
				t.Errorf("%s: %v; %s", c.body, err, fault.Remedy(err))
			}
		}
	}
}

// The metadata server issues another token in the last five minutes of one.
func TestATokenIsKeptUntilThereIsAnother(t *testing.T) { synctest.Test(t, aTokenIsKept) }

func aTokenIsKept(t *testing.T) {
	asked, fails := 0, false
	s := token.Cached(func(context.Context) (token.Token, error) {
		if asked++; fails {
			return token.Token{}, fault.New(fault.Denied, "none")
		}
		return token.Token{Access: fmt.Sprint(asked), Expires: time.Now().Add(time.Hour)}, nil
	})
	for _, c := range []struct {
		after time.Duration
		want  string
		fails bool
	}{
		{0, "1", false}, {55 * time.Minute, "1", false}, {2 * time.Minute, "2", false}, {time.Hour, "", true}, {0, "4", false},
	} {
		time.Sleep(c.after)
		fails = c.fails
		if got, err := s(t.Context()); got.Access != c.want || (err != nil) != c.fails {
			t.Errorf("after %v: %v, %v; want %q", c.after, got, err, c.want)
		}
	}
}

func TestAClientBearsATokenAndNothingWithoutOne(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, r.Header.Get("Authorization")) // the test would fail
	}))
	defer server.Close()
	c := token.Client(&http.Client{}, func(context.Context) (token.Token, error) {
		return token.Token{Access: "t", Expires: time.Now().Add(time.Hour)}, nil
	})
	answer, err := c.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if got, err := io.ReadAll(answer.Body); string(got) != "Bearer t" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	denied := token.Client(http.DefaultClient, func(context.Context) (token.Token, error) {
		return token.Token{}, fault.Wrap(fault.Denied, io.EOF, "log in")
	})
	if _, err := denied.Post(server.URL, "", strings.NewReader("x")); !fault.Is(err, fault.Denied) || fault.Remedy(err) != "log in" {
		t.Errorf("%v", err)
	}
}
