package shell

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/fault"
)

// The keeper of a local cluster runs in another folder than the command that starts it.
func TestFoldersOfTheLocalCloudAreAbsolute(t *testing.T) {
	here := t.TempDir()
	t.Chdir(here)
	app := func(bundle, cache string) *App {
		return &App{System: System{Cache: cache, Env: func(name string) string { return map[string]string{"KOPS_BUNDLE": bundle}[name] }}}
	}
	for _, c := range []struct{ bundle, cache, want string }{
		{"files", "/home/me/.cache/kops", filepath.Join(here, "files")},
		{"/files", "", "/files"},
		{"", "/home/me/.cache/kops", "/home/me/.cache/kops/bundle"},
		{"", "cache", filepath.Join(here, "cache/bundle")},
		{"", "", ""},
	} {
		if got := app(c.bundle, c.cache).Bundle(); got != c.want {
			t.Errorf("KOPS_BUNDLE=%q, cache folder %q: %q, not %q", c.bundle, c.cache, got, c.want)
		}
	}
	for dir, want := range map[string]string{"": "", "/r": "/r", "../r": filepath.Join(filepath.Dir(here), "r")} {
		if got := absolute(dir); got != want {
			t.Errorf("absolute(%q) = %q, not %q", dir, got, want)
		}
	}
}

// An app with a few variables, at a standstill.
func with(env map[string]string) *App {
	return &App{System: System{Env: func(name string) string { return env[name] }, Now: func() time.Time { return time.Time{} }, Err: &bytes.Buffer{}}}
}

func TestMissingCredentialsOfABucketSayWhatToDo(t *testing.T) {
	for _, name := range []string{"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"} {
		t.Setenv(name, filepath.Join(t.TempDir(), "none"))
	}
	for _, name := range []string{"AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	for want, app := range map[string]*App{
		"AWS_ACCESS_KEY_ID":    with(nil),
		"S3_SECRET_ACCESS_KEY": with(map[string]string{"S3_ENDPOINT": "http://127.0.0.1:1", "S3_ACCESS_KEY_ID": "me"}),
	} {
		_, err := app.s3Config(app.httpClient()).Credentials.Retrieve(t.Context())
		if !fault.Is(err, fault.Denied) || !strings.Contains(fault.Remedy(err), want) {
			t.Errorf("%v; %s: want %s in its remedy", err, fault.Remedy(err), want)
		}
	}
}

func TestRequestsAreToldWithoutWhatTheyHold(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	for verbosity, want := range map[int]string{1: "", 2: "GET " + s.URL + "/bucket: 404 Not Found (0s)\n"} {
		app := with(nil)
		app.Verbosity = verbosity
		resp, err := app.httpClient().Get(s.URL + "/bucket?X-Amz-Signature=secret")
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		if got := app.Err.(*bytes.Buffer).String(); got != want {
			t.Errorf("-v %d: %q, want %q", verbosity, got, want)
		}
	}
}
