package gs_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/gs"
	"kops.local/kops/internal/store/gs/gstest"
	"kops.local/kops/internal/store/gs/token"
	"kops.local/kops/internal/store/storetest"
)

// An emulator has no users, and must not learn a user's token.
func TestAnEmulatorGetsNoCredentials(t *testing.T) {
	for endpoint, isAsked := range map[string]bool{"": true, "127.0.0.1:1": false} {
		c := gs.FromEnvironment(func(name string) string { return map[string]string{"STORAGE_EMULATOR_HOST": endpoint}[name] }, http.DefaultClient, bearer("me"))
		if c.Endpoint != endpoint || c.HTTP != http.DefaultClient || (c.Token != nil) != isAsked {
			t.Errorf("at %q: %+v", endpoint, c)
		}
	}
}

func TestConformance(t *testing.T) {
	server := gstest.Start(t, "owner")
	server.Bucket(t, "state")
	n := 0
	storetest.Run(t, storetest.Traits{Nested: true, Atomic: true, Digests: true}, func(t *testing.T) storetest.Clients {
		n++
		url := fmt.Sprintf("gs://state/part %d", n)
		return func() store.Store { return open(t, gs.Config{Endpoint: server.URL, Token: bearer("owner")}, url) }
	})
}

// flakyTransport rejects some requests, breaks the connections of others, and loses the answers
// to more. Conditional writes are left alone, see TestOwnWriteIsNotAConflict.
type flakyTransport struct {
	by http.RoundTripper
	n  atomic.Int64
}

func (f *flakyTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	n := f.n.Add(1)
	switch {
	case r.URL.Query().Has("ifGenerationMatch"):
	case n%41 == 3:
		return f.replaceAnswer(r, refusal(503, "backendError")), nil
	case n%43 == 5:
		return f.replaceAnswer(r, refusal(429, "rateLimitExceeded")), nil
	case n%47 == 7:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	case n%53 == 9:
		if answer, err := f.by.RoundTrip(r); err == nil {
			answer.Body.Close()
		}
		return nil, io.ErrUnexpectedEOF
	case n%59 == 11:
		answer, err := f.by.RoundTrip(r)
		if err == nil {
			answer.Body = struct {
				io.Reader
				io.Closer
			}{io.MultiReader(io.LimitReader(answer.Body, 3), broken{}), answer.Body}
		}
		return answer, err
	}
	return f.by.RoundTrip(r)
}

// replaceAnswer returns an answer that did not come from the server.
func (f *flakyTransport) replaceAnswer(r *http.Request, answer *http.Response) *http.Response {
	if r.Body != nil {
		r.Body.Close()
	}
	answer.Request = r
	return answer
}

// A bucket whose requests fail one time in ten behaves like any other store.
func TestConformanceUnderFaults(t *testing.T) {
	server := gstest.Start(t)
	server.Bucket(t, "state")
	client := &http.Client{Transport: &flakyTransport{by: &http.Transport{MaxIdleConnsPerHost: 64}}}
	n := 0
	storetest.Run(t, storetest.Traits{Nested: true, Atomic: true, Digests: true}, func(t *testing.T) storetest.Clients {
		n++
		url := fmt.Sprintf("gs://state/part %d", n)
		return func() store.Store { return open(t, gs.Config{HTTP: client, Endpoint: server.URL}, url) }
	})
	if client.Transport.(*flakyTransport).n.Load() < 2000 {
		t.Error("hardly anything was asked")
	}
}

// bearer returns a source of one token.
func bearer(access string) token.Source {
	return func(context.Context) (token.Token, error) {
		return token.Token{Access: access, Expires: time.Now().Add(time.Hour)}, nil
	}
}

func open(t *testing.T, c gs.Config, url string) store.Store {
	t.Helper()
	s, err := store.Backends{gs.Backend(c)}.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Single objects are read anonymously if they are public, and otherwise with the token.
func TestObjectsAreRead(t *testing.T) {
	server := gstest.Start(t, "machine")
	for _, bucket := range []string{"public", "private"} {
		server.Bucket(t, bucket)
		if _, err := open(t, gs.Config{Endpoint: server.URL, Token: bearer("machine")}, "gs://"+bucket).Put(t.Context(), "v1/kubelet 1", []byte("of google"), store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	server.Open("public")
	none := func(context.Context) (token.Token, error) {
		return token.Token{}, fault.Wrap(fault.Denied, io.EOF, "give it one")
	}
	for _, c := range []struct {
		token              token.Source
		url, error, remedy string
	}{
		{bearer("machine"), "gs://public/v1/kubelet 1", "", ""},
		{none, "gs://public/v1/kubelet 1", "", ""},
		{nil, "gs://public/v1/kubelet 1", "", ""},
		{bearer("machine"), "gs://private/v1/kubelet 1", "", ""},
		{nil, "gs://public/other", "the server answers 404 Not Found", ""},
		{bearer("other"), "gs://private/v1/kubelet 1", "the server answers 401 Unauthorized", ""},
		{nil, "gs://private/v1/kubelet 1", "the server answers 401 Unauthorized", ""},
		{none, "gs://private/v1/kubelet 1", "the server answers 401 Unauthorized to everyone, and EOF", "give it one"},
	} {
		body, err := store.Backends{gs.Backend(gs.Config{Endpoint: server.URL, Token: c.token})}.Read(t.Context(), c.url)
		if err != nil {
			if c.error == "" || !strings.Contains(err.Error(), c.error) || fault.Remedy(err) != c.remedy {
				t.Errorf("%s: %v; %s", c.url, err, fault.Remedy(err))
			}
			if strings.HasSuffix(c.url, "/other") && !fault.Is(err, fault.Gone) {
				t.Errorf("%s is not known to be gone: %v", c.url, err)
			}
			continue
		}
		got, err := io.ReadAll(body)
		if cerr := body.Close(); err != nil || cerr != nil || string(got) != "of google" || c.error != "" {
			t.Errorf("%s: %q %v %v", c.url, got, err, cerr)
		}
	}
}

func TestEverybodyReadsWhatIsPublicAndNothingElse(t *testing.T) {
	server := gstest.Start(t, "owner")
	server.Bucket(t, "issuer")
	s := open(t, gs.Config{Endpoint: server.URL, Token: bearer("owner")}, "gs://issuer/c.example.com")
	if public, err := s.About().Public(t.Context()); public || err != nil {
		t.Errorf("the bucket is public: %v, %v", public, err)
	}
	for key, o := range map[string]store.PutOptions{".well-known/openid-configuration": {PublicRead: true}, "openid/v1/jwks": {PublicRead: true}, "config": {}, "pki/key": {Private: true}} {
		if _, err := s.Put(t.Context(), key, []byte(key), o); err != nil {
			t.Fatal(err)
		}
	}
	reads := func(key string) bool {
		_, _, err := open(t, gs.Config{Endpoint: server.URL}, "gs://issuer/c.example.com").Get(t.Context(), key)
		if err != nil && !fault.Is(err, fault.Denied) {
			t.Error(err)
		}
		return err == nil
	}
	for key, want := range map[string]bool{".well-known/openid-configuration": true, "openid/v1/jwks": true, "config": false, "pki/key": false} {
		if got := reads(key); got != want {
			t.Errorf("public: everyone can read %q: %v", key, got)
		}
	}
	server.Open("issuer")
	if public, err := s.About().Public(t.Context()); !public || err != nil {
		t.Errorf("the bucket is not public: %v, %v", public, err)
	}
	if !reads("config") {
		t.Error("everybody does not read what the policy of the bucket lets them")
	}
}

// In a bucket with uniform access, objects have no ACLs.
func TestABucketWithUniformAccessIsOpenedAsAWhole(t *testing.T) {
	server := gstest.Start(t, "owner")
	server.Bucket(t, "issuer")
	server.Uniform("issuer")
	s := open(t, gs.Config{Endpoint: server.URL, Token: bearer("owner")}, "gs://issuer")
	_, err := s.Put(t.Context(), "openid/v1/jwks", []byte("{}"), store.PutOptions{PublicRead: true})
	if !fault.Is(err, fault.Permanent) || !strings.Contains(fault.Remedy(err), "add-iam-policy-binding gs://issuer --member=allUsers --role=roles/storage.objectViewer") {
		t.Errorf("%v; %s", err, fault.Remedy(err))
	}
	server.Open("issuer")
	if public, err := s.About().Public(t.Context()); !public || err != nil {
		t.Errorf("the bucket is not public: %v, %v", public, err)
	}
	if _, err := s.Put(t.Context(), "openid/v1/jwks", []byte("{}"), store.PutOptions{}); err != nil {
		t.Error(err)
	}
}

func TestAMissingBucket(t *testing.T) {
	server := gstest.Start(t)
	s := open(t, gs.Config{Endpoint: server.URL}, "gs://nowhere/c")
	for call, do := range map[string]func() error{
		"read": func() error { _, _, err := s.Get(t.Context(), "a"); return err },
		"list": func() error {
			for _, err := range s.List(t.Context(), "a") {
				return err
			}
			return nil
		},
		"write":  func() error { _, err := s.Put(t.Context(), "a", nil, store.PutOptions{}); return err },
		"delete": func() error { return s.Delete(t.Context(), "a", store.DeleteOptions{}) },
		"check whether public access is allowed to": func() error {
			_, err := s.About().Public(t.Context())
			return err
		},
	} {
		err := do()
		if !fault.Is(err, fault.Permanent) || !store.IsMissing(err) || fault.Remedy(err) != "create the bucket (gcloud storage buckets create gs://nowhere), or correct its name" ||
			!strings.HasPrefix(err.Error(), call+" gs://nowhere/c") {
			t.Errorf("%s: %v; %s", call, err, fault.Remedy(err))
		}
	}
}

func TestOpenNeedsABucket(t *testing.T) {
	if s, err := (store.Backends{gs.Backend(gs.Config{})}).Open(t.Context(), "gs://"); err == nil || !strings.Contains(err.Error(), "the name of the bucket is missing") {
		t.Errorf("%v, %v", s, err)
	}
	for endpoint, want := range map[string]string{"": "https://storage.googleapis.com/b/c", "127.0.0.1:4443": "http://127.0.0.1:4443/b/c", "https://s.example.com/": "https://s.example.com/b/c"} {
		if got := open(t, gs.Config{Endpoint: endpoint}, "gs://b/c/").About().Web(); got != want {
			t.Errorf("at %q the web finds it at %s", endpoint, got)
		}
	}
}
