package kops_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"kops.local/kops"
	"kops.local/kops/api"
	"kops.local/kops/internal/contract/programs"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/ops/bundle"
	"kops.local/kops/internal/pipeline"
	"kops.local/kops/internal/spec/newcluster"
	"kops.local/kops/internal/test/bundletest"
)

// bundled is a bundle, signed and served, of everything that the cluster of the bench downloads.
type bundled struct {
	*bundle.Bundle
	url         string
	key, public []byte
}

func (b *bench) bundled() *bundled {
	b.Helper()
	cl, err := b.Clusters().Get(b.Context(), name)
	if err != nil {
		b.Fatal(err)
	}
	found, err := b.Assets(b.Context(), cl, kops.AssetsOptions{})
	if err != nil {
		b.Fatal(err)
	}
	a := inside[*pipeline.Assets](found)
	own := b.TempDir()
	for _, n := range []string{"nodeup", "go-runner", programs.Controller, programs.Channels, programs.EtcdManager, programs.DNSController, programs.Healthcheck} {
		if err := os.WriteFile(filepath.Join(own, n), []byte("#!/bin/sh\n"), 0o755); err != nil {
			b.Fatal(err)
		}
	}
	var published []string
	for _, n := range a.Images {
		if !programs.IsOwn(n) {
			published = append(published, n)
		}
	}
	for u := range a.Files {
		a.Files[u] = "" // the file published here differs from the one that kops knows
	}
	made, err := bundle.Create(b.Context(), bundle.Options{Dir: filepath.Join(b.TempDir(), "bundle"), OwnPrograms: own, Arches: a.Arches, Now: b.now,
		Want: bundle.Want{Files: a.Files, Images: a.Images}, HTTP: &http.Client{Transport: bundletest.Publishers(b.T, published)}})
	if err != nil {
		b.Fatal(err)
	}
	h, err := made.Handler()
	if err != nil {
		b.Fatal(err)
	}
	s := httptest.NewServer(h)
	b.Cleanup(s.Close)
	out := &bundled{Bundle: made, url: s.URL}
	out.sign(b.T)
	return out
}

// sign signs the bundle with a new key.
func (d *bundled) sign(t *testing.T) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	d.key = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	public, err := d.Sign(d.key)
	if err != nil {
		t.Fatal(err)
	}
	d.public = []byte(public)
}

// useBundle makes the cluster use a bundle for all downloads.
func (b *bench) useBundle(d *bundled) {
	b.Helper()
	cl, err := b.Clusters().Get(b.Context(), name)
	if err != nil {
		b.Fatal(err)
	}
	spec := cl.Spec.DeepCopy()
	spec.Spec.Assets = &api.AssetsSpec{FileRepository: &d.url, TrustedKeys: []string{string(d.public)}}
	spec.Spec.Containerd = &api.ContainerdConfig{RegistryMirrors: map[string][]string{"*": {d.url}}}
	if _, err := b.Clusters().Replace(b.Context(), []api.Object{spec}, false); err != nil {
		b.Fatal(err)
	}
}

// recordingClient is a client of the bench that can reach only one server, and records its requests.
func (b *bench) recordingClient(only string) (c *kops.Client, hosts func() []string) {
	b.Helper()
	var mu sync.Mutex
	var asked []string
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		if !slices.Contains(asked, address) {
			asked = append(asked, address)
		}
		if "http://"+address != only {
			return nil, errors.New("there is no other host than the bundle's")
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	c = b.client(func(c *kops.Config) { c.World.HTTP = &http.Client{Transport: &http.Transport{DialContext: dial}} })
	return c, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(asked)
	}
}

func TestWithASignedBundleNoOtherHostIsContacted(t *testing.T) {
	b := newBench(t)
	b.describe(func(*newcluster.Options) {})
	d := b.bundled()
	b.useBundle(d)
	c, hosts := b.recordingClient(d.url)
	if _, err := c.Update(t.Context(), name, kops.UpdateOptions{Apply: true}); err != nil {
		t.Fatal(err)
	}
	if got := hosts(); len(got) != 1 || "http://"+got[0] != d.url {
		t.Errorf("kops has contacted %v, and not only %s", got, d.url)
	}
	// Everything that machines download is in the bundle, with the digests that it states.
	config, _, err := b.folder("igconfig").Get(t.Context(), "control-plane/control-plane-here/nodeupconfig.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := string(config)
	for u, f := range d.Files() {
		if strings.HasSuffix(u, "/kubelet") && !strings.Contains(text, f.SHA256+"@"+d.url+"/") {
			t.Errorf("machines are not told the digest of %s", u)
		}
	}
	for _, own := range []string{"fileTrust:", "repository: " + d.url, "BEGIN PUBLIC KEY", "sandboxImage: registry.k8s.io/pause:3.10.1@sha256:"} {
		if !strings.Contains(text, own) {
			t.Errorf("machines are not told %s:\n%s", own, text)
		}
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, "@http") && !strings.Contains(line, "@"+d.url+"/") {
			t.Errorf("machines fetch from elsewhere: %s", line)
		}
	}
	digest, _ := d.ImageDigest("registry.k8s.io/kube-apiserver:v1.36.3")
	if digest == "" || !strings.Contains(text, "registry.k8s.io/kube-apiserver:v1.36.3@"+digest) {
		t.Errorf("the image of the API server is not named by its digest %s", digest)
	}
}

func TestABundleThatIsNotSignedIsRefusedByAnUpdate(t *testing.T) {
	b := newBench(t)
	b.describe(func(*newcluster.Options) {})
	d := b.bundled()
	b.useBundle(d)
	refusedWith := func(texts ...string) {
		t.Helper()
		_, err := b.Update(t.Context(), name, kops.UpdateOptions{})
		expectTexts(t, err, texts...)
		if !strings.Contains(fault.Remedy(err)+err.Error(), "kops bundle sign") {
			t.Errorf("%v: no remedy", err)
		}
	}
	d.sign(t) // with another key
	refusedWith("spec.assets.trustedKeys: " + d.url + "/bundle.json: it is not signed by a trusted key")
	if err := os.Remove(filepath.Join(d.Dir(), "bundle.json.sig")); err != nil {
		t.Fatal(err)
	}
	refusedWith("spec.assets.trustedKeys: the signed index of "+d.url+" could not be read, and without it machines reject its files", "404")
	b.useBundle(d) // the other key
	if _, err := d.Sign(d.key); err != nil {
		t.Fatal(err)
	}
	b.preview(kops.UpdateOptions{})
	// an index without a file that machines download
	index := filepath.Join(d.Dir(), "bundle.json")
	text, err := os.ReadFile(index)
	if err == nil {
		err = os.WriteFile(index, []byte(strings.ReplaceAll(string(text), "amd64/kubelet\"", "amd64/other\"")), 0o644)
	}
	kubelets, gerr := filepath.Glob(filepath.Join(d.Dir(), "files/release/*/bin/linux/amd64/kubelet"))
	for _, f := range kubelets {
		err = errors.Join(err, os.Rename(f, filepath.Join(filepath.Dir(f), "other")))
	}
	if err != nil || gerr != nil || len(kubelets) == 0 {
		t.Fatal(err, gerr)
	}
	if _, err := d.Sign(d.key); err != nil {
		t.Fatal(err)
	}
	refusedWith("the signed index of "+d.url+" lacks files that machines would not take: https://dl.k8s.io/", "amd64/kubelet")
}
