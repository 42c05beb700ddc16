package hetznerapi_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/hetzner/hetznerapi"
)

// serve returns a client of a server that answers every request.
func serve(t *testing.T, answer http.HandlerFunc) *hetznerapi.Client {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return hetznerapi.New(hetznerapi.Config{Endpoint: s.URL + "/", Token: "secret", UserAgent: "kops/1", Pause: func(context.Context, time.Duration) error { return nil }})
}

func TestErrorsHaveAClassAndARemedy(t *testing.T) {
	for _, c := range []struct {
		status        int
		code, details string
		want          fault.Class
		text, remedy  string // substrings
	}{
		{400, "json_error", "", fault.Permanent, "", ""},
		{401, "unauthorized", "", fault.Denied, "", "set HCLOUD_TOKEN"},
		{401, "token_readonly", "", fault.Denied, "", "Read & Write"},
		{403, "forbidden", "", fault.Denied, "", "set HCLOUD_TOKEN"},
		{403, "maintenance", "", fault.NotYet, "", ""},
		{403, "resource_limit_exceeded", `{"limits":[{"name":"server_limit"}]}`, fault.Quota, "(server_limit)", "request a higher limit"},
		{404, "not_found", "", fault.Gone, "", ""},
		{405, "method_not_allowed", "", fault.Permanent, "", ""},
		{409, "uniqueness_error", `{"fields":[{"name":"name"}]}`, fault.Taken, "(name)", "choose another name"},
		{409, "conflict", "", fault.Conflict, "", ""},
		{410, "deprecated_api_endpoint", `{"announcement":"https://docs.example.com/x"}`, fault.Permanent, "(https://docs.example.com/x)", "a newer version of kops"},
		{412, "resource_unavailable", "", fault.Quota, "", "another location"},
		{412, "placement_error", "", fault.Quota, "", "another machine type"},
		{422, "invalid_input", `{"fields":[{"name":"ip_range","messages":["is too small","is odd"]}]}`, fault.Permanent, "(ip_range: is too small, is odd)", ""},
		{422, "service_error", "", fault.Lost, "", ""},
		{422, "unsupported_error", "", fault.Permanent, "", ""},
		{422, "resource_in_use", "", fault.Conflict, "", ""},
		{422, "no_subnet_available", "", fault.NotYet, "", ""},
		{422, "ip_not_available", "", fault.Permanent, "", "a free address"},
		{423, "locked", "", fault.Conflict, "", ""},
		{423, "protected", "", fault.Permanent, "", "disable-protection"},
		{429, "rate_limit_exceeded", "", fault.Throttled, "", ""},
		{500, "server_error", "", fault.Lost, "", ""},
		{503, "unavailable", "", fault.Lost, "", ""},
		{504, "timeout", "", fault.Lost, "", ""},
		{418, "new_code", "", fault.Permanent, "[new_code]", ""},
		{599, "new_code", "", fault.Lost, "", ""},
	} {
		t.Run(c.code, func(t *testing.T) {
			details := c.details
			if details == "" {
				details = "null"
			}
			client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				_, _ = fmt.Fprintf(w, `{"error":{"code":%q,"message":"the message","details":%s}}`, c.code, details)
			})
			err := client.Act(t.Context(), "servers/1", "shutdown", nil)
			if fault.Of(err) != c.want || !strings.Contains(fault.Remedy(err), c.remedy) || !strings.Contains(err.Error(), "the message") || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v: the class %s, the remedy %q", err, fault.Of(err), fault.Remedy(err))
			}
			if !hetznerapi.HasCode(err, "x", c.code) || hetznerapi.HasCode(err, "x") || strings.Contains(fmt.Sprint(err), "secret") {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestErrorsOfOthers(t *testing.T) {
	for status, want := range map[int]fault.Class{401: fault.Denied, 404: fault.Gone, 429: fault.Throttled, 502: fault.Lost, 400: fault.Permanent} {
		client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte("<html>of a proxy"))
		})
		if err := client.Set(t.Context(), "networks/1", nil); fault.Of(err) != want || !strings.Contains(err.Error(), fmt.Sprintf("status %d: <html>of a proxy", status)) {
			t.Errorf("%d: %v, %s", status, err, fault.Of(err))
		}
	}
	client := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"server":`)) })
	if _, err := hetznerapi.Create[hetznerapi.Server](t.Context(), client, "servers", nil); fault.Of(err) != fault.Lost {
		t.Errorf("a response that breaks off: %v", err)
	}
	none := hetznerapi.New(hetznerapi.Config{Endpoint: "http://127.0.0.1:1"})
	if _, err := hetznerapi.List[hetznerapi.Server](t.Context(), none, "servers", nil); fault.Of(err) != fault.Denied || !strings.Contains(err.Error(), "HCLOUD_TOKEN is not set") {
		t.Errorf("without a token: %v", err)
	}
}

// All actions of a response are awaited with one request each time, and the first error is returned.
func TestActionsAreAwaited(t *testing.T) {
	var polls [][]string
	action := func(id int, status, failure string) string {
		if failure != "" {
			failure = fmt.Sprintf(`{"code":%q,"message":"m"}`, failure)
		} else {
			failure = "null"
		}
		return fmt.Sprintf(`{"id":%d,"command":"do_%d","status":%q,"error":%s}`, id, id, status, failure)
	}
	second := action(2, "success", "")
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" || r.UserAgent() != "kops/1" {
			t.Errorf("%v", r.Header)
		}
		if r.Method == http.MethodPost {
			_, _ = fmt.Fprintf(w, `{"server":{"id":7,"name":"a"},"action":%s,"next_actions":[%s,%s]}`, action(1, "running", ""), action(2, "running", ""), action(3, "success", ""))
			return
		}
		polls = append(polls, r.URL.Query()["id"])
		switch len(polls) {
		case 1:
			_, _ = fmt.Fprintf(w, `{"actions":[%s,%s]}`, action(1, "running", ""), second)
		default:
			_, _ = fmt.Fprintf(w, `{"actions":[%s]}`, action(1, "success", ""))
		}
	})
	s, err := hetznerapi.Create[hetznerapi.Server](t.Context(), client, "servers", nil)
	if err != nil || s.ID != 7 || len(polls) != 2 || !slices.Equal(polls[0], []string{"1", "2"}) || !slices.Equal(polls[1], []string{"1"}) {
		t.Errorf("%+v, %v, %v", s, err, polls)
	}
	second, polls = action(2, "error", "resource_unavailable"), nil
	s, err = hetznerapi.Create[hetznerapi.Server](t.Context(), client, "servers", nil)
	if s.ID != 7 || fault.Of(err) != fault.Quota || !strings.Contains(err.Error(), "do_2: m [resource_unavailable]") || len(polls) != 2 {
		t.Errorf("%+v, %v, %v", s, err, polls)
	}
}

// A request that exceeds the limit tells how long the limit takes to grow by one.
func TestTheLimitSaysHowLongToWait(t *testing.T) {
	client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		now := time.Now()
		for k, v := range map[string]string{"Date": now.UTC().Format(http.TimeFormat), "RateLimit-Limit": "3600", "RateLimit-Remaining": "0", "RateLimit-Reset": fmt.Sprint(now.Unix() + 3600)} {
			w.Header().Set(k, v)
		}
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte(`{"error":{"code":"rate_limit_exceeded","message":"m","details":null}}`))
	})
	_, err := hetznerapi.Get[hetznerapi.Server](t.Context(), client, "servers/1")
	if wait := fault.After(err); fault.Of(err) != fault.Throttled || wait < 900*time.Millisecond || wait > 1100*time.Millisecond {
		t.Errorf("%v, %s", err, wait)
	}
}

func TestNetworksAreFoundByNumberAndName(t *testing.T) {
	var asked atomic.Int32
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		switch r.URL.String() {
		case "/networks/7":
			_, _ = w.Write([]byte(`{"network":{"id":7,"name":"a"}}`))
		case "/networks?" + url.Values{"per_page": {"50"}, "name": {"8"}}.Encode():
			_, _ = w.Write([]byte(`{"networks":[{"id":9,"name":"8"}]}`))
		case "/networks?" + url.Values{"per_page": {"50"}, "name": {"none"}}.Encode():
			_, _ = w.Write([]byte(`{"networks":[]}`))
		case "/networks/6":
			w.WriteHeader(http.StatusForbidden)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
	for name, want := range map[string]int64{"7": 7, "8": 9, "none": 0, "6": -1} {
		n, err := hetznerapi.FindNetwork(t.Context(), client, name)
		switch {
		case want < 0 && fault.Of(err) == fault.Denied, want == 0 && n == nil && err == nil, want > 0 && err == nil && n != nil && n.ID == want:
		default:
			t.Errorf("%s: %+v, %v", name, n, err)
		}
	}
	if hetznerapi.Number("networks/7") != 7 || hetznerapi.Number("") != 0 || hetznerapi.Path("volumes", 3) != "volumes/3" {
		t.Error("paths")
	}
	if !errors.Is(hetznerapi.CheckToken("x"), nil) || asked.Load() == 0 {
		t.Error("a token is refused")
	}
}
