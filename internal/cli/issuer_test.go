package cli_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"kops.local/kops/internal/platform/aws/awstest"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/s3"
)

// onBucket returns a server with the bucket "state", the environment of a user whose state store it is,
// which tests may change, and a function that runs kops and returns its output and its messages.
func onBucket(t *testing.T) (server *awstest.Server, env map[string]string, kops func(args ...string) (out, errs string)) {
	t.Helper()
	server = awstest.Moto(t)
	server.Bucket(t, "state")
	env = map[string]string{"KOPS_STATE_STORE": "s3://state", "S3_ENDPOINT": server.URL, "S3_REGION": server.Region,
		"S3_ACCESS_KEY_ID": server.AccessKey, "S3_SECRET_ACCESS_KEY": server.SecretKey}
	s := newSession(t.TempDir())
	return server, env, func(args ...string) (string, string) {
		t.Helper()
		var out, errs bytes.Buffer
		if code := s.run(t, nil, &out, &errs, func(k string) string { return env[k] }, args); code != 0 {
			t.Fatalf("kops %s: exit %d\n%s%s", strings.Join(args, " "), code, out.String(), errs.String())
		}
		return out.String(), errs.String()
	}
}

// TestTheIssuerStays: another endpoint in the environment does not change the issuer of a cluster that
// has one. Another store does, and the preview says so.
func TestTheIssuerStays(t *testing.T) {
	server, env, kops := onBucket(t)
	const name = "c.example.com"
	issuer := func() string {
		t.Helper()
		full, _ := kops("get", "cluster", name, "--full", "-o", "yaml")
		for line := range strings.Lines(full) {
			if _, v, ok := strings.Cut(line, "serviceAccountIssuer: "); ok {
				return strings.TrimSpace(v)
			}
		}
		t.Fatal("there is no issuer")
		return ""
	}
	kops("create", "cluster", "--cloud", "fake", "--zones", "here", "--set", "spec.serviceAccountIssuerDiscovery.discoveryStore=s3://state/issuer/"+name, name)
	kops("update", "cluster", name, "--yes")
	was := issuer()
	env["S3_ENDPOINT"] = strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	if now := issuer(); now != was {
		t.Errorf("with another endpoint, the issuer is %s, and was %s", now, was)
	}
	if preview, _ := kops("update", "cluster", name); strings.Contains(preview, "issuer-changed") {
		t.Errorf("the issuer changes:\n%s", preview)
	}
	kops("edit", "cluster", name, "--set", "spec.kubeAPIServer.serviceAccountIssuer=https://mine.example.com")
	kops("update", "cluster", name, "--yes")
	kops("edit", "cluster", name, "--unset", "spec.kubeAPIServer.serviceAccountIssuer")
	if now := issuer(); now == "https://mine.example.com" {
		t.Errorf("the issuer stays, although the user no longer sets it")
	}
	kops("edit", "cluster", name, "--set", "spec.serviceAccountIssuerDiscovery.discoveryStore=s3://state/other/"+name)
	if preview, _ := kops("update", "cluster", name); !strings.Contains(preview, "issuer-changed: Cluster/"+name) {
		t.Errorf("the preview does not report that the issuer changes:\n%s", preview)
	}
}

// Everyone can read the two documents of the issuer, in the same bucket as everything else, at the
// URL that they contain.
func TestTheDocumentsOfTheIssuerArePublic(t *testing.T) {
	server, _, kops := onBucket(t)
	const name = "c.example.com"
	kops("create", "cluster", "--cloud", "fake", "--zones", "here", "--set", "spec.serviceAccountIssuerDiscovery.discoveryStore=s3://state/issuer/"+name, name)
	if _, told := kops("update", "cluster", name, "--yes"); !strings.Contains(told, "clients that verify tokens require TLS") {
		t.Errorf("nothing is told of a server without TLS:\n%s", told)
	}
	state, err := store.Backends{s3.Backend(server.S3())}.Open(t.Context(), "s3://state")
	if err != nil {
		t.Fatal(err)
	}
	open, all := map[string][]byte{}, 0
	for o, err := range state.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		all++
		if status, text := getAnonymously(t, server.URL+"/state/"+o.Key); status == http.StatusOK {
			open[o.Key] = text
		}
	}
	const at = "issuer/" + name + "/"
	config, keys := open[at+".well-known/openid-configuration"], open[at+"openid/v1/jwks"]
	if len(open) != 2 || config == nil || keys == nil || all < 10 {
		t.Fatalf("public: everyone can read %d of %d objects: %q", len(open), all, open)
	}
	var told struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(config, &told); err != nil {
		t.Fatal(err)
	}
	if want := strings.Replace(server.URL, "http://", "https://", 1) + "/state/issuer/" + name; told.Issuer != want || told.Keys != want+"/openid/v1/jwks" {
		t.Errorf("the issuer is %s, its keys are at %s; want %s", told.Issuer, told.Keys, want)
	}
}

// getAnonymously returns a server's response to a request without credentials.
func getAnonymously(t *testing.T, url string) (int, []byte) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close() // only read
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, text
}
