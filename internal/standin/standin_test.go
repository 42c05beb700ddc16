package standin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/standin"
	"kops.local/kops/internal/standin/standintest"
)

// lamp is a small cloud: GET /lamp reads whether it is lit, PUT /lamp sets it at once, POST /lamp starts
// an operation that sets it after two seconds, GET /wait waits until it is lit.
type lamp struct {
	*standin.Server
	*standintest.Clock
	t   *testing.T
	url string
	lit bool
	end string // the error of the last operation
}

type call struct {
	*lamp
	r *http.Request
}

func play(t *testing.T) *lamp {
	t.Helper()
	l := &lamp{t: t, Clock: standintest.NewClock()}
	l.Server = standin.New(standin.Options{Now: l.Clock.Now, Sleep: l.Sleep, OnBug: standintest.OnBug(t)}, standin.API{
		Route: func(r *http.Request) (standin.Call, error) {
			if r.URL.Path == "/lamp" || r.URL.Path == "/wait" {
				return call{l, r}, nil
			}
			return nil, errors.New("no such path")
		},
		Refuse: func(err error) standin.Answer { return standin.Answer{Status: 418, Body: err.Error()} },
		Header: func(h http.Header) { h.Set("Lit", fmt.Sprint(l.lit)) },
		Usual:  errors.New("short circuit"),
	})
	l.url = standintest.Serve(t, l)
	return l
}

func (c call) Method() standin.Method {
	return standin.Method{ID: c.r.Method + " " + c.r.URL.Path, Writes: c.r.Method != "GET", Starts: c.r.Method == "POST"}
}

func (c call) Check(body []byte) error {
	if len(body) > 0 {
		return errors.New("no body please")
	}
	return nil
}

func (c call) Play(f standin.Fate) (standin.Answer, error) {
	switch c.r.Method {
	case "PUT":
		c.lit = true
		return standin.Answer{}, nil
	case "POST":
		c.Operate(f, 2*time.Second, func(context.Context) error { c.lit = true; return nil }, func(err error) { c.end = fmt.Sprint(err) })
		return standin.Answer{Status: http.StatusAccepted, Header: http.Header{"Color": {"warm"}}}, nil
	case "DELETE":
		return standin.Answer{}, c.fuse()
	}
	if c.r.URL.Path == "/wait" {
		if err := c.Wait(c.r.Context(), time.Minute, func() bool { return c.lit }); err != nil {
			return standin.Answer{}, err
		}
	}
	return standin.Answer{Body: c.lit}, nil
}

func (c call) fuse() error { return errors.New("it has a fuse") }

// send sends a request and returns the response as STATUS BODY.
func (l *lamp) send(method, path, body string) string {
	l.t.Helper()
	q, err := http.NewRequestWithContext(l.t.Context(), method, l.url+path, strings.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		return "lost"
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		l.t.Error(err)
	}
	if a.StatusCode == http.StatusAccepted && a.Header.Get("Color") != "warm" {
		l.t.Errorf("%s %s has the headers %v", method, path, a.Header)
	}
	if a.Header.Get("Lit") != fmt.Sprint(l.lit) {
		l.t.Errorf("%s %s: the header Lit is %q", method, path, a.Header.Get("Lit"))
	}
	return strings.TrimSpace(fmt.Sprint(a.StatusCode, " ", string(text)))
}

func (l *lamp) expect(method, path, want string) {
	l.t.Helper()
	if got := l.send(method, path, ""); got != want {
		l.t.Errorf("%s %s: got %s, want %s", method, path, got, want)
	}
}

func TestCallsAreAnsweredAndCounted(t *testing.T) {
	l := play(t)
	l.expect("GET", "/lamp", "200 false")
	l.expect("PUT", "/lamp", "204")
	l.expect("GET", "/lamp", "200 true")
	l.expect("DELETE", "/lamp", `418 "it has a fuse"`)
	l.expect("GET", "/door", `418 "no such path"`)
	l.expect("POST", "/lamp", "202")
	if got := l.send("PUT", "/lamp", "x"); got != `418 "no body please"` {
		t.Error(got)
	}
	if got, want := l.Requests(), map[string]int{"GET /lamp": 2, "PUT /lamp": 2, "DELETE /lamp": 1, "POST /lamp": 1}; !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}

func TestAnOperationEndsLater(t *testing.T) {
	l := play(t)
	l.expect("POST", "/lamp", "202")
	if err := l.Sleep(t.Context(), 2*time.Second-1); err != nil {
		t.Fatal(err)
	}
	l.expect("GET", "/lamp", "200 false")
	if err := l.Sleep(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	l.expect("GET", "/lamp", "200 true")
	if l.end != "<nil>" {
		t.Errorf("it ended with %s", l.end)
	}
}

func TestACallWaits(t *testing.T) {
	l := play(t)
	start := l.Clock.Now()
	l.expect("GET", "/wait", "200 false")
	if took := l.Clock.Now().Sub(start); took != time.Minute {
		t.Errorf("it waited %s for what does not come", took)
	}
	l.expect("POST", "/lamp", "202")
	start = l.Clock.Now()
	l.expect("GET", "/wait", "200 true")
	if took := l.Clock.Now().Sub(start); took != 2*time.Second {
		t.Errorf("it waited %s", took)
	}
}

func TestEventsAreInOrderAndRunWithoutRequests(t *testing.T) {
	l := play(t)
	var log []string
	note := func(name string, more ...string) func(context.Context) {
		return func(ctx context.Context) {
			log = append(log, fmt.Sprint(name, " at ", l.Server.Now().Second()))
			for _, m := range more {
				l.Schedule(time.Second, func(context.Context) { log = append(log, m) })
			}
			if ctx.Err() != nil {
				t.Errorf("%s: %v", name, ctx.Err())
			}
		}
	}
	l.Do(func() {
		l.Schedule(3*time.Second, note("late"))
		l.Schedule(time.Second, note("first", "follows"))
		l.Schedule(time.Second, note("second"))
	})
	ctx, cancel := context.WithCancel(t.Context())
	l.Deadline = func(now time.Time) {
		if now.Second() >= 10 {
			cancel()
		}
	}
	if err := l.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if want := []string{"first at 6", "second at 6", "follows", "late at 8"}; !slices.Equal(log, want) {
		t.Errorf("got %q, want %q", log, want)
	}
}

func TestFaults(t *testing.T) {
	for name, tt := range map[string]struct {
		fault  standin.Fault
		method string
		want   string // the responses to three calls
		lit    bool   // after a minute
	}{
		"before":             {standin.Fault{}, "PUT", `418 "short circuit", 204, 204`, true},
		"not yet":            {standin.Fault{Skip: 1, Times: 3}, "PUT", `204, 418 "short circuit", 418 "short circuit"`, true},
		"its own error":      {standin.Fault{Times: 3, Error: errors.New("dark")}, "PUT", `418 "dark", 418 "dark", 418 "dark"`, false},
		"another method":     {standin.Fault{Method: "POST /lamp"}, "PUT", `204, 204, 204`, true},
		"what changes":       {standin.Fault{}, "GET", `200 false, 200 false, 200 false`, false},
		"what reads":         {standin.Fault{Method: "GET /lamp"}, "GET", `418 "short circuit", 200 false, 200 false`, false},
		"after":              {standin.Fault{When: standin.After}, "PUT", `418 "short circuit", 204, 204`, true},
		"lost":               {standin.Fault{When: standin.Lost, Times: 3}, "PUT", `lost, lost, lost`, true},
		"lost, but refused":  {standin.Fault{When: standin.Lost, Times: 3}, "DELETE", `418 "it has a fuse", 418 "it has a fuse", 418 "it has a fuse"`, false},
		"inside":             {standin.Fault{When: standin.Inside, Times: 3}, "POST", `202, 202, 202`, false},
		"inside of nothing":  {standin.Fault{When: standin.Inside, Times: 3}, "PUT", `418 "short circuit", 418 "short circuit", 418 "short circuit"`, false},
		"slow":               {standin.Fault{When: standin.Never, Times: 3, Delay: time.Hour}, "POST", `202, 202, 202`, false},
		"slow, but in time":  {standin.Fault{When: standin.Never, Times: 3, Delay: time.Second}, "POST", `202, 202, 202`, true},
		"nothing in general": {standin.Fault{When: standin.Never}, "PUT", `204, 204, 204`, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := play(t)
			l.Inject(tt.fault)
			var got []string
			for range 3 {
				got = append(got, l.send(tt.method, "/lamp", ""))
			}
			if strings.Join(got, ", ") != tt.want {
				t.Errorf("got %s, want %s", strings.Join(got, ", "), tt.want)
			}
			if err := l.Sleep(t.Context(), time.Minute); err != nil {
				t.Fatal(err)
			}
			l.expect("GET", "/lamp", fmt.Sprint("200 ", tt.lit))
			if tt.fault.When == standin.Inside && tt.method == "POST" && l.end != "short circuit" {
				t.Errorf("the operation ended with %s", l.end)
			}
		})
	}
}

func TestFaultsAreUsedInTheirOrder(t *testing.T) {
	l := play(t)
	l.Inject(standin.Fault{Skip: 1, Error: errors.New("one")})
	l.Inject(standin.Fault{Error: errors.New("two")})
	l.expect("PUT", "/lamp", `418 "two"`)
	l.expect("PUT", "/lamp", `418 "one"`)
	l.expect("PUT", "/lamp", `204`)
}

func TestAnotherRequestComesFirst(t *testing.T) {
	l := play(t)
	l.Inject(standin.Fault{Method: "GET /lamp", When: standin.Never, Meanwhile: func() { l.expect("PUT", "/lamp", "204") }})
	l.expect("GET", "/lamp", "200 true")
}

func TestBugsAreReported(t *testing.T) {
	var bugs []error
	s := standin.New(standin.Options{OnBug: func(err error) { bugs = append(bugs, err) }}, standin.API{})
	bug := errors.New("it does not fit")
	if err := s.Bug(bug); err != bug || !slices.Equal(bugs, []error{bug}) {
		t.Errorf("got %v, %v", err, bugs)
	}
	if err := standin.New(standin.Options{}, standin.API{}).Bug(bug); err != bug {
		t.Error(err)
	}
}

// TestResponsesAreJSON checks what a client sees that does not know the stand-in.
func TestResponsesAreJSON(t *testing.T) {
	l := play(t)
	w := httptest.NewRecorder()
	l.ServeHTTP(w, httptest.NewRequest("GET", "/lamp", nil))
	var lit bool
	if err := json.NewDecoder(w.Body).Decode(&lit); err != nil || w.Header().Get("Content-Type") != "application/json; charset=UTF-8" {
		t.Errorf("got %v, %v", w.Header(), err)
	}
}
