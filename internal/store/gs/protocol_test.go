package gs_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/gs"
)

// server answers requests in place of a bucket, and records them.
type server struct {
	answer func(n int, r *http.Request) *http.Response // n counts from 1
	mu     sync.Mutex
	seen   []*http.Request
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body) // the sender waits until it is read
	}
	s.mu.Lock()
	s.seen = append(s.seen, r)
	n := len(s.seen)
	s.mu.Unlock()
	answer := s.answer(n, r)
	if answer == nil {
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	}
	answer.Request = r
	return answer, nil
}

func (s *server) open(t *testing.T) store.Store {
	t.Helper()
	return open(t, gs.Config{HTTP: &http.Client{Transport: s}, Token: bearer("t")}, "gs://bucket/state")
}

func reply(status int, body string, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Add(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}
}

func refusal(status int, reason string) *http.Response {
	return reply(status, fmt.Sprintf(`{"error":{"code":%d,"message":"because","errors":[{"reason":%q}]}}`, status, reason))
}

// found returns the answer with an object and its generation.
func found(body, generation string) *http.Response {
	return reply(200, body, "X-Goog-Generation", generation, "X-Goog-Hash", "crc32c="+crc(body), "X-Goog-Hash", "md5=x")
}

func crc(body string) string {
	sum := crc32.Checksum([]byte(body), crc32.MakeTable(crc32.Castagnoli))
	return base64.StdEncoding.EncodeToString([]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
}

func TestErrorsAreClassed(t *testing.T) { synctest.Test(t, errorsAreClassed) }

func errorsAreClassed(t *testing.T) {
	for _, tt := range []struct {
		status int
		reason string
		class  fault.Class
		remedy string
		asked  int
	}{
		{404, "notFound", fault.Gone, "", 2}, // and one for whether the bucket exists
		{401, "authError", fault.Denied, "log in again (gcloud auth application-default login), or renew the key in GOOGLE_APPLICATION_CREDENTIALS", 1},
		{403, "forbidden", fault.Denied, "allow storage.objects.get on the bucket bucket to this account, such as by the role roles/storage.objectViewer", 1},
		{403, "insufficientPermissions", fault.Denied, "give the instance the scope https://www.googleapis.com/auth/devstorage.read_write, or read_only for read access", 1},
		{403, "accountDisabled", fault.Denied, "give the bucket's project a billing account, and enable the Cloud Storage API in it", 1},
		{403, "retentionPolicyNotMet", fault.Permanent, "the bucket bucket makes its objects immutable, but a state store has to change them: remove its retention policy and holds", 1},
		{403, "quotaExceeded", fault.Quota, "ask for a higher limit, or wait until the quota period ends", 1},
		{403, "rateLimitExceeded", fault.Throttled, "", 7},
		{412, "conditionNotMet", fault.Conflict, "", 1},
		{429, "rateLimitExceeded", fault.Throttled, "", 7},
		{503, "backendError", fault.Throttled, "", 7},
		{500, "internalError", fault.Throttled, "", 7},
		{408, "requestTimeout", fault.Throttled, "", 7},
		{400, "invalid", fault.Permanent, "", 1},
	} {
		s := &server{answer: func(_ int, r *http.Request) *http.Response {
			if r.URL.Query().Has("maxResults") {
				return reply(200, "{}")
			}
			return refusal(tt.status, tt.reason)
		}}
		_, _, err := s.open(t).Get(t.Context(), "a")
		if fault.Of(err) != tt.class || fault.Remedy(err) != tt.remedy || len(s.seen) != tt.asked || store.IsMissing(err) {
			t.Errorf("%d %s: class %q, remedy %q after %d requests", tt.status, tt.reason, fault.Of(err), fault.Remedy(err), len(s.seen))
		}
		if err == nil || err.Error() != "read gs://bucket/state/a: because" {
			t.Errorf("%d %s: %v", tt.status, tt.reason, err)
		}
	}
}

// The storage answers with a short text; other programs may answer with an HTML page.
func TestTheTextOfAnErrorIsTheServersWhereItIsShort(t *testing.T) {
	for body, want := range map[string]string{"No such object: bucket/a": "No such object: bucket/a", "<html>a page</html>": "the server answers 400 Bad Request", "": "the server answers 400 Bad Request"} {
		s := &server{answer: func(int, *http.Request) *http.Response { return reply(400, body) }}
		if _, _, err := s.open(t).Get(t.Context(), "a"); err == nil || err.Error() != "read gs://bucket/state/a: "+want {
			t.Errorf("%q: %v", body, err)
		}
	}
}

func TestABrokenConnectionLosesTheAnswer(t *testing.T) {
	synctest.Test(t, aBrokenConnectionLosesTheAnswer)
}

func aBrokenConnectionLosesTheAnswer(t *testing.T) {
	for call, do := range map[string]func(store.Store) error{
		"read": func(s store.Store) error { _, _, err := s.Get(t.Context(), "a"); return err },
		"list": func(s store.Store) error {
			for _, err := range s.List(t.Context(), "a") {
				return err
			}
			return nil
		},
		"write": func(s store.Store) error {
			_, err := s.Put(t.Context(), "a", nil, store.PutOptions{IfAbsent: true})
			return err
		},
		"delete": func(s store.Store) error { return s.Delete(t.Context(), "a", store.DeleteOptions{}) },
	} {
		s := &server{answer: func(int, *http.Request) *http.Response { return nil }}
		err := do(s.open(t))
		if !fault.Is(err, fault.Lost) || !errors.Is(err, syscall.ECONNRESET) || len(s.seen) != 7 || !strings.HasPrefix(err.Error(), call+" gs://bucket/state/a: ") ||
			fault.Remedy(err) != "check the network, and the endpoint of the state store" {
			t.Errorf("%s: %s after %d requests: %v", call, fault.Of(err), len(s.seen), err)
		}
	}
}

// If many requests are hit by one interruption, each has its own retries.
func TestAnInterruptionMeetsManyRequests(t *testing.T) { synctest.Test(t, anInterruptionMeetsMany) }

func anInterruptionMeetsMany(t *testing.T) {
	heals := time.Now().Add(3 * time.Second)
	s := &server{answer: func(int, *http.Request) *http.Response {
		if time.Now().Before(heals) {
			return nil
		}
		return found("x", "1")
	}}
	b := s.open(t)
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			if _, _, err := b.Get(t.Context(), "a"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// The object is written, but the answer is lost, and the same request is sent again.
func TestOwnWriteIsNotAConflict(t *testing.T) { synctest.Test(t, ownWriteIsNotAConflict) }

func ownWriteIsNotAConflict(t *testing.T) {
	for _, o := range []store.PutOptions{{IfAbsent: true}, {IfVersion: "17"}} {
		for _, stored := range []string{"mine", "another's"} {
			s := &server{answer: func(n int, r *http.Request) *http.Response {
				switch {
				case n == 1:
					return nil
				case r.Method == http.MethodPost:
					return refusal(412, "conditionNotMet")
				}
				return found(stored, "18")
			}}
			v, err := s.open(t).Put(t.Context(), "lease", []byte("mine"), o)
			if stored == "mine" && (err != nil || v != "18") {
				t.Errorf("%+v: %q, %v", o, v, err)
			}
			if stored != "mine" && !fault.Is(err, fault.Conflict) {
				t.Errorf("%+v: another's write: %q, %v; want a conflict", o, v, err)
			}
		}
	}
	// Without a lost answer the content is not compared: the same content from another
	// writer is a conflict.
	s := &server{answer: func(int, *http.Request) *http.Response { return refusal(412, "conditionNotMet") }}
	if _, err := s.open(t).Put(t.Context(), "a", []byte("x"), store.PutOptions{IfAbsent: true}); !fault.Is(err, fault.Conflict) || len(s.seen) != 1 {
		t.Errorf("%v after %d requests", err, len(s.seen))
	}
}

func TestEachCallIsOneRequest(t *testing.T) {
	var sent bytes.Buffer
	s := &server{answer: func(_ int, r *http.Request) *http.Response {
		switch r.Method {
		case http.MethodPost:
			return reply(200, `{"generation":"18","crc32c":"`+crc("x")+`"}`)
		case http.MethodDelete:
			return reply(204, "")
		}
		if r.URL.Query().Has("pageToken") {
			return reply(200, `{"items":[{"name":"state/folder/","size":"0","generation":"2"},{"name":"state/composed","size":"9","generation":"3"}]}`)
		}
		return reply(200, `{"items":[{"name":"state/a","size":"1","generation":"1","md5Hash":"DMF1ucDxtqgxw5niaXcmYQ=="}],"nextPageToken":"n"}`)
	}}
	b := open(t, gs.Config{HTTP: &http.Client{Transport: recorder{&sent, s}}, Token: bearer("t")}, "gs://bucket/state")
	for _, o := range []store.PutOptions{{IfVersion: "17", PublicRead: true}, {IfVersion: "an ETag of S3"}, {IfAbsent: true, Private: true}} {
		if v, err := b.Put(t.Context(), "a b/c", []byte("x"), o); v != "18" || err != nil {
			t.Fatal(v, err)
		}
	}
	var listed []store.Info
	for info, err := range b.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, info)
	}
	if err := b.Delete(t.Context(), "a b/c", store.DeleteOptions{IfVersion: "18"}); err != nil {
		t.Fatal(err)
	}
	const at, list, put = "/storage/v1/b/bucket/o", "fields=items%28name%2Csize%2Cgeneration%2Cmd5Hash%29%2CnextPageToken&maxResults=1000&", "?fields=generation%2Ccrc32c&ifGenerationMatch="
	want := []string{
		"POST /upload" + at + put + "17&predefinedAcl=publicRead&uploadType=multipart", "GET " + at + "/state%2Fa%20b%2Fc?fields=generation",
		"POST /upload" + at + put + "1&uploadType=multipart", "POST /upload" + at + put + "0&uploadType=multipart",
		"GET " + at + "?" + list + "prefix=state%2F", "GET " + at + "?" + list + "pageToken=n&prefix=state%2F",
		"DELETE " + at + "/state%2Fa%20b%2Fc?ifGenerationMatch=18",
	}
	for i, r := range s.seen {
		if got := r.Method + " " + r.URL.RequestURI(); len(s.seen) != len(want) || got != want[i] {
			t.Errorf("request %d of %d is %s", i+1, len(s.seen), got)
		}
		if anybody := i == 1; (r.Header.Get("Authorization") != "Bearer t") != anybody {
			t.Errorf("request %d bears %q", i+1, r.Header.Get("Authorization"))
		}
	}
	if wantListed := []store.Info{{Key: "a", Size: 1, Version: "1", Digest: "0cc175b9c0f1b6a831c399e269772661"}, {Key: "composed", Size: 9, Version: "3"}}; fmt.Sprint(listed) != fmt.Sprint(wantListed) {
		t.Errorf("listed %v", listed)
	}
	if !strings.Contains(sent.String(), `{"name":"state/a b/c","crc32c":"`+crc("x")+`","md5Hash":"ndTkYSaMgDT1yFZOFVxnpg==","cacheControl":"no-store"}`) {
		t.Errorf("sent is %s", sent.String())
	}
}

// recorder records what is sent.
type recorder struct {
	to io.Writer
	by http.RoundTripper
}

func (t recorder) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		r.Body = io.NopCloser(io.TeeReader(r.Body, t.to))
	}
	return t.by.RoundTrip(r)
}

// An answer without the version that guards the next write, and a damaged object, are errors.
func TestHalfAnswersAreRefused(t *testing.T) {
	s := &server{answer: func(int, *http.Request) *http.Response { return reply(200, "{}") }}
	if _, _, err := s.open(t).Get(t.Context(), "a"); !fault.Is(err, fault.Permanent) || fault.Remedy(err) == "" {
		t.Errorf("read without a generation: %v", err)
	}
	if _, err := s.open(t).Put(t.Context(), "a", nil, store.PutOptions{}); !fault.Is(err, fault.Permanent) || fault.Remedy(err) == "" {
		t.Errorf("write without a generation: %v", err)
	}
	s = &server{answer: func(int, *http.Request) *http.Response { return reply(200, `{"generation":"1","crc32c":"AAAAAA=="}`) }}
	if _, err := s.open(t).Put(t.Context(), "a", []byte("x"), store.PutOptions{}); !fault.Is(err, fault.Lost) {
		t.Errorf("a damaged write: %v", err)
	}
	damaged := func(n int) *server {
		return &server{answer: func(i int, _ *http.Request) *http.Response {
			if i <= n {
				return reply(200, "hal", "X-Goog-Generation", "1", "X-Goog-Hash", "md5=x,crc32c="+crc("half"))
			}
			return found("half", "1")
		}}
	}
	if data, v, err := damaged(1).open(t).Get(t.Context(), "a"); string(data) != "half" || v != "1" || err != nil {
		t.Errorf("damaged once: %q, %q, %v", data, v, err)
	}
	if _, _, err := damaged(9).open(t).Get(t.Context(), "a"); !fault.Is(err, fault.Lost) {
		t.Errorf("damaged always: %v", err)
	}
	s = &server{answer: func(int, *http.Request) *http.Response {
		return reply(200, "what was unpacked", "X-Goog-Generation", "1", "X-Goog-Hash", "crc32c="+crc("packed"), "X-Goog-Stored-Content-Encoding", "gzip")
	}}
	if data, _, err := s.open(t).Get(t.Context(), "a"); string(data) != "what was unpacked" || err != nil {
		t.Errorf("an object stored in compressed form: %q, %v", data, err)
	}
}

func TestCutAnswerIsReadAgain(t *testing.T) { synctest.Test(t, cutAnswerIsReadAgain) }

func cutAnswerIsReadAgain(t *testing.T) {
	s := &server{answer: func(n int, _ *http.Request) *http.Response {
		answer := found("the whole content", "1")
		if n == 1 {
			answer.Body = io.NopCloser(io.MultiReader(strings.NewReader("the wh"), broken{}))
		}
		return answer
	}}
	data, _, err := s.open(t).Get(t.Context(), "a")
	if string(data) != "the whole content" || err != nil || len(s.seen) != 2 {
		t.Errorf("%q, %v", data, err)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// After a purge, a bucket that keeps versions has none of the purged keys, and all of the others.
func TestPurgeLeavesNoVersion(t *testing.T) {
	const versions = `{"items":[{"name":"state/b/1","generation":"1"},{"name":"state/b/1","generation":"2"},{"name":"state/b/10","generation":"3"},{"name":"state/b/2","generation":"4"}]}`
	s := &server{answer: func(_ int, r *http.Request) *http.Response {
		if r.Method == http.MethodDelete {
			return reply(204, "")
		}
		return reply(200, versions)
	}}
	if err := store.Purge(t.Context(), s.open(t), []string{"b/2", "b/1", "b/0"}); err != nil {
		t.Fatal(err)
	}
	if q := s.seen[0].URL.Query(); q.Get("versions") != "true" || q.Get("prefix") != "state/b/" {
		t.Errorf("listed are %v", q)
	}
	removed := map[string]bool{}
	for _, r := range s.seen[1:] {
		removed[r.URL.Path+"#"+r.URL.Query().Get("generation")] = true
	}
	const at = "/storage/v1/b/bucket/o/state/b/"
	if len(removed) != 3 || !removed[at+"1#1"] || !removed[at+"1#2"] || !removed[at+"2#4"] {
		t.Errorf("removed are %v", removed)
	}
}
