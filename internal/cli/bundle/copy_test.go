package bundle_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"kops.local/kops"
	"kops.local/kops/fakecloud"
	"kops.local/kops/internal/cli"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/contract/programs"
	kept "kops.local/kops/internal/ops/bundle"
	"kops.local/kops/internal/platform/aws/awstest"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/s3"
	"kops.local/kops/internal/test/bundletest"
)

// user is a user with a cluster in the fake cloud, and mirrors of their own.
type user struct {
	*testing.T
	home, own string
	env       map[string]string
	cloud     *fakecloud.World
}

func (u *user) kops(ctx context.Context, args ...string) (out, errs string, code int) {
	var o, e bytes.Buffer
	code = cli.Run(ctx, shell.System{In: &bytes.Buffer{}, Out: &o, Err: &e, Env: func(k string) string { return u.env[k] }, Home: u.home,
		Cache: filepath.Join(u.home, "cache"), User: "jane", Host: "laptop", PID: 42, Now: time.Now, Version: "1.37.0",
		Program: filepath.Join(u.own, "kops"), Clouds: []kops.Provider{u.cloud.Provider()}}, args)
	return o.String(), e.String(), code
}

func (u *user) must(args ...string) (out, errs string) {
	u.Helper()
	out, errs, code := u.kops(u.Context(), args...)
	if code != 0 {
		u.Fatalf("kops %v: exit code %d\n%s%s", args, code, out, errs)
	}
	return out, errs
}

// The files and images of a cluster are copied to a bucket and to a registry, once.
func TestAssetsAreCopied(t *testing.T) {
	server := awstest.Moto(t)
	server.Bucket(t, "files")
	reg := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(reg.Close)
	host := strings.TrimPrefix(reg.URL, "http://")
	u := &user{t, t.TempDir(), t.TempDir(), map[string]string{"KOPS_STATE_STORE": t.TempDir(), "S3_ENDPOINT": server.URL,
		"S3_ACCESS_KEY_ID": server.AccessKey, "S3_SECRET_ACCESS_KEY": server.SecretKey, "S3_REGION": server.Region}, fakecloud.New()}
	for _, n := range []string{"nodeup", "go-runner", programs.Controller, programs.Channels, programs.EtcdManager, programs.DNSController, programs.Healthcheck} {
		if err := os.WriteFile(filepath.Join(u.own, n), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	u.must("create", "cluster", "--cloud", fakecloud.Name, "--zones", "here", "a.example.com",
		"--set", "spec.assets.containerRegistry="+host+"/kops", "--set", "spec.assets.fileRepository="+server.URL+"/files/kops")
	out, _ := u.must("get", "assets", "--name", "a.example.com", "-o", "json")
	var all kops.Assets
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatal(err)
	}
	u.fillCache(all)

	_, told := u.must("get", "assets", "--name", "a.example.com", "--copy")
	for _, what := range []string{"to " + server.URL + "/files/kops: ", "to " + host + "/kops: "} {
		if !strings.Contains(told, what) {
			t.Errorf("it does not tell %q:\n%s", what, told)
		}
	}
	for _, i := range all.Images {
		ref, err := name.ParseReference(i.Download)
		if err == nil {
			_, err = remote.Image(ref)
		}
		if err != nil || !strings.HasPrefix(i.Download, host+"/kops/") {
			t.Errorf("%s is not at %s: %v", i.Canonical, i.Download, err)
		}
	}
	at, err := store.Backends{s3.Backend(server.S3())}.Open(t.Context(), "s3://files/kops")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all.Files {
		key := strings.TrimPrefix(f.Download, server.URL+"/files/kops/")
		if _, _, err := at.Get(t.Context(), key); err != nil {
			t.Errorf("%s is not at %s: %v", f.Canonical, f.Download, err)
		}
		if text, _, err := at.Get(t.Context(), key+".sha256"); err != nil || len(strings.TrimSpace(string(text))) != 64 {
			t.Errorf("the digest beside %s is %q, %v", key, text, err)
		}
	}
	_, told = u.must("get", "assets", "--name", "a.example.com", "--copy")
	if strings.Count(told, "nothing was sent") != 2 {
		t.Errorf("the second time it tells\n%s", told)
	}
}

// fillCache puts the publishers' versions of the assets where Copy caches them.
func (u *user) fillCache(all kops.Assets) {
	u.Helper()
	w := kept.Want{Files: map[string]string{}}
	var published []string
	for _, f := range all.Files {
		w.Files[f.Canonical] = ""
	}
	for _, i := range all.Images {
		w.Images = append(w.Images, i.Canonical)
		if !programs.IsOwn(i.Canonical) {
			published = append(published, i.Canonical)
		}
	}
	_, err := kept.Create(u.Context(), kept.Options{Dir: filepath.Join(u.home, "cache", "copies", "a.example.com"), OwnPrograms: u.own, Arches: download.Arches(),
		Now: time.Unix(1e9, 0), Want: w, HTTP: &http.Client{Transport: bundletest.Publishers(u.T, published)}})
	if err != nil {
		u.Fatal(err)
	}
}
