package world

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kops.local/kops"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/web"
	"kops.local/kops/internal/test/opentest"
)

func from(env map[string]string) func(string) string {
	return func(name string) string { return env[name] }
}

func TestPluginsOfTheEnvironment(t *testing.T) {
	sum := strings.Repeat("ab", 32)
	for _, c := range []struct{ url, hash, wantURL, wantHash, warns string }{
		{"", "", "", "", ""},
		{"https://e.com/cni-plugins-v1.tgz", "", "https://e.com/cni-plugins-v1.tgz", "", ""},
		{"https://e.com/cni-plugins-v1.tgz", "sha256:" + sum, "https://e.com/cni-plugins-v1.tgz", sum, ""},
		{"https://e.com/cni-plugins-v1.tgz", sum, "https://e.com/cni-plugins-v1.tgz", sum, ""},
		{"https://u:hush@e.com/x.tgz", sum, "", "", "CNI_VERSION_URL"},
		{"cni-plugins.tgz", "", "", "", "CNI_VERSION_URL"},
		{"https://e.com/cni-plugins-v1.tgz", "md5:ab", "https://e.com/cni-plugins-v1.tgz", "", "CNI_ASSET_HASH_STRING"},
	} {
		env := from(map[string]string{"CNI_VERSION_URL": c.url, "CNI_ASSET_HASH_STRING": c.hash})
		got := Config("memory://", Options{Env: env})
		if got.PluginsURL != c.wantURL || got.FileHashes[c.url] != c.wantHash {
			t.Errorf("%q, %q: the archive is %q with the digest %q", c.url, c.hash, got.PluginsURL, got.FileHashes[c.url])
		}
		warning := ""
		for _, f := range Check(env) {
			warning += f.String()
		}
		if (warning == "") != (c.warns == "") || !strings.Contains(warning, c.warns) || strings.Contains(warning, "hush") {
			t.Errorf("%q, %q: warning %q", c.url, c.hash, warning)
		}
	}
}

// The keeper of a local cluster runs in a different folder from the command that starts it.
func TestFoldersOfTheLocalCloudAreAbsolute(t *testing.T) {
	here := t.TempDir()
	t.Chdir(here)
	for _, c := range []struct{ bundle, cache, want string }{
		{"files", "/home/me/.cache/kops", filepath.Join(here, "files")},
		{"/files", "", "/files"},
		{"", "/home/me/.cache/kops", "/home/me/.cache/kops/bundle"},
		{"", "cache", filepath.Join(here, "cache/bundle")},
		{"", "", ""},
	} {
		if got := Bundle(from(map[string]string{"KOPS_BUNDLE": c.bundle}), c.cache); got != c.want {
			t.Errorf("KOPS_BUNDLE=%q, cache folder %q: %q, not %q", c.bundle, c.cache, got, c.want)
		}
	}
	for dir, want := range map[string]string{"": "", "/r": "/r", "../r": filepath.Join(filepath.Dir(here), "r")} {
		if got := platform.Absolute(dir); got != want {
			t.Errorf("Absolute(%q) = %q, not %q", dir, got, want)
		}
	}
}

func TestMissingCredentialsOfABucketSayWhatToDo(t *testing.T) {
	for _, name := range []string{"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"} {
		t.Setenv(name, filepath.Join(t.TempDir(), "none"))
	}
	for _, name := range []string{"AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	for want, env := range map[string]map[string]string{
		"AWS_ACCESS_KEY_ID":    nil,
		"S3_SECRET_ACCESS_KEY": {"S3_ENDPOINT": "http://127.0.0.1:1", "S3_ACCESS_KEY_ID": "me"},
	} {
		s, err := stores(Config("", Options{Env: from(env)})).Open(t.Context(), "s3://state")
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = s.Get(t.Context(), "config")
		if !fault.Is(err, fault.Denied) || !strings.Contains(fault.Remedy(err), want) {
			t.Errorf("%v; %s: want %s in its remedy", err, fault.Remedy(err), want)
		}
	}
}

// stores returns the backends of a configuration.
func stores(c kops.Config) store.Backends {
	out := make(store.Backends, len(c.Store.Backends))
	for i, b := range c.Store.Backends {
		b.As(&out[i])
	}
	return out
}

func TestTheStoresOfUsers(t *testing.T) {
	opentest.Run(t, func(env func(string) string) store.Backends { return stores(Config("", Options{Env: env})) })
}

func TestARequestThatWaitsForSomethingMayBeAnsweredLater(t *testing.T) {
	late := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-late }))
	defer s.Close()
	quick := Transport()
	if quick.ResponseHeaderTimeout > 30*time.Second {
		t.Errorf("a silent server is waited for %v", quick.ResponseHeaderTimeout)
	}
	quick.ResponseHeaderTimeout = 10 * time.Millisecond
	client := Client(quick)
	ask := func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(r)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
	waiting := make(chan error)
	go func() { waiting <- ask(web.WithLongPoll(t.Context())) }()
	if err := ask(t.Context()); !fault.TimedOut(err) {
		t.Errorf("it ends with %v", err)
	}
	close(late)
	if err := <-waiting; err != nil {
		t.Error(err)
	}
}
