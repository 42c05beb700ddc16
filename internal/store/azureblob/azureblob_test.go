package azureblob_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/azureblob"
	"kops.local/kops/internal/store/azureblob/azuretest"
	"kops.local/kops/internal/store/storetest"
)

func TestAzurite(t *testing.T) {
	server := azuretest.Start(t)
	server.Container(t, "state", "")
	n := 0
	storetest.Run(t, storetest.Traits{Nested: true, Atomic: true, Digests: true, Slashes: true}, func(t *testing.T) storetest.Clients {
		n++
		url := fmt.Sprintf("azureblob://%s/state/part %d", azuretest.Account, n)
		return func() store.Store { return open(t, server.Config(), url) }
	})
}

func open(t *testing.T, c azureblob.Config, url string) store.Store {
	t.Helper()
	s, err := store.Backends{azureblob.Backend(c)}.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The container determines who can read: a blob has no permissions of its own.
func TestAContainerLetsEverybodyReadOrNobody(t *testing.T) {
	server := azuretest.Start(t)
	for access, public := range map[string]bool{"": false, "blob": true, "container": true} {
		name := "open-to" + access
		server.Container(t, name, access)
		url := "azureblob://" + azuretest.Account + "/" + name + "/c"
		s := open(t, server.Config(), url)
		if got, err := s.About().Public(t.Context()); got != public || err != nil {
			t.Errorf("%q is public: %v, %v", access, got, err)
		}
		_, err := s.Put(t.Context(), "openid/v1/jwks", []byte("{}"), store.PutOptions{PublicRead: true})
		if (err == nil) != public || !public && !strings.Contains(fault.Remedy(err), "az storage container set-permission --account-name kopstests --name open-to --public-access blob") {
			t.Errorf("%q: %v; %s", access, err, fault.Remedy(err))
		}
		if !public {
			continue
		}
		answer, err := http.Get(s.About().Web() + "/openid/v1/jwks")
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Errorf("%q: everybody gets %s", access, answer.Status)
		}
	}
}

func TestAKeyThatIsAnothers(t *testing.T) {
	server := azuretest.Start(t)
	c := server.Config()
	c.Key = base64.StdEncoding.EncodeToString([]byte("another"))
	_, _, err := open(t, c, "azureblob://"+azuretest.Account+"/state").Get(t.Context(), "a")
	if !fault.Is(err, fault.Denied) || !strings.Contains(fault.Remedy(err), "AZURE_STORAGE_KEY") {
		t.Errorf("%v; %s", err, fault.Remedy(err))
	}
	_, _, err = open(t, server.Config(), "azureblob://"+azuretest.Account+"/absent").Get(t.Context(), "a")
	if !store.IsMissing(err) || !strings.Contains(fault.Remedy(err), "az storage container create --account-name kopstests --name absent") {
		t.Errorf("%v; %s", err, fault.Remedy(err))
	}
}

func TestOpenNeedsAnAccountAndAContainer(t *testing.T) {
	for url, c := range map[string]azureblob.Config{"azureblob://": {}, "azureblob://account": {}, "azureblob://account/": {}, "azureblob://container/key": {Account: "other"}} {
		if s, err := (store.Backends{azureblob.Backend(c)}).Open(t.Context(), url); !fault.Is(err, fault.Permanent) || !strings.Contains(fault.Remedy(err), "azureblob://account/container") {
			t.Errorf("%s: %v, %v", url, s, err)
		}
	}
	for suffix, want := range map[string]string{"": "https://a.blob.core.windows.net/c/f", "core.chinacloudapi.cn": "https://a.blob.core.chinacloudapi.cn/c/f"} {
		if got := open(t, azureblob.Config{Suffix: suffix}, "azureblob://a/c/f/").About().Web(); got != want {
			t.Errorf("the web finds it at %s", got)
		}
	}
}

// server answers requests in place of the service, and records them.
type server struct {
	answer func(n int, r *http.Request) *http.Response // n counts from 1
	seen   []*http.Request
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.seen = append(s.seen, r)
	answer := s.answer(len(s.seen), r)
	if answer == nil {
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	}
	answer.Request = r
	return answer, nil
}

func (s *server) open(t *testing.T) store.Store {
	t.Helper()
	return open(t, azureblob.Config{HTTP: &http.Client{Transport: s}, Token: func(context.Context) (string, error) { return "t", nil }}, "azureblob://a/c/state")
}

func reply(status int, body string, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}
}

func refusal(status int, code string) *http.Response {
	return reply(status, "\ufeff<?xml version=\"1.0\"?><Error><Code>"+code+"</Code><Message>because\nRequestId:1</Message></Error>", "x-ms-error-code", code)
}

func TestErrorsAreClassed(t *testing.T) { synctest.Test(t, errorsAreClassed) }

func errorsAreClassed(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		class  fault.Class
		remedy string
		asked  int
	}{
		{404, "BlobNotFound", fault.Gone, "", 1},
		{409, "ContainerBeingDeleted", fault.NotYet, "", 1},
		{403, "AuthorizationPermissionMismatch", fault.Denied, "give this identity the role Storage Blob Data Contributor on the container c of the account a", 1},
		{403, "AuthenticationFailed", fault.Denied, "log in again (az login), or check AZURE_STORAGE_KEY and this machine's clock", 1},
		{403, "AuthorizationFailure", fault.Denied, "let the account a be reached from this network, and give this identity the role Storage Blob Data Contributor; or check AZURE_STORAGE_KEY", 1},
		{403, "AccountIsDisabled", fault.Denied, "give this identity the role Storage Blob Data Contributor on the account a", 1},
		{412, "LeaseIdMissing", fault.Permanent, "the blob is immutable, but a state store has to change it: remove its lease, or the policy of the container", 1},
		{412, "ConditionNotMet", fault.Conflict, "", 1},
		{503, "ServerBusy", fault.Throttled, "", 7},
		{500, "OperationTimedOut", fault.Throttled, "", 7},
		{400, "InvalidUri", fault.Permanent, "", 1},
	} {
		s := &server{answer: func(int, *http.Request) *http.Response { return refusal(c.status, c.code) }}
		_, _, err := s.open(t).Get(t.Context(), "a")
		if fault.Of(err) != c.class || fault.Remedy(err) != c.remedy || len(s.seen) != c.asked || err.Error() != "read azureblob://a/c/state/a: "+c.code+": because" {
			t.Errorf("%d %s: class %q, remedy %q after %d requests: %v", c.status, c.code, fault.Of(err), fault.Remedy(err), len(s.seen), err)
		}
		if s.seen[0].Header.Get("Authorization") != "Bearer t" || s.seen[0].Header.Get("X-Ms-Version") == "" {
			t.Errorf("asked with %v", s.seen[0].Header)
		}
	}
}

// The blob is written, but the answer is lost, and the same request is sent again.
func TestOwnWriteIsNotAConflict(t *testing.T) { synctest.Test(t, ownWriteIsNotAConflict) }

func ownWriteIsNotAConflict(t *testing.T) {
	for _, o := range []store.PutOptions{{IfAbsent: true}, {IfVersion: "0x1"}} {
		for _, stored := range []string{"mine", "another's"} {
			s := &server{answer: func(n int, r *http.Request) *http.Response {
				switch {
				case n == 1:
					return nil
				case r.Method == http.MethodPut && o.IfAbsent:
					return refusal(409, "BlobAlreadyExists")
				case r.Method == http.MethodPut:
					return refusal(412, "ConditionNotMet")
				}
				return reply(200, stored, "ETag", `"0x2"`)
			}}
			v, err := s.open(t).Put(t.Context(), "lease", []byte("mine"), o)
			if stored == "mine" && (err != nil || v != "0x2") || stored != "mine" && !fault.Is(err, fault.Conflict) {
				t.Errorf("%+v, %s: %q, %v", o, stored, v, err)
			}
			if r := s.seen[1]; (r.Header.Get("If-None-Match") == "*") != o.IfAbsent || (r.Header.Get("If-Match") == `"0x1"`) != (o.IfVersion != "") {
				t.Errorf("%+v: a request lost its condition: %v", o, r.Header)
			}
		}
	}
}

// After a purge, an account that keeps versions has none of the purged keys, and all of the others.
func TestPurgeLeavesNoVersion(t *testing.T) {
	const versions = `<EnumerationResults><Blobs><Blob><Name>state/b/1</Name><VersionId>v1</VersionId></Blob><Blob><Name>state/b/10</Name><VersionId>v2</VersionId></Blob><Blob><Name>state/b/2</Name></Blob></Blobs></EnumerationResults>`
	var removed []string
	s := &server{answer: func(_ int, r *http.Request) *http.Response {
		if r.Method == http.MethodGet {
			return reply(200, versions)
		}
		removed = append(removed, r.URL.Path+"#"+r.URL.Query().Get("versionid"))
		return reply(202, "")
	}}
	if err := store.Purge(t.Context(), s.open(t), []string{"b/1"}); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(removed); got != "[/c/state/b/1# /c/state/b/1#v1]" {
		t.Errorf("removed are %s", got)
	}
}
