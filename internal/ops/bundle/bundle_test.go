package bundle_test

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/model/assets"
	"kops.local/kops/internal/ops/bundle"
)

const (
	kubelet = "https://dl.k8s.io/release/v1.36.3/bin/linux/amd64/kubelet"
	nodeup  = "https://kops.internal/binaries/kops/1.37.0/linux/amd64/nodeup"
	plugins = "https://github.com/containernetworking/plugins/releases/download/v1.9.1/cni-plugins-linux-amd64-v1.9.1.tgz"
	runtime = "https://github.com/containerd/containerd/releases/download/v2.3.4/containerd-2.3.4-linux-amd64.tar.gz"
	proxy   = "registry.k8s.io/kube-proxy:v1.36.3"
	etcd    = "registry.k8s.io/etcd:v3.6.12"
	pause   = "registry.k8s.io/pause:3.10.1"
)

// bench is a set of folders of small programs, from which a bundle is created.
type bench struct {
	*testing.T
	programs, own, dir string
}

func newBench(t *testing.T) *bench {
	b := &bench{t, t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "bundle")}
	for set, names := range map[string]string{
		"kubernetes-v1.36.3-amd64": "kube-proxy kubelet", "etcd-v3.6.12-amd64": "etcd etcdutl etcdctl",
		"containerd-v2.3.4-amd64": "containerd containerd-shim-runc-v2 ctr", "cni-plugins-v1.9.1-amd64": "bridge host-local",
	} {
		for n := range strings.FieldsSeq(names) {
			text := "#!/bin/sh\necho " + set + " " + n + "\n"
			b.file(filepath.Join(b.programs, set, "bin", n), text)
			b.file(filepath.Join(b.programs, set, "bin", n+".sha256"), sum(text)+"\n")
		}
	}
	root := filepath.Join(b.programs, "iptables-bookworm-amd64")
	b.file(filepath.Join(root, "rootfs/usr/sbin/nft"), "nft")
	b.file(filepath.Join(root, "done"), "")
	if err := os.Symlink("usr/sbin", filepath.Join(root, "rootfs/sbin")); err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"nodeup", "go-runner", "pause"} {
		b.file(filepath.Join(b.own, n), "#!/bin/sh\necho "+n+strings.Repeat(" long", 40_000)+"\n")
	}
	return b
}

func (b *bench) file(path, text string) {
	b.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		b.Fatal(err)
	}
}

func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}

// want returns what all programs of the bench can be packed into.
func want() bundle.Want {
	return bundle.Want{Kops: "1.37.0", Kubernetes: "1.36.3", Images: []string{proxy, etcd, pause},
		Files: map[string]string{kubelet: "", nodeup: "", nodeup + ".xz": "", plugins: "", runtime: ""}}
}

func (b *bench) options(w bundle.Want) bundle.Options {
	return bundle.Options{Dir: b.dir, Want: w, Arches: []download.Arch{download.AMD64}, Programs: []string{b.programs}, OwnPrograms: b.own, Now: time.Unix(1e9, 0)}
}

func (b *bench) create(w bundle.Want) *bundle.Bundle {
	b.Helper()
	made, err := bundle.Create(b.Context(), b.options(w))
	if err != nil {
		b.Fatal(err)
	}
	return made
}

// serve serves a bundle and returns the address.
func (b *bench) serve(made *bundle.Bundle) string {
	b.Helper()
	h, err := made.Handler()
	if err != nil {
		b.Fatal(err)
	}
	s := httptest.NewServer(h)
	b.Cleanup(s.Close)
	return s.URL
}

// get returns a response and its body.
func (b *bench) get(method, url string, header ...string) (*http.Response, string) {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), method, url, nil)
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.Fatal(err)
	}
	return resp, string(body)
}

// ns sets the query parameter that names an image's registry, as containerd does.
type ns struct{ registry string }

func (n ns) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	q := r.URL.Query()
	q.Set("ns", n.registry)
	r.URL.RawQuery = q.Encode()
	return http.DefaultTransport.RoundTrip(r)
}

// pull fetches an image of the bundle as containerd does.
func (b *bench) pull(address, image string) v1.Image {
	b.Helper()
	registry, path, _ := strings.Cut(image, "/")
	ref, err := name.ParseReference(strings.TrimPrefix(address, "http://")+"/"+path, name.Insecure)
	if err != nil {
		b.Fatal(err)
	}
	img, err := remote.Image(ref, remote.WithContext(b.Context()), remote.WithTransport(ns{registry}))
	if err != nil {
		b.Fatal(err)
	}
	return img
}

// expectError fails unless the error has all of the texts.
func expectError(t *testing.T, err error, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("the error %v does not say %q", err, text)
		}
	}
}

// unpacked lists the entries of an archive, with the content of files and the targets of links.
func unpacked(t *testing.T, r io.Reader) map[string]string {
	t.Helper()
	out := map[string]string{}
	for a := tar.NewReader(r); ; {
		h, err := a.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(a)
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.ModTime.Unix() != 0 {
			t.Errorf("%s is of user %d, group %d, time %s", h.Name, h.Uid, h.Gid, h.ModTime)
		}
		out[fmt.Sprintf("%s %o", h.Name, h.Mode)] = string(text) + h.Linkname
	}
}

func TestImagesArePackedAndPulled(t *testing.T) {
	b := newBench(t)
	made := b.create(want())
	img := b.pull(b.serve(made), proxy)
	if err := made.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	content, err := layers[0].Uncompressed() // the library compares its digest
	if err != nil {
		t.Fatal(err)
	}
	got := unpacked(t, content)
	for entry, text := range map[string]string{
		"usr/local/bin/kube-proxy 755": "#!/bin/sh\necho kubernetes-v1.36.3-amd64 kube-proxy\n",
		"usr/sbin/nft 755":             "nft", "sbin 777": "usr/sbin", "tmp/ 1777": "", "usr/local/ 755": "",
	} {
		if found, ok := got[entry]; !ok || found != text {
			t.Errorf("%s is %q; the image has %v", entry, found, slices.Sorted(maps.Keys(got)))
		}
	}
	if _, ok := got["go-runner 755"]; !ok {
		t.Error("the image has no go-runner")
	}
	config, err := img.ConfigFile()
	if err != nil || config.Architecture != "amd64" || config.OS != "linux" || !strings.HasPrefix(config.Config.Env[0], "PATH=/") {
		t.Errorf("the configuration is %+v, %v", config, err)
	}
	config, err = b.pull(b.serve(made), pause).ConfigFile()
	if err != nil || config.Config.User != "65535:65535" || !slices.Equal(config.Config.Entrypoint, []string{"/pause"}) {
		t.Errorf("the configuration of pause is %+v, %v", config, err)
	}
}

func TestTheImageLayoutNamesEachImage(t *testing.T) {
	b := newBench(t)
	made := b.create(want())
	text, err := os.ReadFile(filepath.Join(b.dir, "oci", "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	var index v1.IndexManifest
	if err := json.Unmarshal(text, &index); err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, m := range index.Manifests {
		names[m.Annotations["org.opencontainers.image.ref.name"]] = m.Digest.String()
	}
	if known := made.Facts().ImageDigests; !maps.Equal(names, known) {
		t.Errorf("the layout has %v, the facts %v", names, known)
	}
}

func TestFilesArePackedAndServed(t *testing.T) {
	b := newBench(t)
	made := b.create(want())
	address := b.serve(made)
	mirror := assets.MirrorsOf(&api.AssetsSpec{FileRepository: &address})
	for url, digest := range made.Facts().FileHashes {
		resp, body := b.get(http.MethodGet, mirror.URL(url))
		if resp.StatusCode != http.StatusOK || sum(body) != digest || resp.ContentLength != int64(len(body)) {
			t.Errorf("%s: %s, %d bytes, length %d", url, resp.Status, len(body), resp.ContentLength)
		}
	}
	const path = "/release/v1.36.3/bin/linux/amd64/kubelet"
	if resp, body := b.get(http.MethodGet, address+path, "Range", "bytes=2-8"); resp.StatusCode != http.StatusPartialContent || body != "/bin/sh" {
		t.Errorf("a part: %s, %q", resp.Status, body)
	}
	if _, body := b.get(http.MethodGet, address+path+".sha256"); strings.TrimSpace(body) != made.Facts().FileHashes[kubelet] {
		t.Errorf("the digest beside the file is %q", body)
	}
	if resp, body := b.get(http.MethodGet, address+"/release/v1.35.0/bin/linux/amd64/kubelet"); resp.StatusCode != http.StatusNotFound ||
		!strings.Contains(body, b.dir) || !strings.Contains(body, "kops bundle create") || !strings.Contains(body, "v1.35.0") {
		t.Errorf("an absent file: %s, %q", resp.Status, body)
	}
	if resp, _ := b.get(http.MethodPut, address+path); resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("a change: %s", resp.Status)
	}
	for _, up := range []string{"/../oci/index.json", "/%2e%2e/oci/index.json", "/release/%2e%2e/%2e%2e/oci/index.json"} {
		if resp, _ := b.get(http.MethodGet, address+up); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", up, resp.Status)
		}
	}
	index, err := os.ReadFile(filepath.Join(b.dir, "bundle.json"))
	if _, body := b.get(http.MethodGet, address+"/bundle.json"); err != nil || body != string(index) {
		t.Errorf("the index is %q, %v", body, err)
	}
	if resp, body := b.get(http.MethodGet, address+"/bundle.json.sig"); resp.StatusCode != http.StatusNotFound || !strings.Contains(body, "never signed") {
		t.Errorf("the signature of what is not signed: %s, %q", resp.Status, body)
	}
}

func TestArchivesHoldTheProgramsAtTheirPlaces(t *testing.T) {
	b := newBench(t)
	address := b.serve(b.create(want()))
	for path, entries := range map[string][]string{
		"/containerd/containerd/releases/download/v2.3.4/containerd-2.3.4-linux-amd64.tar.gz": {
			"bin/ 755", "bin/containerd 755", "bin/containerd-shim-runc-v2 755", "bin/ctr 755"},
		"/containernetworking/plugins/releases/download/v1.9.1/cni-plugins-linux-amd64-v1.9.1.tgz": {"bridge 755", "host-local 755"},
	} {
		_, body := b.get(http.MethodGet, address+path)
		z, err := gzip.NewReader(strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Sorted(maps.Keys(unpacked(t, z))); !slices.Equal(got, entries) {
			t.Errorf("%s holds %q", path, got)
		}
	}
}

func TestXZUnpacksToTheFile(t *testing.T) {
	b := newBench(t)
	made := b.create(want())
	unxz, err := exec.LookPath("xz")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("NOT RUN: xz is not installed")
	}
	out, err := exec.CommandContext(t.Context(), unxz, "--decompress", "--stdout", filepath.Join(b.dir, "files/binaries/kops/1.37.0/linux/amd64/nodeup.xz")).CombinedOutput()
	if err != nil || sum(string(out)) != made.Facts().FileHashes[nodeup] || len(out) < 1<<17 {
		t.Errorf("xz gives %d bytes, %v", len(out), err)
	}
}

func TestTheRegistryAnswersAsContainerdAsks(t *testing.T) {
	b := newBench(t)
	made := b.create(want())
	address := b.serve(made)
	digest, _ := made.ImageDigest(etcd)
	for _, c := range []struct {
		path string
		code int
	}{
		{"/v2/", 200},
		{"/v2/etcd/manifests/v3.6.12?ns=registry.k8s.io", 200},
		{"/v2/etcd/manifests/v3.6.12?ns=docker.io", 404},
		{"/v2/etcd/manifests/v3.6.11?ns=registry.k8s.io", 404},
		{"/v2/etcd/manifests/v3.6.12", 200}, // the only image with this name
		{"/v2/registry.k8s.io/etcd/manifests/v3.6.12", 200},
		{"/v2/etcd/manifests/" + digest + "?ns=registry.k8s.io", 200},
		{"/v2/etcd/blobs/" + digest, 200},
		{"/v2/etcd/blobs/sha256:" + strings.Repeat("0", 64), 404},
		{"/v2/etcd/blobs/..%2f..%2f..%2fbundle.json", 404},
		{"/v2/etcd/tags/list", 404},
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			resp, body := b.get(method, address+c.path)
			if resp.StatusCode != c.code {
				t.Errorf("%s %s: %s, %s", method, c.path, resp.Status, body)
			}
			if strings.Contains(c.path, "/etcd/") && c.code == 200 && resp.Header.Get("Docker-Content-Digest") != digest {
				t.Errorf("%s %s: the digest is %q", method, c.path, resp.Header.Get("Docker-Content-Digest"))
			}
			if c.code == 404 && method == http.MethodGet && !strings.Contains(body, `"errors"`) {
				t.Errorf("%s: %q is not as the specification says", c.path, body)
			}
		}
	}
}

func TestTheSameProgramsGiveTheSameDigests(t *testing.T) {
	x, y := newBench(t), newBench(t)
	later := time.Now().Add(time.Hour)
	err := filepath.WalkDir(y.programs, func(p string, _ fs.DirEntry, err error) error {
		if err != nil || strings.HasSuffix(p, "rootfs/sbin") {
			return err
		}
		return os.Chtimes(p, later, later)
	})
	if err != nil {
		t.Fatal(err)
	}
	first, second := x.create(want()).Facts(), y.create(want()).Facts()
	if !maps.Equal(first.FileHashes, second.FileHashes) || !maps.Equal(first.ImageDigests, second.ImageDigests) || len(first.ImageDigests) != 3 {
		t.Errorf("first %v\nthen %v", first, second)
	}
	if again := x.create(want()).Facts(); !maps.Equal(first.ImageDigests, again.ImageDigests) {
		t.Errorf("made again, it has %v", again)
	}
}

func TestVerifyNamesWhatHasChanged(t *testing.T) {
	b := newBench(t)
	made := b.create(want())
	flip := func(path string) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text[len(text)/2] ^= 1
		b.file(path, string(text))
	}
	flip(filepath.Join(b.dir, "files/release/v1.36.3/bin/linux/amd64/kubelet"))
	layers, err := b.pull(b.serve(made), etcd).Layers()
	if err != nil {
		t.Fatal(err)
	}
	layer, err := layers[0].Digest()
	if err != nil {
		t.Fatal(err)
	}
	flip(filepath.Join(b.dir, "oci/blobs/sha256", layer.Hex))
	err = made.Verify(t.Context(), nil)
	expectError(t, err, kubelet, etcd, "2 of the files and images", layer.Hex)
	if err != nil && strings.Contains(err.Error(), proxy) {
		t.Errorf("%v names an image that has not changed", err)
	}
	if fault.Of(err) != fault.Permanent || !strings.Contains(fault.Remedy(err), "kops bundle create") {
		t.Errorf("the class is %s, the remedy %q", fault.Of(err), fault.Remedy(err))
	}
	if err := b.create(want()).Verify(t.Context(), nil); err != nil {
		t.Errorf("made again: %v", err)
	}
}

func TestAChangedProgramIsRefusedByName(t *testing.T) {
	b := newBench(t)
	before := b.create(want()).Facts()
	b.file(filepath.Join(b.programs, "kubernetes-v1.36.3-amd64/bin/kubelet"), "#!/bin/sh\necho other\n")
	b.file(filepath.Join(b.programs, "etcd-v3.6.12-amd64/bin/etcdctl"), "#!/bin/sh\necho other\n")
	_, err := bundle.Create(t.Context(), b.options(want()))
	expectError(t, err, "bin/kubelet has changed", "bin/etcdctl has changed", "build it again")
	now, err := bundle.Open(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := now.Verify(t.Context(), nil); err != nil || !maps.Equal(now.Facts().FileHashes, before.FileHashes) {
		t.Errorf("the bundle is not what it was: %v", err)
	}
}

func TestAllMissingItemsAreReportedAtOnce(t *testing.T) {
	b := newBench(t)
	w := want()
	w.Images = append(w.Images, "registry.k8s.io/kube-scheduler:v1.36.3", "quay.io/a/b:1", "kops.internal/channels:1.37.0")
	w.Files["https://example.com/tool"] = ""
	_, err := bundle.Create(t.Context(), b.options(w))
	expectError(t, err, "4 of 12", "kubernetes-v1.36.3-amd64/bin/kube-scheduler", "quay.io/a/b:1", "https://example.com/tool", "channels is not in "+b.own, "make bundle", "--programs")
	if _, err := bundle.Open(b.dir); !fault.Is(err, fault.Gone) || fault.Remedy(err) == "" {
		t.Errorf("there is a bundle all the same: %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(b.dir, ".new")); err == nil {
		t.Errorf("%v is left", left)
	}
}

func TestProgramsOfOtherMachinesAreRefused(t *testing.T) {
	b := newBench(t)
	b.file(filepath.Join(b.own, "nodeup"), "MZ, a program of another system")
	_, err := bundle.Create(t.Context(), b.options(want()))
	expectError(t, err, "nodeup is no program for Linux", "GOARCH=amd64")
}

func TestABundleGrows(t *testing.T) {
	b := newBench(t)
	made := b.create(want())
	address := b.serve(made)
	old, _ := made.ImageDigest(pause)
	b.file(filepath.Join(b.own, "pause"), "#!/bin/sh\necho a newer one\n")
	const older = "https://dl.k8s.io/release/v1.35.4/bin/linux/amd64/kubelet"
	text := "#!/bin/sh\necho older\n"
	b.file(filepath.Join(b.programs, "kubernetes-v1.35.4-amd64/bin/kubelet"), text)
	b.file(filepath.Join(b.programs, "kubernetes-v1.35.4-amd64/bin/kubelet.sha256"), sum(text))
	grown := b.create(bundle.Want{Kops: "1.37.0", Kubernetes: "v1.35.4", Images: []string{pause}, Files: map[string]string{older: ""}})
	if err := grown.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if len(grown.Files()) != 6 || len(grown.Images()) != 3 || !slices.Equal(grown.Versions().Kubernetes, []string{"1.35.4", "1.36.3"}) {
		t.Errorf("the bundle holds %v", grown.Facts())
	}
	// the server needs no restart
	if _, body := b.get(http.MethodGet, address+"/release/v1.35.4/bin/linux/amd64/kubelet"); body != text {
		t.Errorf("the new file is %q", body)
	}
	now, err := b.pull(address, pause).ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	if resp, _ := b.get(http.MethodGet, address+"/v2/pause/blobs/"+now.String()); resp.StatusCode != http.StatusOK {
		t.Errorf("the new image: %s", resp.Status)
	}
	// clusters created earlier refer to the old image by digest
	if resp, _ := b.get(http.MethodGet, address+"/v2/pause/manifests/"+old); resp.StatusCode != http.StatusOK {
		t.Errorf("the old image: %s", resp.Status)
	}
	o := b.options(bundle.Want{})
	o.Prune = true
	pruned, err := bundle.Create(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := pruned.Verify(t.Context(), nil); err != nil {
		t.Errorf("after pruning: %v", err)
	}
	if resp, _ := b.get(http.MethodGet, address+"/v2/pause/manifests/"+old); resp.StatusCode != http.StatusNotFound {
		t.Errorf("the old image after pruning: %s", resp.Status)
	}
}

func TestABundleThatIsServedMayNotBecomeAWrongOne(t *testing.T) {
	b := newBench(t)
	made := b.create(want())
	address := b.serve(made)
	digest := made.Facts().FileHashes[kubelet]
	index, err := os.ReadFile(filepath.Join(b.dir, "bundle.json"))
	if err != nil {
		t.Fatal(err)
	}
	b.file(filepath.Join(b.dir, "bundle.json"), strings.ReplaceAll(string(index), digest, strings.Repeat("0", 64)))
	if _, body := b.get(http.MethodGet, address+"/bundle.json"); body != string(index) {
		t.Errorf("the index is %s", body)
	}
	if _, body := b.get(http.MethodGet, address+"/release/v1.36.3/bin/linux/amd64/kubelet.sha256"); strings.TrimSpace(body) != digest {
		t.Errorf("the digest beside the file is %q", body)
	}
}

func TestAnImageHasAllArchitecturesThatWereMade(t *testing.T) {
	b := newBench(t)
	w := bundle.Want{Images: []string{pause}}
	b.file(filepath.Join(b.own, "linux-arm64", "pause"), "#!/bin/sh\necho arm\n")
	b.create(w)
	o := b.options(w)
	o.Arches = []download.Arch{download.ARM64}
	both, err := bundle.Create(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	again := b.create(w)
	for _, made := range []*bundle.Bundle{both, again} {
		if got := made.Images()[pause].Platforms; !slices.Equal(got, []string{"linux/amd64", "linux/arm64"}) {
			t.Errorf("the platforms are %v", got)
		}
	}
	if again.Images()[pause].Digest != both.Images()[pause].Digest {
		t.Error("the digest depends on the order in which architectures were made")
	}
}

func TestWrongBundlesAreRefused(t *testing.T) {
	for says, text := range map[string]string{
		"read bundle.json":         "{",
		"the format 9":             `{"formatVersion": 9}`,
		"the same path":            `{"formatVersion": 1, "files": {"https://a.io/x": {}, "https://b.io/x": {}}}`,
		"can hold":                 `{"formatVersion": 1, "files": {"https://a.io/../../x": {}}}`,
		"read the image":           `{"formatVersion": 1, "images": {"a b": {}}}`,
		"there is no bundl":        "",
		`the digest "../../etc"`:   `{"formatVersion": 1, "files": {"https://a.io/passwd": {"sha256": "../../etc"}}}`,
		`the digest "sha256:../x"`: `{"formatVersion": 1, "images": {"a.io/b:c": {"digest": "sha256:../x"}}}`,
		`the digest "../y"`:        `{"formatVersion": 1, "images": {"a.io/b:c": {"digest": "sha256:` + strings.Repeat("0", 64) + `", "subset": "../y"}}}`,
	} {
		dir := t.TempDir()
		if text != "" {
			if err := os.WriteFile(filepath.Join(dir, "bundle.json"), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := bundle.Open(dir); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}

// An image that an earlier version named differently does not conflict with its successor.
func TestAFileOfAnotherNameIsSuperseded(t *testing.T) {
	b := newBench(t)
	b.create(want())
	text, err := os.ReadFile(filepath.Join(b.dir, "bundle.json"))
	if err != nil {
		t.Fatal(err)
	}
	old := strings.ReplaceAll(nodeup, "kops.internal", "files.example.com")
	b.file(filepath.Join(b.dir, "bundle.json"), strings.ReplaceAll(string(text), nodeup, old))
	made := b.create(want())
	if _, ok := made.FileHash(nodeup); !ok {
		t.Error("the new name is missing")
	}
	if _, ok := made.FileHash(old); ok {
		t.Error("the old name is still there")
	}
}
