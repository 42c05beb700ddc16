package s3_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/s3"
)

// server answers requests in place of a bucket, and records them.
type server struct {
	answer func(n int, r *http.Request) *http.Response // n counts from 1
	seen   []*http.Request
}

func (s *server) Do(r *http.Request) (*http.Response, error) {
	s.seen = append(s.seen, r)
	answer := s.answer(len(s.seen), r)
	if answer == nil {
		return nil, io.ErrUnexpectedEOF
	}
	answer.Request = r
	return answer, nil
}

func (s *server) open(t *testing.T, cfg s3.Config) store.Store {
	t.Helper()
	cfg.HTTPClient = s
	cfg.Credentials = credentials.NewStaticCredentialsProvider("id", "secret", "")
	return open(t, cfg, "s3://bucket/state")
}

func reply(status int, body string, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}
}

func refusal(status int, code string) *http.Response {
	return reply(status, "<Error><Code>"+code+"</Code><Message>because</Message></Error>", "X-Amz-Request-Id", "4711")
}

func TestErrorsAreClassed(t *testing.T) { synctest.Test(t, errorsAreClassed) }

func errorsAreClassed(t *testing.T) {
	tests := []struct {
		status int
		code   string
		class  fault.Class
		remedy string
	}{
		{404, "NoSuchKey", fault.Gone, ""},
		{404, "NoSuchBucket", fault.Permanent, "create the bucket (aws s3 mb s3://bucket), or correct its name"},
		{403, "AccessDenied", fault.Denied, "allow s3:GetObject on arn:aws:s3:::bucket/state/a to this identity"},
		{403, "InvalidAccessKeyId", fault.Denied, "check or renew the credentials for the state store"},
		{403, "SignatureDoesNotMatch", fault.Denied, "check or renew the credentials for the state store"},
		{409, "OperationAborted", fault.Conflict, ""},
		{412, "PreconditionFailed", fault.Conflict, ""},
		{501, "NotImplemented", fault.Permanent, "the server does not support conditional writes, so two commands could overwrite each other's changes; use another one"},
		{503, "SlowDown", fault.Throttled, ""},
		{500, "InternalError", fault.Throttled, ""},
		{400, "MalformedXML", fault.Permanent, ""},
		{400, "AuthorizationHeaderMalformed", fault.Permanent, "set S3_REGION to the region of the bucket"},
	}
	for _, tt := range tests {
		s := &server{answer: func(int, *http.Request) *http.Response { return refusal(tt.status, tt.code) }}
		_, _, err := s.open(t, s3.Config{}).Get(t.Context(), "a")
		if fault.Of(err) != tt.class || fault.Remedy(err) != tt.remedy {
			t.Errorf("%d %s: class %q, remedy %q", tt.status, tt.code, fault.Of(err), fault.Remedy(err))
		}
		if store.IsMissing(err) != (tt.code == "NoSuchBucket") {
			t.Errorf("%d %s says of the bucket itself that it is missing: %v", tt.status, tt.code, store.IsMissing(err))
		}
		if err == nil || err.Error() != "read s3://bucket/state/a: "+tt.code+": because (request 4711)" {
			t.Errorf("%d %s: %v", tt.status, tt.code, err)
		}
	}
}

// unreachableClient is a server to which every connection fails with an error.
type unreachableClient struct {
	why   error
	asked int
}

func (u *unreachableClient) Do(r *http.Request) (*http.Response, error) {
	u.asked++
	return nil, &url.Error{Op: r.Method, URL: r.URL.String(), Err: u.why}
}

func TestABrokenConnectionLosesTheAnswer(t *testing.T) {
	synctest.Test(t, aBrokenConnectionLosesTheAnswer)
}

func aBrokenConnectionLosesTheAnswer(t *testing.T) {
	const network = "check the network, and the endpoint of the state store"
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for name, c := range map[string]struct {
		why    error
		class  fault.Class
		remedy string
		asked  int
	}{
		"nobody listens":          {dial(syscall.ECONNREFUSED), fault.Lost, network, 7},
		"a reset":                 {&net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}, fault.Lost, network, 7},
		"a cut":                   {io.ErrUnexpectedEOF, fault.Lost, network, 7},
		"no answer in time":       {dial(os.ErrDeadlineExceeded), fault.Lost, network, 3},
		"a name that is none":     {dial(&net.DNSError{Err: "no such host", Name: "s3.example.com", IsNotFound: true}), fault.Permanent, network, 1},
		"an authority of nowhere": {&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, fault.Permanent, "check the proxy, or install the certificate authority of the state store on this machine", 1},
		"a server without TLS":    {http.ErrSchemeMismatch, fault.Permanent, network, 1},
	} {
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
			u := &unreachableClient{why: c.why}
			err := do(open(t, s3.Config{HTTPClient: u}, "s3://bucket/state"))
			if fault.Of(err) != c.class || fault.Remedy(err) != c.remedy || !errors.Is(err, c.why) || u.asked != c.asked {
				t.Errorf("%s, %s: %s (%q) after %d requests: %v", name, call, fault.Of(err), fault.Remedy(err), u.asked, err)
			}
			if err != nil && (!strings.HasPrefix(err.Error(), call+" s3://bucket/state/a: ") || strings.Contains(err.Error(), "StatusCode: 0")) {
				t.Errorf("%s, %s: the text is %v", name, call, err)
			}
		}
	}
}

// A body that is cut off each time is not taken for the complete object, however the protocol
// reports it.
func TestAnAnswerThatBreaksOffIsLost(t *testing.T) {
	for _, why := range []error{io.ErrUnexpectedEOF, errors.New("stream error: stream ID 3; INTERNAL_ERROR")} {
		s := &server{answer: func(int, *http.Request) *http.Response {
			answer := reply(200, "", "ETag", `"v"`)
			answer.Body = io.NopCloser(brokenReader{why})
			return answer
		}}
		_, _, err := s.open(t, s3.Config{}).Get(t.Context(), "a")
		if !fault.Is(err, fault.Lost) || !errors.Is(err, why) || len(s.seen) != 4 {
			t.Errorf("%s after %d requests: %v", fault.Of(err), len(s.seen), err)
		}
	}
}

// If many requests are hit by one interruption, each has its own retries.
func TestAnInterruptionMeetsManyRequests(t *testing.T) { synctest.Test(t, anInterruptionMeetsMany) }

func anInterruptionMeetsMany(t *testing.T) {
	heals := time.Now().Add(3 * time.Second)
	flaky := flakyClient(heals)
	b := open(t, s3.Config{HTTPClient: flaky}, "s3://bucket/state")
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

// flakyClient is a server whose connections break until the given time.
type flakyClient time.Time

func (f flakyClient) Do(r *http.Request) (*http.Response, error) {
	if time.Now().Before(time.Time(f)) {
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	}
	answer := reply(200, "x", "ETag", `"v"`)
	answer.Request = r
	return answer, nil
}

func TestThrottledRequestsAreSentAgain(t *testing.T) { synctest.Test(t, throttledRequestsAreSentAgain) }

func throttledRequestsAreSentAgain(t *testing.T) {
	s := &server{answer: func(n int, _ *http.Request) *http.Response {
		if n < 3 {
			return refusal(503, "SlowDown")
		}
		return reply(200, "content", "ETag", `"v1"`)
	}}
	data, v, err := s.open(t, s3.Config{}).Get(t.Context(), "a")
	if string(data) != "content" || v != "v1" || err != nil || len(s.seen) != 3 {
		t.Errorf("%q, %q, %v after %d requests", data, v, err, len(s.seen))
	}
}

func TestSecretsAreNeverPublic(t *testing.T) {
	for acl, refused := range map[string]bool{"public-read": true, "authenticated-read": true, "private": false, "bucket-owner-full-control": false, "": false} {
		s := &server{answer: func(int, *http.Request) *http.Response { return reply(200, "", "ETag", `"v"`) }}
		b := s.open(t, s3.Config{Endpoint: "https://objects.example.com", ACL: acl})
		_, err := b.Put(t.Context(), "keyset.yaml", []byte("x"), store.PutOptions{Private: true})
		if (err != nil) != refused || refused && (len(s.seen) > 0 || !strings.Contains(fault.Remedy(err), "KOPS_STATE_S3_ACL")) {
			t.Errorf("%q: %v", acl, err)
		}
		if _, err := b.Put(t.Context(), "keys.json", []byte("x"), store.PutOptions{}); err != nil {
			t.Errorf("%q, no secret: %v", acl, err)
		}
	}
}

func TestEachCallIsOneRequest(t *testing.T) {
	const listing = `<ListBucketResult><Contents><Key>state/a</Key><Size>1</Size><ETag>"0cc175b9c0f1b6a831c399e269772661"</ETag></Contents>
		<Contents><Key>state/folder/</Key><Size>0</Size></Contents><Contents><Key>state/big</Key><Size>9</Size><ETag>"d41d8cd98f00b204e9800998ecf8427e-2"</ETag></Contents></ListBucketResult>`
	s := &server{answer: func(_ int, r *http.Request) *http.Response {
		if r.URL.Query().Has("list-type") {
			return reply(200, listing)
		}
		return reply(200, "", "ETag", `"v"`)
	}}
	b := s.open(t, s3.Config{Unproven: true, Endpoint: "https://objects.example.com", ACL: "bucket-owner-full-control"})
	if _, err := b.Put(t.Context(), "a b", []byte("x"), store.PutOptions{IfVersion: "v0", PublicRead: true}); err != nil {
		t.Fatal(err)
	}
	var listed []store.Info
	for info, err := range b.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, info)
	}
	if err := store.DeleteAll(t.Context(), b, make1500()); err != nil {
		t.Fatal(err)
	}
	want := []string{"PUT /bucket/state/a%20b", "HEAD /bucket/state/a%20b", "GET /bucket", "POST /bucket", "POST /bucket"}
	for i, r := range s.seen {
		if got := r.Method + " " + strings.TrimSuffix(r.URL.EscapedPath(), "/"); len(s.seen) != len(want) || got != want[i] {
			t.Errorf("request %d of %d is %s", i+1, len(s.seen), got)
		}
		if r.Header.Get("X-Amz-Trailer") != "" || r.Header.Get("Content-Encoding") != "" {
			t.Errorf("request %d has trailers: %v", i+1, r.Header)
		}
	}
	put := s.seen[0]
	if put.Header.Get("If-Match") != `"v0"` || put.Header.Get("X-Amz-Acl") != "bucket-owner-full-control" || put.ContentLength != 1 {
		t.Errorf("put has headers %v", put.Header)
	}
	if asked := s.seen[1].Header; asked.Get("Authorization") != "" {
		t.Errorf("whether public: everyone can read is asked with %v", asked)
	}
	if s.seen[3].Header.Get("Content-Md5") == "" {
		t.Errorf("delete has headers %v", s.seen[3].Header)
	}
	wantListed := []store.Info{
		{Key: "a", Size: 1, Version: "0cc175b9c0f1b6a831c399e269772661", Digest: "0cc175b9c0f1b6a831c399e269772661"},
		{Key: "big", Size: 9, Version: "d41d8cd98f00b204e9800998ecf8427e-2"},
	}
	if fmt.Sprint(listed) != fmt.Sprint(wantListed) {
		t.Errorf("listed %v", listed)
	}
}

func make1500() []string {
	keys := make([]string, 1500)
	for i := range keys {
		keys[i] = fmt.Sprint(i)
	}
	return keys
}

// Versions are found by listing, not key by key; the listing stops after the last key.
func TestPurgeAsksInBulk(t *testing.T) {
	page := func(truncated string, entries ...string) string {
		return "<ListVersionsResult>" + truncated + strings.Join(entries, "") + "</ListVersionsResult>"
	}
	entry := func(kind, key, version string) string {
		return "<" + kind + "><Key>state/b/" + key + "</Key><VersionId>" + version + "</VersionId></" + kind + ">"
	}
	const more = "<IsTruncated>true</IsTruncated><NextKeyMarker>state/b/"
	pages := []string{
		page(more+"1/x</NextKeyMarker><NextVersionIdMarker>v1</NextVersionIdMarker>", entry("Version", "1/x", "v2"), entry("Version", "1/x", "v1"), entry("Version", "1/other", "v9")),
		page(more+"4/x</NextKeyMarker>", entry("Version", "1/x", "v0"), entry("DeleteMarker", "3/x", "m"), entry("Version", "4/x", "v7")),
	}
	var deleted string
	s := &server{answer: func(n int, r *http.Request) *http.Response {
		if r.Method == http.MethodPost {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			deleted = string(body)
			return reply(200, "<DeleteResult/>")
		}
		return reply(200, pages[n-1])
	}}
	if err := store.Purge(t.Context(), s.open(t, s3.Config{}), []string{"b/3/x", "b/1/x", "b/2/absent"}); err != nil {
		t.Fatal(err)
	}
	if len(s.seen) != 3 || s.seen[0].URL.Query().Get("prefix") != "state/b/" || s.seen[1].URL.Query().Get("key-marker") != "state/b/1/x" ||
		s.seen[1].URL.Query().Get("version-id-marker") != "v1" {
		t.Errorf("asked were %v", s.seen)
	}
	for _, want := range []string{entryOf("1/x", "v2"), entryOf("1/x", "v1"), entryOf("1/x", "v0"), entryOf("3/x", "m")} {
		if !strings.Contains(deleted, want) {
			t.Errorf("%s is not among %s", want, deleted)
		}
	}
	if strings.Count(deleted, "<Object>") != 4 {
		t.Errorf("deleted are %s", deleted)
	}
}

func entryOf(key, version string) string {
	return "<Object><Key>state/b/" + key + "</Key><VersionId>" + version + "</VersionId></Object>"
}

// If the server does not support versions, only the objects are removed; if it denies or truncates the
// listing, nothing is.
func TestPurgeWhereNoVersionsAreListed(t *testing.T) {
	s := &server{answer: func(_ int, r *http.Request) *http.Response {
		if r.Method == http.MethodPost {
			return reply(200, "<DeleteResult/>")
		}
		return refusal(501, "NotImplemented")
	}}
	if err := store.Purge(t.Context(), s.open(t, s3.Config{}), []string{"a"}); err != nil || s.seen[len(s.seen)-1].Method != http.MethodPost {
		t.Errorf("%v after %d requests", err, len(s.seen))
	}
	s = &server{answer: func(int, *http.Request) *http.Response { return refusal(403, "AccessDenied") }}
	err := store.Purge(t.Context(), s.open(t, s3.Config{}), []string{"a/1", "a/2"})
	if !fault.Is(err, fault.Denied) || fault.Remedy(err) != "allow s3:ListBucketVersions on arn:aws:s3:::bucket to this identity" || len(s.seen) != 1 {
		t.Errorf("%v (%s) after %d requests", err, fault.Remedy(err), len(s.seen))
	}
	s = &server{answer: func(int, *http.Request) *http.Response {
		return reply(200, "<ListVersionsResult><IsTruncated>true</IsTruncated></ListVersionsResult>")
	}}
	if err := store.Purge(t.Context(), s.open(t, s3.Config{}), []string{"a"}); !fault.Is(err, fault.Permanent) || len(s.seen) != 1 {
		t.Errorf("half a listing: %v after %d requests", err, len(s.seen))
	}
}

// The object is written, but the answer is lost, and the same request is sent again.
func TestOwnWriteIsNotAConflict(t *testing.T) { synctest.Test(t, ownWriteIsNotAConflict) }

func ownWriteIsNotAConflict(t *testing.T) {
	for _, o := range []store.PutOptions{{IfAbsent: true}, {IfVersion: "old"}} {
		for _, stored := range []string{"mine", "another's"} {
			s := &server{answer: func(n int, r *http.Request) *http.Response {
				switch {
				case n == 1:
					return nil
				case r.Method == http.MethodPut:
					return refusal(412, "PreconditionFailed")
				}
				return reply(200, stored, "ETag", `"v2"`)
			}}
			v, err := s.open(t, s3.Config{}).Put(t.Context(), "lease", []byte("mine"), o)
			if stored == "mine" && (err != nil || v != "v2") {
				t.Errorf("%+v: %q, %v", o, v, err)
			}
			if stored != "mine" && !fault.Is(err, fault.Conflict) {
				t.Errorf("%+v: another's write: %q, %v; want a conflict", o, v, err)
			}
		}
	}
	// Without a lost answer the content is not compared: the same content from another
	// writer is a conflict.
	s := &server{answer: func(int, *http.Request) *http.Response { return refusal(412, "PreconditionFailed") }}
	if _, err := s.open(t, s3.Config{}).Put(t.Context(), "a", []byte("x"), store.PutOptions{IfAbsent: true}); !fault.Is(err, fault.Conflict) || len(s.seen) != 1 {
		t.Errorf("%v after %d requests", err, len(s.seen))
	}
}

// Amazon answers 409 to a write whose condition it cannot check, because another one is in
// progress.
func TestCollidingWriteIsMadeAgain(t *testing.T) { synctest.Test(t, collidingWriteIsMadeAgain) }

func collidingWriteIsMadeAgain(t *testing.T) {
	for _, o := range []store.PutOptions{{}, {IfAbsent: true}, {IfVersion: "old"}} {
		s := &server{answer: func(n int, _ *http.Request) *http.Response {
			if n < 3 {
				return refusal(409, "ConditionalRequestConflict")
			}
			return reply(200, "", "ETag", `"v"`)
		}}
		if v, err := s.open(t, s3.Config{}).Put(t.Context(), "a", []byte("x"), o); v != "v" || err != nil || len(s.seen) != 3 {
			t.Errorf("%+v: %q, %v after %d requests", o, v, err, len(s.seen))
		}
		for _, r := range s.seen {
			if (r.Header.Get("If-None-Match") != "") != o.IfAbsent || (r.Header.Get("If-Match") != "") != (o.IfVersion != "") {
				t.Errorf("%+v: a request lost its condition: %v", o, r.Header)
			}
		}
		s = &server{answer: func(_ int, r *http.Request) *http.Response {
			if r.Method == http.MethodGet {
				return reply(200, "another's", "ETag", `"v2"`)
			}
			return refusal(409, "ConditionalRequestConflict")
		}}
		if _, err := s.open(t, s3.Config{}).Put(t.Context(), "a", []byte("x"), o); !fault.Is(err, fault.Conflict) || len(s.seen) > 10 {
			t.Errorf("%+v, always: %v after %d requests", o, err, len(s.seen))
		}
	}
}

// An answer without the version that guards the next write, or without a part of a listing,
// is an error.
func TestHalfAnswersAreRefused(t *testing.T) {
	const half = `<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>state/a</Key><Size>1</Size><ETag>"v"</ETag></Contents></ListBucketResult>`
	s := &server{answer: func(int, *http.Request) *http.Response { return reply(200, half) }}
	b := s.open(t, s3.Config{})
	if _, _, err := b.Get(t.Context(), "a"); !fault.Is(err, fault.Permanent) || fault.Remedy(err) == "" {
		t.Errorf("read without an ETag: %v", err)
	}
	if _, err := b.Put(t.Context(), "a", nil, store.PutOptions{}); !fault.Is(err, fault.Permanent) || fault.Remedy(err) == "" {
		t.Errorf("write without an ETag: %v", err)
	}
	var last error
	n := 0
	for _, err := range b.List(t.Context(), "") {
		n, last = n+1, err
	}
	if n != 2 || !fault.Is(last, fault.Permanent) {
		t.Errorf("a listing without its end: %d entries, %v", n, last)
	}
}

func TestCutAnswerIsReadAgain(t *testing.T) {
	s := &server{answer: func(n int, _ *http.Request) *http.Response {
		answer := reply(200, "the whole content", "ETag", `"v"`)
		if n == 1 {
			answer.Body = io.NopCloser(io.MultiReader(strings.NewReader("the wh"), brokenReader{io.ErrUnexpectedEOF}))
		}
		return answer
	}}
	data, _, err := s.open(t, s3.Config{}).Get(t.Context(), "a")
	if !bytes.Equal(data, []byte("the whole content")) || err != nil {
		t.Errorf("%q, %v", data, err)
	}
}

type brokenReader struct{ why error }

func (b brokenReader) Read([]byte) (int, error) { return 0, b.why }

func TestBucketElsewhere(t *testing.T) {
	s := &server{answer: func(_ int, r *http.Request) *http.Response {
		if !strings.Contains(r.URL.Host, "eu-west-3") {
			answer := refusal(301, "PermanentRedirect")
			answer.Header.Set("X-Amz-Bucket-Region", "eu-west-3")
			return answer
		}
		return reply(200, "x", "ETag", `"v"`)
	}}
	b := s.open(t, s3.Config{Region: "us-west-2"})
	for range 3 {
		if _, _, err := b.Get(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.seen) != 4 {
		t.Errorf("%d requests for three reads; the region is asked for once", len(s.seen))
	}
	if host := s.seen[3].URL.Host; host != "bucket.s3.dualstack.eu-west-3.amazonaws.com" {
		t.Errorf("the last went to %s", host)
	}
}

func TestOpenNeedsABucketAndAnEndpoint(t *testing.T) {
	backends := store.Backends{s3.Backend(s3.Config{}), s3.Compatible(s3.Config{})}
	for url, remedy := range map[string]string{"s3://": "", "do://bucket/x": "set S3_ENDPOINT to the URL of the object storage"} {
		if s, err := backends.Open(t.Context(), url); err == nil || fault.Remedy(err) != remedy {
			t.Errorf("%s: %v, %v, remedy %q", url, s, err, fault.Remedy(err))
		}
	}
	s := &server{answer: func(int, *http.Request) *http.Response { return reply(200, "x", "ETag", `"v"`) }}
	if _, _, err := s.open(t, s3.Config{Endpoint: "s3.example.com"}).Get(t.Context(), "a"); err != nil || s.seen[0].URL.String() != "https://s3.example.com/bucket/state/a?x-id=GetObject" {
		t.Errorf("an endpoint without a scheme: %v, %v", err, s.seen)
	}
	if s := open(t, s3.Config{Endpoint: "https://fra1.digitaloceanspaces.com"}, "do://bucket/x/"); s.About().URL != "do://bucket/x" {
		t.Errorf("opened %s", s.About().URL)
	}
}

func TestABucketSaysWhetherItIsPublic(t *testing.T) {
	status := func(public string) func(int, *http.Request) *http.Response {
		return func(int, *http.Request) *http.Response {
			return reply(200, "<PolicyStatus><IsPublic>"+public+"</IsPublic></PolicyStatus>")
		}
	}
	refuse := func(status int, code string) func(int, *http.Request) *http.Response {
		return func(int, *http.Request) *http.Response { return refusal(status, code) }
	}
	for _, c := range []struct {
		name   string
		answer func(int, *http.Request) *http.Response
		public bool
		remedy string
	}{
		{"public", status("TRUE"), true, ""},
		{"not public", status("FALSE"), false, ""},
		{"no policy", refuse(404, "NoSuchBucketPolicy"), false, ""},
		{"no such question", refuse(405, "MethodNotAllowed"), false, ""},
		{"refused", refuse(403, "AccessDenied"), false, "allow s3:GetBucketPolicyStatus on arn:aws:s3:::bucket to this identity"},
	} {
		s := &server{answer: c.answer}
		got, err := s.open(t, s3.Config{}).About().Public(t.Context())
		if got != c.public || (err != nil) != (c.remedy != "") || err != nil && !strings.Contains(err.Error()+fault.Remedy(err), c.remedy) {
			t.Errorf("%s: %v, %v", c.name, got, err)
		}
		if q := s.seen[0].URL.Query(); !q.Has("policyStatus") {
			t.Errorf("%s: asked %s", c.name, s.seen[0].URL)
		}
	}
}
