package run

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/node/agent"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/platform/nodes"
	"kops.local/kops/internal/platform/onmachine"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/test/opentest"
)

func TestFilesOfEveryScheme(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch auth := r.Header.Get("Authorization"); {
		case r.URL.Path == "/bundle/dir/kubelet" && strings.HasPrefix(auth, "AWS4-HMAC-SHA256 Credential=id/") && strings.Contains(auth, "/eu-west-3/s3/"):
			w.Header().Set("ETag", `"x"`)
			_, _ = io.WriteString(w, "of s3") // a failed write fails the test
		case r.URL.Path == "/mirror/kubelet":
			_, _ = io.WriteString(w, "of a mirror") // a failed write fails the test
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `<Error><Code>NoSuchKey</Code><Message>none</Message></Error>`) // a failed write fails the test
		}
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "kubelet")
	if err := os.WriteFile(file, []byte("of a folder"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"S3_ENDPOINT": server.URL, "S3_REGION": "eu-west-3", "S3_ACCESS_KEY_ID": "id", "S3_SECRET_ACCESS_KEY": "secret"}
	s := Options{Env: func(name string) string { return env[name] }}.source(http.DefaultClient)
	for _, c := range []struct{ url, want, message string }{
		{"s3://bundle/dir/kubelet", "of s3", ""},
		{"file://" + file, "of a folder", ""},
		{server.URL + "/mirror/kubelet", "of a mirror", ""},
		{"s3://bundle/dir/other", "", "read s3://bundle/dir/other: "},
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

func TestTheStoresOfNodeup(t *testing.T) {
	opentest.Run(t, func(env func(string) string) store.Backends {
		return Options{Env: env, Platforms: nodes.All()}.source(http.DefaultClient).stores
	})
}

// Only a platform that has AWS credentials requests them from AWS.
func TestMachineAccount(t *testing.T) {
	own := onmachine.Platform{Name: "b", Credentials: func(context.Context, onmachine.World) (onmachine.Credentials, error) {
		return onmachine.Credentials{ID: "id", Secret: "secret", Token: "token"}, nil
	}}
	c, err := Options{Platforms: []onmachine.Platform{{Name: "a"}, own}, Env: os.Getenv}.account().Retrieve(t.Context())
	if err != nil || c.AccessKeyID != "id" || c.SecretAccessKey != "secret" || c.SessionToken != "token" || !c.CanExpire {
		t.Errorf("credentials %v", err)
	}
	if a := (Options{}).account(); a != nil {
		t.Errorf("without a platform: %v", a)
	}
}

// A machine whose platform attests nothing listens for kops-controller's call.
func TestAMachineThatIsCalledBackListens(t *testing.T) {
	all, _, err := pki.Ensure(nil, []string{pki.KubernetesCA}, pki.Issuer{Rand: rand.Reader, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	bundle := all[pki.KubernetesCA].Bundle()
	boot := &nodeconfig.Boot{CloudProvider: "x", ClusterName: "c.example.com", ConfigServer: &nodeconfig.ConfigServer{Servers: []string{"https://10.0.0.1:3988/"}, CACertificates: bundle}}
	for _, isCalled := range []bool{true, false} {
		p := onmachine.Platform{Name: "x", Traits: onmachine.Traits{CalledBack: isCalled}, Prove: func(onmachine.World) (bootstrap.Prover, error) { return bootstrap.Claim{}, nil }}
		joiner, err := Options{Root: t.TempDir(), Platforms: []onmachine.Platform{p}, Env: os.Getenv, Clock: Clock{At: time.Now}}.join(boot, nil)
		if err != nil {
			t.Fatal(err)
		}
		l := joiner.(agent.Controller).Client.Listener
		if (l != nil) != isCalled || isCalled && (l.Cluster != "c.example.com" || l.Authorities != bundle || l.Now == nil || l.Rand == nil || l.Address != "") {
			t.Errorf("it listens: %+v", l)
		}
	}
}

func TestUnknownPlatform(t *testing.T) {
	boot := &nodeconfig.Boot{CloudProvider: "azure"}
	o := Options{Env: os.Getenv}
	if _, err := o.join(boot, nil); err == nil || !strings.Contains(err.Error(), "cannot prove the identity of a machine of azure") {
		t.Errorf("got %v", err)
	}
}
