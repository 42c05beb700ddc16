package aws

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/cli"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/model/assets"
	"kops.local/kops/internal/platform/aws/awstest"
	awsspec "kops.local/kops/internal/platform/aws/spec"
	"kops.local/kops/internal/spec/versions"
	"kops.local/kops/internal/test/programstest"
	"kops.local/kops/internal/test/proxy"
)

// world is an account at an emulator, a proxy before it, and a user's home.
type world struct {
	t      testing.TB
	server *awstest.Server
	proxy  *proxy.Proxy
	home   string
	env    map[string]string
}

const (
	bucket = "state-store"
	// version is that of every program here: with another one, boot data would
	// change, and the emulator cannot start machines from a changed template.
	version = "1.37.0-test"
	region  = "us-east-1"
)

// newWorld resets the server, which tests share, and makes the state store.
func newWorld(t testing.TB, server *awstest.Server) *world {
	server.Reset(t)
	server.Bucket(t, bucket)
	w := &world{t: t, server: server, proxy: awstest.Proxy(t, server.URL), home: t.TempDir()}
	w.env = map[string]string{
		"KOPS_STATE_STORE": "s3://" + bucket,
		"HOME":             w.home,
		"AWS_ENDPOINT_URL": w.proxy.URL, "AWS_REGION": region,
		"AWS_ACCESS_KEY_ID": server.AccessKey, "AWS_SECRET_ACCESS_KEY": server.SecretKey,
		"S3_ENDPOINT": w.proxy.URL, "S3_REGION": region,
		"S3_ACCESS_KEY_ID": server.AccessKey, "S3_SECRET_ACCESS_KEY": server.SecretKey,
	}
	w.publish()
	return w
}

// publish fills the cache with digests, as if the publishers of a cluster's files,
// which no test asks, had been asked before, and with kops' own programs.
func (w *world) publish() {
	w.t.Helper()
	w.release("of a test")
	stable, _ := versions.Embedded(versions.Stable)
	for _, arch := range download.Arches() {
		files, err := assets.Machine{Kubernetes: stable.NewClusterVersion(version), CredentialProvider: awsspec.Platform().Model.CredentialProvider}.Files(arch, assets.Mirrors{}, nil)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, f := range files {
			url := sha256.Sum256([]byte(f.Public))
			file := filepath.Join(w.home, ".cache", "kops", "hashes", hex.EncodeToString(url[:]))
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(strings.Repeat("0", 64)), 0o600)); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// release puts an archive of programs that say a text into the cache.
func (w *world) release(text string) {
	w.t.Helper()
	programstest.Archive(w.t, filepath.Join(w.home, ".cache", "kops", "programs"), version, text)
}

// result is what one run of the program left.
type result struct {
	code     int
	out, err string
	took     time.Duration
}

// run runs one command line in this process.
func (w *world) run(args ...string) result { return w.runContext(w.t.Context(), args...) }

func (w *world) runContext(ctx context.Context, args ...string) result {
	var out, errs bytes.Buffer
	sys := shell.System{In: strings.NewReader(""), Out: &out, Err: &errs, Env: func(k string) string { return w.env[k] },
		Home: w.home, Cache: filepath.Join(w.home, ".cache", "kops"), User: "tester", Host: "here", PID: 1, Now: time.Now, Version: version}
	start := time.Now()
	code := cli.Run(ctx, sys, args)
	return result{code, out.String(), errs.String(), time.Since(start)}
}

// must runs a command line that has to succeed.
func (w *world) must(args ...string) result {
	w.t.Helper()
	r := w.run(args...)
	if r.code != 0 {
		w.t.Fatalf("kops %s: exit %d\n%s%s", strings.Join(args, " "), r.code, r.out, r.err)
	}
	return r
}

// counted runs a command line that has to succeed, and returns how many requests it made.
func (w *world) counted(args ...string) (result, int) {
	w.t.Helper()
	w.proxy.Reset()
	r := w.must(args...)
	return r, w.proxy.Requests()
}

// forget removes the local cache, as on another machine.
func (w *world) forget() {
	w.home = w.t.TempDir()
	w.publish()
}

// onlyIn returns what a has and b has not.
func onlyIn(a, b []string) []string {
	var out []string
	for _, s := range a {
		if !slices.Contains(b, s) {
			out = append(out, s)
		}
	}
	return out
}

// objects lists the keys in the state store.
func (w *world) objects() []string {
	w.t.Helper()
	var out []string
	s := openBucket(w.t, w.server)
	for i, err := range s.List(w.t.Context(), "") {
		if err != nil {
			w.t.Fatal(err)
		}
		out = append(out, i.Key)
	}
	return out
}
