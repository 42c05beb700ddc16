package swift_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/storetest"
	"kops.local/kops/internal/store/swift"
	"kops.local/kops/internal/store/swift/swifttest"
)

// The server ignores the conditions of updates. That only one of many concurrent writers
// wins depends on timing, and a busy machine may exceed the time that a test allows.
func TestSwift(t *testing.T) {
	server := swifttest.Start(t)
	t.Run("conformance", func(t *testing.T) { conformance(t, server) })
	t.Run("who may and who may not", func(t *testing.T) { testAccess(t, server) })
}

func conformance(t *testing.T, server *swifttest.Server) {
	server.Container(t, "state", "")
	n := 0
	storetest.Run(t, storetest.Traits{Nested: true, Digests: true, Racers: 2}, func(t *testing.T) storetest.Clients {
		n++
		url := fmt.Sprintf("swift://state/part %d", n)
		return func() store.Store {
			return open(t, swift.Config{Login: server.Login("owner"), Settle: time.Second}, url)
		}
	})
}

func testAccess(t *testing.T, server *swifttest.Server) {
	server.Container(t, "private", "")
	server.Container(t, "public", ".r:*,.rlistings")
	owner := swift.Config{Login: server.Login("owner")}
	if _, err := open(t, owner, "swift://private").Put(t.Context(), "a", []byte("x"), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	for container, public := range map[string]bool{"private": false, "public": true} {
		s := open(t, owner, "swift://"+container)
		if got, err := s.About().Public(t.Context()); got != public || err != nil {
			t.Errorf("%s is public: %v, %v", container, got, err)
		}
		if _, err := s.Put(t.Context(), "jwks", []byte("{}"), store.PutOptions{PublicRead: true}); (err == nil) != public || !public && !strings.Contains(fault.Remedy(err), "swift post --read-acl .r:* private") {
			t.Errorf("%s: %v; %s", container, err, fault.Remedy(err))
		}
	}
	guest := swift.Config{Login: server.Login("guest")}
	if _, _, err := open(t, guest, "swift://private").Get(t.Context(), "a"); !fault.Is(err, fault.Denied) || !strings.Contains(fault.Remedy(err), "role in the project") {
		t.Errorf("a guest reads: %v; %s", err, fault.Remedy(err))
	}
	absent := open(t, owner, "swift://absent/c")
	_, _, read := absent.Get(t.Context(), "a")
	_, write := absent.Put(t.Context(), "a", nil, store.PutOptions{})
	_, create := absent.Put(t.Context(), "a", nil, store.PutOptions{IfAbsent: true})
	var list error
	for _, err := range absent.List(t.Context(), "") {
		list = err
	}
	for call, err := range map[string]error{"read": read, "write": write, "create": create, "list": list, "delete": absent.Delete(t.Context(), "a", store.DeleteOptions{})} {
		if !store.IsMissing(err) || !strings.Contains(fault.Remedy(err), "openstack container create absent") {
			t.Errorf("%s: %v; %s", call, err, fault.Remedy(err))
		}
	}
	wrong := swift.Config{Login: func(context.Context) (swift.Session, error) {
		return swift.Session{}, fault.Wrap(fault.Denied, errors.New("no such user"), "log in")
	}}
	if _, _, err := open(t, wrong, "swift://private").Get(t.Context(), "a"); !fault.Is(err, fault.Denied) || fault.Remedy(err) != "log in" || err.Error() != "read swift://private/a: no such user" {
		t.Errorf("nobody reads: %v", err)
	}
	if _, err := (store.Backends{swift.Backend(owner)}).Open(t.Context(), "swift://"); err == nil || !strings.Contains(err.Error(), "the name of the container is missing") {
		t.Errorf("%v", err)
	}
}

// server answers requests in place of a container that has one object, and ignores
// conditions, as Swift does.
type server struct {
	answer func(n int, r *http.Request) *http.Response // n counts from 1; nil: the object answers
	now    string
	seen   int
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.seen++
	if s.answer != nil {
		if answer := s.answer(s.seen, r); answer != nil {
			return answer, nil
		}
	}
	if r.Method == http.MethodPut {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		s.now = string(data)
	}
	if s.now == "" && !strings.HasSuffix(r.URL.Path, "/AUTH_p/c") {
		return reply(http.StatusNotFound, ""), nil
	}
	return reply(200, s.now), nil
}

func reply(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Etag": {store.Digest([]byte(body))}}, Body: io.NopCloser(strings.NewReader(body))}
}

func (s *server) open(t *testing.T) store.Store {
	t.Helper()
	logins := 0
	return open(t, swift.Config{HTTP: &http.Client{Transport: s}, Login: func(context.Context) (swift.Session, error) {
		logins++
		return swift.Session{Endpoint: "https://swift.example.com/v1/AUTH_p", Token: fmt.Sprint(logins)}, nil
	}}, "swift://c/state")
}

// If two write concurrently, the one whose write remains has won.
func TestTheLastOfManyWritersWins(t *testing.T) { synctest.Test(t, theLastOfManyWins) }

func theLastOfManyWins(t *testing.T) {
	for _, rival := range []string{"", "another's", "mine"} {
		for _, o := range []store.PutOptions{{IfAbsent: true}, {IfVersion: store.Version(store.Digest([]byte("old")))}} {
			s := &server{}
			if o.IfVersion != "" {
				s.now = "old"
			}
			start := time.Now()
			if rival != "" {
				time.AfterFunc(time.Second, func() { s.now = rival })
			}
			v, err := s.open(t).Put(t.Context(), "lease", []byte("mine"), o)
			if won := rival != "another's"; won != (err == nil) || won && v != store.Version(store.Digest([]byte("mine"))) || !won && !fault.Is(err, fault.Conflict) || time.Since(start) < 2*time.Second {
				t.Errorf("%+v, and %q: %q, %v after %v", o, rival, v, err, time.Since(start))
			}
		}
	}
	s := &server{now: "another's"}
	for _, o := range []store.PutOptions{{IfAbsent: true}, {IfVersion: "old"}} {
		if _, err := s.open(t).Put(t.Context(), "lease", []byte("mine"), o); !fault.Is(err, fault.Conflict) || s.now != "another's" {
			t.Errorf("%+v: %v, and there is %q", o, err, s.now)
		}
	}
	if err := s.open(t).Delete(t.Context(), "lease", store.DeleteOptions{IfVersion: "old"}); !fault.Is(err, fault.Conflict) {
		t.Errorf("%v", err)
	}
}

// A write that takes longer than others wait may overwrite theirs: then no writer has won.
func TestASlowWriteIsLost(t *testing.T) { synctest.Test(t, aSlowWriteIsLost) }

func aSlowWriteIsLost(t *testing.T) {
	s := &server{answer: func(_ int, r *http.Request) *http.Response {
		if r.Method == http.MethodPut {
			return reply(503, "")
		}
		return nil
	}, now: "old"}
	_, err := s.open(t).Put(t.Context(), "lease", []byte("mine"), store.PutOptions{IfVersion: store.Version(store.Digest([]byte("old")))})
	if !fault.Is(err, fault.Lost) || !strings.Contains(err.Error(), "the server took longer than 2s") {
		t.Errorf("%v", err)
	}
}

func TestErrorsAreClassed(t *testing.T) { synctest.Test(t, errorsAreClassed) }

func errorsAreClassed(t *testing.T) {
	for status, class := range map[int]fault.Class{401: fault.Denied, 403: fault.Denied, 412: fault.Conflict, 413: fault.Quota, 422: fault.Lost, 429: fault.Throttled, 498: fault.Throttled, 503: fault.Throttled, 507: fault.Quota, 400: fault.Permanent} {
		s := &server{answer: func(int, *http.Request) *http.Response { return reply(status, "") }}
		_, err := s.open(t).Put(t.Context(), "a", []byte("x"), store.PutOptions{})
		if !fault.Is(err, class) || !strings.HasPrefix(err.Error(), fmt.Sprintf("write swift://c/state/a: the server answers %d", status)) {
			t.Errorf("%d is %s: %v", status, fault.Of(err), err)
		}
	}
}

func TestAnExpiredSessionIsRenewed(t *testing.T) { synctest.Test(t, aSessionThatEnds) }

func aSessionThatEnds(t *testing.T) {
	s := &server{now: "x", answer: func(_ int, r *http.Request) *http.Response {
		if r.Header.Get("X-Auth-Token") == "1" {
			return reply(401, "")
		}
		return nil
	}}
	b := s.open(t)
	for range 2 {
		if data, _, err := b.Get(t.Context(), "a"); string(data) != "x" || err != nil {
			t.Errorf("%q, %v", data, err)
		}
	}
	if s.seen != 3 {
		t.Errorf("%d requests for two reads; the session is begun anew once", s.seen)
	}
}

func open(t *testing.T, c swift.Config, url string) store.Store {
	t.Helper()
	s, err := store.Backends{swift.Backend(c)}.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
