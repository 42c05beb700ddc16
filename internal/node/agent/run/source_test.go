package run

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/onmachine"
)

// buckets is a server that speaks as much of S3 and of Google's storage as fetching a file takes.
func buckets(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		auth := r.Header.Get("Authorization")
		switch {
		case r.URL.Path == "/bundle/dir/kubelet" && strings.HasPrefix(auth, "AWS4-HMAC-SHA256 Credential=id/") && strings.Contains(auth, "/eu-west-3/s3/"):
			w.Header().Set("ETag", `"x"`)
			_, _ = io.WriteString(w, "of s3") // the test would fail
		case r.URL.Path == "/computeMetadata/v1/instance/service-accounts/default/token" && r.Header.Get("Metadata-Flavor") == "Google":
			_, _ = io.WriteString(w, `{"access_token":"t","expires_in":3599}`) // the test would fail
		case r.URL.Path == "/public/kubelet" && auth == "", r.URL.Path == "/private/kubelet" && auth == "Bearer t":
			_, _ = io.WriteString(w, "of google") // the test would fail
		case strings.HasPrefix(r.URL.Path, "/private/"):
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/mirror/kubelet":
			_, _ = io.WriteString(w, "of a mirror") // the test would fail
		default:
			w.WriteHeader(http.StatusNotFound)
			if strings.HasPrefix(r.URL.Path, "/bundle/") {
				_, _ = io.WriteString(w, `<Error><Code>NoSuchKey</Code><Message>none</Message></Error>`) // the test would fail
			}
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func TestFilesOfEveryScheme(t *testing.T) {
	server := buckets(t)
	file := filepath.Join(t.TempDir(), "kubelet")
	if err := os.WriteFile(file, []byte("of a folder"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"S3_ENDPOINT": server.URL, "S3_REGION": "eu-west-3", "S3_ACCESS_KEY_ID": "id", "S3_SECRET_ACCESS_KEY": "secret"}
	s := Options{Env: func(name string) string { return env[name] }}.store(&http.Client{Transport: &http.Transport{Proxy: func(r *http.Request) (*url.URL, error) {
		if strings.HasPrefix(r.URL.Path, "/computeMetadata/") {
			return nil, errors.New("who the machine is was asked through the proxy")
		}
		return nil, nil
	}}})
	s.google, s.metadata = server.URL, server.URL
	for _, c := range []struct{ url, want, message string }{
		{"s3://bundle/dir/kubelet", "of s3", ""},
		{"gs://public/kubelet", "of google", ""},
		{"gs://private/kubelet", "of google", ""},
		{"file://" + file, "of a folder", ""},
		{server.URL + "/mirror/kubelet", "of a mirror", ""},
		{"s3://bundle/dir/other", "", "read s3://bundle/dir/other: "},
		{"gs://public/other", "", "the server answers 404 Not Found"},
		{"gs://private/other", "", "the server answers 401 Unauthorized"},
		{"ftp://x/kubelet", "", `files cannot be fetched with the scheme "ftp"`},
	} {
		body, err := s.open(t.Context(), c.url)
		if err != nil {
			if c.message == "" || !strings.Contains(err.Error(), c.message) {
				t.Errorf("%s: %v", c.url, err)
			}
			continue
		}
		got, err := io.ReadAll(body)
		if cerr := body.Close(); err != nil || cerr != nil || string(got) != c.want || c.message != "" {
			t.Errorf("%s: %q %v %v", c.url, got, err, cerr)
		}
		if text, err := s.Read(t.Context(), c.url); err != nil || !bytes.Equal(text, got) {
			t.Errorf("read %s: %q %v", c.url, text, err)
		}
	}
}

// Who asks AWS for credentials is the platform that has some.
func TestTheAccountOfAMachine(t *testing.T) {
	own := onmachine.Platform{Name: "b", Credentials: func(context.Context, onmachine.World) (onmachine.Credentials, error) {
		return onmachine.Credentials{ID: "id", Secret: "secret", Token: "token"}, nil
	}}
	c, err := account{Options{Platforms: []onmachine.Platform{{Name: "a"}, own}, Env: os.Getenv}}.Retrieve(t.Context())
	if err != nil || c.AccessKeyID != "id" || c.SecretAccessKey != "secret" || c.SessionToken != "token" || !c.CanExpire {
		t.Errorf("credentials %v", err)
	}
	if _, err := (account{Options{}}).Retrieve(t.Context()); !fault.Is(err, fault.Permanent) {
		t.Errorf("without a platform: %v", err)
	}
}

func TestAPlatformThatIsNotKnown(t *testing.T) {
	boot := &nodeconfig.Boot{CloudProvider: "azure"}
	o := Options{Env: os.Getenv}
	if _, err := o.join(boot, nil); err == nil || !strings.Contains(err.Error(), "cannot prove who a machine of azure is") {
		t.Errorf("got %v", err)
	}
}
