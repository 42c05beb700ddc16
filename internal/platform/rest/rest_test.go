package rest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/rest"
)

// reply is a response of a server; one without a status breaks the connection.
type reply struct {
	status int
	header map[string]string
	body   string
}

// serve returns a client of a server that replies in turn, the requests that it received, and the
// waits between them.
func serve(t *testing.T, replies ...reply) (c rest.Client, calls *[]string, waits *[]time.Duration) {
	t.Helper()
	calls, waits = new([]string), new([]time.Duration)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body) // what is missing is seen
		*calls = append(*calls, strings.TrimSpace(r.Method+" "+r.URL.String()+" "+string(text)))
		if len(replies) == 0 {
			t.Errorf("one more call: %s", (*calls)[len(*calls)-1])
			replies = []reply{{status: 500}}
		}
		now := replies[0]
		replies = replies[1:]
		if now.status == 0 {
			panic(http.ErrAbortHandler)
		}
		for k, v := range now.header {
			w.Header().Set(k, v)
		}
		w.WriteHeader(now.status)
		_, _ = io.WriteString(w, now.body) // the client would see it
	}))
	t.Cleanup(s.Close)
	s.Config.SetKeepAlivesEnabled(false) // on a connection that was used before, net/http repeats a request by itself
	c = rest.Client{Base: s.URL + "/v1", HTTP: s.Client(), Classify: classify, Auth: func(r *http.Request) error {
		r.Header.Set("Authorization", "secret")
		return nil
	}, Pause: func(_ context.Context, d time.Duration) error { *waits = append(*waits, d); return nil }}
	return c, calls, waits
}

// classify reads errors of the form {"error": "CODE"}.
func classify(a rest.Answer) error {
	var body struct {
		Code string `json:"error"`
	}
	_ = json.Unmarshal(a.Body, &body) // the code is empty then
	class := map[int]fault.Class{404: fault.Gone, 409: fault.Conflict, 429: fault.Throttled, 503: fault.NotYet}[a.Status]
	return fault.Wrap(class, fmt.Errorf("%d %s", a.Status, body.Code), "ask "+body.Code)
}

func TestARequestIsSentOnceAndItsResponseDecoded(t *testing.T) {
	c, calls, _ := serve(t, reply{status: 201, body: `{"name":"a"}`}, reply{status: 204}, reply{status: 200, body: `{"name":"b"}`})
	c.Auth = rest.Bearer(func(context.Context) (string, error) { return "t", nil })
	var out struct{ Name string }
	if err := c.Do(t.Context(), rest.Request{Method: "POST", Path: "disks", Body: map[string]int{"size": 1}}, &out); err != nil || out.Name != "a" {
		t.Errorf("%+v, %v", out, err)
	}
	if err := c.Do(t.Context(), rest.Request{Method: "DELETE", Path: "disks/a"}, &out); err != nil {
		t.Error(err)
	}
	if err := c.Get(t.Context(), "disks/b", url.Values{"with": {"x y"}}, &out); err != nil || out.Name != "b" {
		t.Errorf("%+v, %v", out, err)
	}
	if want := []string{`POST /v1/disks {"size":1}`, "DELETE /v1/disks/a", "GET /v1/disks/b?with=x+y"}; !slices.Equal(*calls, want) {
		t.Errorf("calls: %q", *calls)
	}
}

func TestErrorsHaveClasses(t *testing.T) {
	for _, tt := range []struct {
		reply  reply
		usual  fault.Class
		silent fault.Class // of a client whose Unanswered is fault.NotYet
	}{
		{reply{status: 404, body: `{"error":"none"}`}, fault.Gone, fault.Gone},
		{reply{status: 200, body: `{"name"`}, fault.Lost, fault.NotYet},
		{reply{status: 200, body: `[]`}, fault.Lost, fault.NotYet},
		{reply{status: 302, header: map[string]string{"Location": "/login"}}, fault.Permanent, fault.NotYet},
		{reply{}, fault.Lost, fault.NotYet},
	} {
		for unanswered, want := range map[fault.Class]fault.Class{"": tt.usual, fault.NotYet: tt.silent} {
			c, _, _ := serve(t, tt.reply)
			c.Unanswered = unanswered
			var out struct{ Name string }
			if err := c.Do(t.Context(), rest.Request{Method: "PUT"}, &out); !fault.Is(err, want) {
				t.Errorf("%+v is %s, not %s: %v", tt.reply, fault.Of(err), want, err)
			}
		}
	}
	c, _, _ := serve(t)
	denied := fault.New(fault.Denied, "nobody is logged in")
	c.Auth = rest.Bearer(func(context.Context) (string, error) { return "", denied })
	if err := c.Get(t.Context(), "a", nil, nil); !errors.Is(err, denied) || !strings.HasPrefix(err.Error(), "find credentials: ") {
		t.Errorf("without credentials: %v", err)
	}
}

// Whatever the header with the credentials is called, no other host gets it, and a change remains one.
func TestRedirectsAreNotFollowed(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s with the header %v", r.Method, r.URL, r.Header)
	}))
	defer other.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		for method, body := range map[string]any{"GET": nil, "POST": "data"} {
			c, _, _ := serve(t, reply{status: status, header: map[string]string{"Location": other.URL + "/there"}})
			c.Auth = func(r *http.Request) error { r.Header.Set("X-Auth-Token", "secret"); return nil }
			err := c.Do(t.Context(), rest.Request{Method: method, Path: "disks", Body: body}, nil)
			if !fault.Is(err, fault.Permanent) || !strings.Contains(err.Error(), " redirects to "+other.URL+"/there ("+fmt.Sprint(status)) || fault.Remedy(err) == "" {
				t.Errorf("%s, %d: %v", method, status, err)
			}
		}
	}
}

// A proxy that has lost a response does not make a list empty.
func TestAResponseWithoutContentIsNoObject(t *testing.T) {
	for _, status := range []int{200, 204} {
		c, _, _ := serve(t, reply{status: status})
		if got, err := rest.List[int](t.Context(), c, rest.Request{Path: "disks"}, "disks"); !fault.Is(err, fault.Lost) {
			t.Errorf("%d: %v, %v", status, got, err)
		}
	}
}

func TestPagesThatGoRoundEnd(t *testing.T) {
	c, calls, _ := serve(t, reply{status: 200, body: `{"items":[1],"next":"b"}`}, reply{status: 200, body: `{"items":[2],"next":"c"}`}, reply{status: 200, body: `{"items":[3],"next":"b"}`})
	c.Next = rest.NextValue("page", "next")
	if _, err := rest.List[int](t.Context(), c, rest.Request{Path: "a"}, "items"); !fault.Is(err, fault.Lost) || !strings.Contains(err.Error(), "the same page twice: page=b") {
		t.Errorf("after %v: %v", *calls, err)
	}
}

func TestACertificateThatIsNotTrustedIsNotTriedAgain(t *testing.T) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	c := rest.Client{Base: s.URL, HTTP: http.DefaultClient}
	if err := c.Get(t.Context(), "a", nil, nil); !fault.Is(err, fault.Permanent) || !strings.Contains(fault.Remedy(err), "SSL_CERT_FILE") || !strings.HasPrefix(err.Error(), "connect to 127.0.0.1:") {
		t.Errorf("%v; %s", err, fault.Remedy(err))
	}
	c.Unanswered = fault.NotYet
	if err := c.Get(t.Context(), "a", nil, nil); !fault.Is(err, fault.NotYet) {
		t.Errorf("%v", err)
	}
}

func TestAClientWithoutTheEngineRepeatsWhatOnlyReads(t *testing.T) {
	busy := reply{status: 429, header: map[string]string{"Retry-After": "7"}}
	c, calls, waits := serve(t, busy, reply{}, reply{status: 503}, reply{status: 200}, busy, busy)
	c.Repeat = true
	if err := c.Get(t.Context(), "a", nil, nil); err != nil {
		t.Error(err)
	}
	if want := []time.Duration{7 * time.Second, 400 * time.Millisecond, 800 * time.Millisecond}; !slices.Equal(*waits, want) {
		t.Errorf("waited %v", *waits)
	}
	if err := c.Do(t.Context(), rest.Request{Method: "POST", Path: "a"}, nil); !fault.Is(err, fault.Throttled) || len(*calls) != 5 {
		t.Errorf("a change is sent again: %v, %v", *calls, err)
	}
	c.Repeat = false
	if err := c.Get(t.Context(), "a", nil, nil); !fault.Is(err, fault.Throttled) || len(*calls) != 6 {
		t.Errorf("with the engine: %v, %v", *calls, err)
	}
}

func TestServersAskToWait(t *testing.T) {
	const date = "Sat, 01 Aug 2026 12:00:00 GMT" // 1785585600
	for _, tt := range []struct {
		header map[string]string
		want   time.Duration
	}{
		{nil, 0},
		{map[string]string{"Retry-After": "3"}, 3 * time.Second},
		{map[string]string{"Retry-After": "7200"}, time.Minute},
		{map[string]string{"Retry-After": "soon"}, 0},
		{map[string]string{"Retry-After": "Sat, 01 Aug 2026 12:00:30 GMT"}, 30 * time.Second},
		{map[string]string{"Retry-After": "Sat, 01 Aug 2026 11:00:00 GMT"}, 0},
		{map[string]string{"Retry-After": "Sun, 02 Aug 2026 12:00:00 GMT"}, time.Minute},
		{map[string]string{"RateLimit-Limit": "3600", "RateLimit-Remaining": "0", "RateLimit-Reset": "1785589200"}, time.Second},
		{map[string]string{"ratelimit-limit": "60", "ratelimit-remaining": "0", "ratelimit-reset": "1785589200"}, time.Minute},
		{map[string]string{"RateLimit-Limit": "3600", "RateLimit-Remaining": "1", "RateLimit-Reset": "1785589200"}, 0},
		{map[string]string{"RateLimit-Limit": "3600", "RateLimit-Remaining": "0", "RateLimit-Reset": "1785585000"}, 0},
		{map[string]string{"RateLimit-Limit": "0", "RateLimit-Remaining": "0", "RateLimit-Reset": "1785589200"}, 0},
		{map[string]string{"RateLimit-Limit": "3600", "RateLimit-Remaining": "0", "RateLimit-Reset": "1785589200", "Retry-After": "2"}, 2 * time.Second},
		{map[string]string{"Date": "yesterday", "Retry-After": "Sat, 01 Aug 2026 12:00:30 GMT"}, 0},
	} {
		header := map[string]string{"Date": date}
		for k, v := range tt.header {
			header[k] = v
		}
		c, _, _ := serve(t, reply{status: 429, header: header, body: `{"error":"slower"}`}, reply{status: 404, header: header})
		err := c.Do(t.Context(), rest.Request{Method: "POST"}, nil)
		if fault.After(err) != tt.want || !fault.Is(err, fault.Throttled) || err.Error() != "429 slower" || fault.Remedy(err) != "ask slower" {
			t.Errorf("%v: waits %s, not %s: %v", tt.header, fault.After(err), tt.want, err)
		}
		if err := c.Do(t.Context(), rest.Request{Method: "POST"}, nil); fault.After(err) != 0 {
			t.Errorf("%v: waits although nothing will come of it", tt.header)
		}
	}
	c, _, _ := serve(t, reply{status: 429, header: map[string]string{"Retry-After": "3"}})
	c.Classify = func(rest.Answer) error {
		return &fault.Error{Class: fault.Throttled, After: time.Hour, Err: errors.New("x")}
	}
	if err := c.Get(t.Context(), "", nil, nil); fault.After(err) != time.Hour {
		t.Errorf("a cloud's own rule does not win: %s", fault.After(err))
	}
}

func TestARequestHasATimeout(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(release) })
	for _, tt := range []struct{ client, request time.Duration }{{time.Millisecond, 0}, {time.Hour, time.Millisecond}} {
		c := rest.Client{Base: s.URL, HTTP: s.Client(), Timeout: tt.client}
		if err := c.Do(t.Context(), rest.Request{Timeout: tt.request}, nil); !fault.Is(err, fault.Lost) || !fault.TimedOut(err) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

func TestListsHavePages(t *testing.T) {
	token := rest.NextValue("pageToken", "nextPageToken")
	number := rest.NextValue("page", "meta", "pagination", "next_page")
	link := rest.NextLink("links", "pages", "next")
	for name, tt := range map[string]struct {
		next  rest.Paging
		pages []string
		want  string // the queries of the calls
	}{
		"one page": {nil, []string{`{"items":[1,2]}`}, "l=k"},
		"tokens":   {token, []string{`{"items":[1],"nextPageToken":"x/y"}`, `{"nextPageToken":"z"}`, `{"items":[2],"nextPageToken":""}`}, "l=k l=k&pageToken=x%2Fy l=k&pageToken=z"},
		"no token": {token, []string{`{"items":[1,2]}`}, "l=k"},
		"numbers": {number, []string{`{"items":[1],"meta":{"pagination":{"next_page":2}}}`, `{"items":[2],"meta":{"pagination":{"page":2,"next_page":null}}}`},
			"l=k l=k&page=2"},
		"no numbers": {number, []string{`{"items":[1,2]}`}, "l=k"},
		"links": {link, []string{`{"items":[1],"links":{"pages":{"next":"https://elsewhere.example/?page=2&per_page=1"}}}`, `{"items":[2],"links":{}}`},
			"l=k page=2&per_page=1"},
	} {
		var replies []reply
		for _, p := range tt.pages {
			replies = append(replies, reply{status: 200, body: p})
		}
		c, calls, _ := serve(t, replies...)
		c.Next = tt.next
		got, err := rest.List[int](t.Context(), c, rest.Request{Path: "a", Query: url.Values{"l": {"k"}}}, "items")
		for i := range *calls {
			_, (*calls)[i], _ = strings.Cut((*calls)[i], "?")
		}
		if err != nil || !slices.Equal(got, []int{1, 2}) || strings.Join(*calls, " ") != tt.want {
			t.Errorf("%s: %v, asked %s: %v", name, got, strings.Join(*calls, " "), err)
		}
	}
}

func TestListsThatAreWrong(t *testing.T) {
	for body, want := range map[string]string{
		`{"items":7}`:                     "cannot parse the response: items: ",
		`{"items":[],"meta":7}`:           "cannot parse the response: meta: ",
		`{"items":[],"meta":{"next":[]}}`: "cannot parse the response: next: ",
		`{"items":[],"meta":{"next":2}}`:  "the server returns the same page twice: page=2",
	} {
		c, _, _ := serve(t, reply{status: 200, body: body})
		c.Next = rest.NextValue("page", "meta", "next")
		if _, err := rest.List[int](t.Context(), c, rest.Request{Query: url.Values{"page": {"2"}}}, "items"); !fault.Is(err, fault.Lost) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", body, err)
		}
	}
	c, _, _ := serve(t, reply{status: 200, body: `{"items":[1],"next":"t"}`}, reply{status: 404})
	c.Next = rest.NextValue("token", "next")
	if got, err := rest.List[int](t.Context(), c, rest.Request{}, "items"); !fault.Is(err, fault.Gone) || got != nil {
		t.Errorf("the second page is missing: %v, %v", got, err)
	}
}

// action is an operation as a server shows it.
type action struct {
	ID     int
	Status string
}

// awaitActions waits for two actions, asking for both at once.
func awaitActions(ctx context.Context, c rest.Client) ([]action, error) {
	var last []action
	err := c.Await(ctx, func(ctx context.Context) (bool, error) {
		got, err := rest.List[action](ctx, c, rest.Request{Path: "actions", Query: url.Values{"id": {"1", "2"}}}, "actions")
		if err == nil {
			last = got
		}
		return !slices.ContainsFunc(got, func(a action) bool { return a.Status == "running" }), err
	})
	return last, err
}

func TestOperationsAreAwaitedTogether(t *testing.T) {
	running, half, ended := reply{status: 200, body: `{"actions":[{"id":1,"status":"running"},{"id":2,"status":"running"}]}`},
		reply{status: 200, body: `{"actions":[{"id":1,"status":"error"},{"id":2,"status":"running"}]}`},
		reply{status: 200, body: `{"actions":[{"id":1,"status":"error"},{"id":2,"status":"success"}]}`}
	c, calls, waits := serve(t, running, half, reply{}, half, half, half, half, ended)
	got, err := awaitActions(t.Context(), c)
	if err != nil || fmt.Sprint(got) != "[{1 error} {2 success}]" || (*calls)[7] != "GET /v1/actions?id=1&id=2" {
		t.Errorf("%v, %v, %v", got, *calls, err)
	}
	ms := func(n time.Duration) time.Duration { return n * time.Millisecond }
	if want := []time.Duration{ms(100), ms(200), ms(200), ms(400), ms(800), ms(1600), ms(2000)}; !slices.Equal(*waits, want) {
		t.Errorf("waited %v", *waits)
	}
}

func TestWhatIsAwaitedMayTakeEffectLater(t *testing.T) {
	for _, tt := range []struct {
		status, calls int
		want, silent  fault.Class
	}{{503, 8, fault.Lost, fault.NotYet}, {429, 8, fault.Lost, fault.NotYet}, {404, 1, fault.Lost, fault.NotYet}, {400, 1, "", ""}} {
		for unanswered, want := range map[fault.Class]fault.Class{"": tt.want, fault.NotYet: tt.silent} {
			c, calls, _ := serve(t, slices.Repeat([]reply{{status: tt.status}}, tt.calls)...)
			c.Unanswered = unanswered
			if _, err := awaitActions(t.Context(), c); fault.Of(err) != want || len(*calls) != tt.calls || !strings.HasPrefix(err.Error(), "wait for an operation: ") {
				t.Errorf("%d: %d calls, %s, not %s: %v", tt.status, len(*calls), fault.Of(err), want, err)
			}
		}
	}
}

func TestAwaitEnds(t *testing.T) {
	never := func(context.Context) (bool, error) { return false, nil }
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		err := rest.Client{Patience: time.Minute}.Await(t.Context(), never)
		if took := time.Since(start); !fault.Is(err, fault.Lost) || took != time.Minute || !strings.Contains(err.Error(), "not done after 1m0s") {
			t.Errorf("after %s: %v", took, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := (rest.Client{Patience: time.Minute}).Await(ctx, never); !errors.Is(err, context.DeadlineExceeded) || fault.Is(err, fault.Lost) {
			t.Errorf("%v", err)
		}
	})
}

func TestAClientWithAToken(t *testing.T) {
	var got []string
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = append(got, r.URL.Path+" "+r.Header.Get("Authorization")+" "+r.UserAgent())
	}))
	t.Cleanup(s.Close)
	check := func(token string) error {
		if token == "" {
			return fault.New(fault.Denied, "no token")
		}
		return nil
	}
	for _, c := range []rest.Client{
		rest.Config{Endpoint: s.URL + "/v2/", Token: "secret", UserAgent: "kops/1"}.Client("http://127.0.0.1:1", check),
		rest.Config{Token: "other", HTTP: s.Client()}.Client(s.URL, check),
	} {
		if err := c.Get(t.Context(), "a", nil, nil); err != nil {
			t.Error(err)
		}
	}
	if want := []string{"/v2/a Bearer secret kops/1", "/a Bearer other Go-http-client/1.1"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if err := (rest.Config{}).Client(s.URL, check).Get(t.Context(), "a", nil, nil); !fault.Is(err, fault.Denied) || len(got) != 2 {
		t.Errorf("without a token: %v", err)
	}
}

func TestTheClassOfAStatus(t *testing.T) {
	for status, want := range map[int]fault.Class{400: fault.Permanent, 401: fault.Denied, 403: fault.Denied, 404: fault.Gone, 409: fault.Permanent, 429: fault.Throttled, 500: fault.Lost, 503: fault.Lost} {
		if got := rest.ClassOf(status); got != want {
			t.Errorf("%d: %s", status, got)
		}
	}
}
