package bundle_test

import (
	"bytes"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/contract/programs"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/ops/bundle"
	"kops.local/kops/internal/ops/delivery"
	"kops.local/kops/internal/ops/mirror"
	"kops.local/kops/internal/platform/aws/awstest"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/gs"
	"kops.local/kops/internal/store/gs/gstest"
	"kops.local/kops/internal/store/s3"
)

// registryServer is a registry that rejects what real ones may reject: an index of images that it
// does not have.
func registryServer(t *testing.T) (host string) {
	t.Helper()
	s := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func noReport(string) {}

func TestImagesArePushedToARegistryOnce(t *testing.T) {
	b := newBench(t)
	from, to := registryServer(t), registryServer(t)
	ref, err := name.NewTag(from + "/team/image:v1")
	if err != nil {
		t.Fatal(err)
	}
	index := published(t)
	if err := remote.WriteIndex(ref, index); err != nil {
		t.Fatal(err)
	}
	w := want()
	w.Images = append(w.Images, ref.Name())
	o := b.options(w)
	o.HTTP = http.DefaultClient
	made, err := bundle.Create(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	r := &mirror.Registry{HTTP: http.DefaultTransport}
	first, err := made.PushImages(t.Context(), r, to+"/kops", true, noReport)
	if err != nil || first.Sent != 5 || first.Kept != 0 || first.Bytes < 100_000 {
		t.Fatalf("%+v, %v", first, err)
	}
	for image, copied := range map[string]string{
		proxy: "/kops/kube-proxy:v1.36.3", pause: "/kops/pause:3.10.1", ref.Name(): "/kops/" + strings.NewReplacer("/", "-", ":", "-").Replace(ref.Context().Name()) + ":v1",
	} {
		at, err := name.NewTag(to + copied)
		if err != nil {
			t.Fatal(err)
		}
		d, err := remote.Get(at)
		if err != nil {
			t.Errorf("%s: %v", image, err)
			continue
		}
		if want := made.Images()[image].Copied(); d.Digest.String() != want {
			t.Errorf("%s has the digest %s, and the bundle says %s", copied, d.Digest, want)
		}
		img, err := d.Image()
		if err == nil {
			_, err = img.Layers()
		}
		if err != nil {
			t.Errorf("%s cannot be pulled: %v", copied, err)
		}
	}
	again, err := made.PushImages(t.Context(), r, to+"/kops", true, noReport)
	if err != nil || again.Sent != 0 || again.Kept != 5 || again.Bytes != 0 {
		t.Errorf("the second time: %+v, %v", again, err)
	}
	b.artifactHolds(to+"/kops/"+bundle.ArtifactName, made)
}

// artifactHolds checks the files of an artifact by their titles.
func (b *bench) artifactHolds(at string, made *bundle.Bundle) {
	b.Helper()
	ref, err := name.ParseReference(at)
	if err != nil {
		b.Fatal(err)
	}
	img, err := remote.Image(ref)
	if err != nil {
		b.Fatal(err)
	}
	m, err := img.Manifest()
	if err != nil {
		b.Fatal(err)
	}
	var titles []string
	for _, l := range m.Layers {
		titles = append(titles, l.Annotations["org.opencontainers.image.title"])
	}
	if !slices.Contains(titles, "release/v1.36.3/bin/linux/amd64/kubelet") || !slices.Contains(titles, "bundle.json") || len(titles) != len(made.Files())+1 {
		b.Errorf("the files are %v", titles)
	}
	config, err := img.RawConfigFile()
	kept, rerr := os.ReadFile(filepath.Join(b.dir, "bundle.json"))
	if err != nil || rerr != nil || !bytes.Equal(config, kept) {
		b.Errorf("the configuration is %s, %v %v", config, err, rerr)
	}
}

func TestAPublishedImageIsPushedForThePlatformsThatAreHeld(t *testing.T) {
	b := newBench(t)
	from, to := registryServer(t), registryServer(t)
	ref, err := name.NewTag(from + "/team/image:v1")
	if err != nil {
		t.Fatal(err)
	}
	index := published(t)
	if err := remote.WriteIndex(ref, index); err != nil {
		t.Fatal(err)
	}
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	o := b.options(bundle.Want{Images: []string{from + "/team/image@" + digest.String()}})
	o.HTTP = http.DefaultClient
	made, err := bundle.Create(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var image bundle.Image
	for n, i := range made.Images() {
		if image = i; n != from+"/team/image:sha256-"+digest.Hex || i.Digest != digest.String() || i.Subset == "" {
			t.Errorf("%s: %+v", n, i)
		}
	}
	if err := made.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
	// both are also available from the bundle itself
	for _, d := range []string{image.Digest, image.Subset} {
		if resp, _ := b.get(http.MethodGet, b.serve(made)+"/v2/team/image/manifests/"+d); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", d, resp.Status)
		}
	}
	r := &mirror.Registry{HTTP: http.DefaultTransport}
	if p, err := made.PushImages(t.Context(), r, to+"/kops", false, noReport); err != nil || p.Sent != 1 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestARejectingRegistryIsNamed(t *testing.T) {
	b := newBench(t)
	made := b.create(bundle.Want{Images: []string{pause}})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(s.Close)
	_, err := made.PushImages(t.Context(), &mirror.Registry{HTTP: http.DefaultTransport}, strings.TrimPrefix(s.URL, "http://")+"/kops", false, noReport)
	expectError(t, err, pause, "403")
	if !fault.Is(err, fault.Denied) || !strings.Contains(fault.Remedy(err), "docker login") {
		t.Errorf("%v: %s", fault.Of(err), fault.Remedy(err))
	}
}

func TestFilesArePushedToABucketOnce(t *testing.T) {
	moto, google := awstest.Moto(t), gstest.Start(t)
	moto.Bucket(t, "files")
	google.Bucket(t, "files")
	all := store.Backends{s3.Backend(moto.S3()), gs.Backend(gs.Config{Endpoint: google.URL})}
	for scheme, web := range map[string]string{"s3": moto.URL, "gs": google.URL} {
		t.Run(scheme, func(t *testing.T) {
			at, err := all.Open(t.Context(), scheme+"://files/kops")
			if err != nil {
				t.Fatal(err)
			}
			if got := at.About().Web(); got != web+"/files/kops" {
				t.Errorf("on the web it is %s", got)
			}
			checkPushedOnce(t, at)
		})
	}
}

func checkPushedOnce(t *testing.T, at store.Store) {
	b := newBench(t)
	made := b.create(want())
	push := func() bundle.Pushed {
		t.Helper()
		to, err := mirror.NewFiles(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		p, err := made.PushFiles(t.Context(), to, true, noReport)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first := push()
	if first.Sent < 5+3 || first.Kept != 0 || first.Bytes < 100_000 {
		t.Errorf("%+v", first)
	}
	for key, want := range map[string]string{
		"release/v1.36.3/bin/linux/amd64/kubelet":        "#!/bin/sh\necho kubernetes-v1.36.3-amd64 kubelet\n",
		"release/v1.36.3/bin/linux/amd64/kubelet.sha256": sum("#!/bin/sh\necho kubernetes-v1.36.3-amd64 kubelet\n") + "\n",
	} {
		if text, _, err := at.Get(t.Context(), key); err != nil || string(text) != want {
			t.Errorf("%s: %q, %v", key, text, err)
		}
	}
	kept, err := os.ReadFile(filepath.Join(b.dir, "bundle.json"))
	if text, _, gerr := at.Get(t.Context(), "bundle.json"); err != nil || gerr != nil || !bytes.Equal(text, kept) {
		t.Errorf("the index: %v %v", err, gerr)
	}
	if again := push(); again.Sent != 0 || again.Bytes != 0 || again.Kept != first.Sent {
		t.Errorf("the second time: %+v", again)
	}
	changed := "#!/bin/sh\necho another\n"
	b.file(filepath.Join(b.programs, "kubernetes-v1.36.3-amd64/bin/kubelet"), changed)
	b.file(filepath.Join(b.programs, "kubernetes-v1.36.3-amd64/bin/kubelet.sha256"), sum(changed)+"\n")
	made = b.create(want())
	if then := push(); then.Sent != 1 {
		t.Errorf("after one file has changed: %+v", then)
	}
	b.file(filepath.Join(b.dir, "files/release/v1.36.3/bin/linux/amd64/kubelet"), "spoilt") // and differs from the stored content
	if err := at.Delete(t.Context(), "release/v1.36.3/bin/linux/amd64/kubelet", store.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	to, err := mirror.NewFiles(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	_, err = made.PushFiles(t.Context(), to, true, noReport)
	expectError(t, err, kubelet, "has changed")
}

func TestImagesOfTheUserAreAddedFromAnArchive(t *testing.T) {
	b := newBench(t)
	made := b.create(bundle.Want{Images: []string{pause}})
	address := b.serve(made) // serves a running cluster on this host
	img, err := random.Image(1000, 2)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", "amd64"
	if img, err = mutate.ConfigFile(img, config); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag("app:dev1")
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "app.tar")
	if err := tarball.WriteToFile(archive, tag, img); err != nil {
		t.Fatal(err)
	}
	names, err := bundle.SavedImages(archive)
	if err != nil || !slices.Equal(names, []string{"app:dev1"}) {
		t.Fatalf("%v, %v", names, err)
	}
	o := b.options(bundle.Want{Images: names})
	o.Saved = map[string]string{"app:dev1": archive}
	if made, err = bundle.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if i := made.Images()["app:dev1"]; i.Source != bundle.Added || made.Images()[pause].Digest == "" {
		t.Errorf("%+v", made.Images())
	}
	got := b.pull(address, "docker.io/library/app:dev1")
	have, err := got.ConfigName()
	want, werr := img.ConfigName()
	if err != nil || werr != nil || have != want {
		t.Errorf("the image is %s, and was %s: %v %v", have, want, err, werr)
	}
	_, err = bundle.SavedImages(filepath.Join(b.own, "pause"))
	expectError(t, err, "is not an archive of images")
}

func TestOwnProgramsComeFromTheArchiveThatTravels(t *testing.T) {
	b := newBench(t)
	for _, n := range []string{programs.Controller, programs.Channels, programs.EtcdManager, programs.DNSController, programs.Healthcheck} {
		b.file(filepath.Join(b.own, n), "#!/bin/sh\necho "+n+"\n")
	}
	at := filepath.Join(t.TempDir(), delivery.FileName("1.37.0"))
	f, err := os.Create(at)
	if err != nil {
		t.Fatal(err)
	}
	_, err = bundle.Pack(f, b.own, "1.37.0", download.Arches(), noReport)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	a, err := delivery.Places{Version: "1.37.0", Files: []string{at}}.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	channels := a.Index.Images[programs.Channels].Name
	o := b.options(bundle.Want{Kops: "1.37.0", Files: map[string]string{nodeup: ""}, Images: []string{channels}})
	o.OwnPrograms, o.Programs, o.Archive, o.Arches = t.TempDir(), nil, a, download.Arches()
	made, err := bundle.Create(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := made.FileHash(nodeup); got != a.Index.Nodeup[download.AMD64].Program {
		t.Errorf("nodeup has %s, and the index says %s", got, a.Index.Nodeup[download.AMD64].Program)
	}
	if got := made.Images()[channels].Platforms; !slices.Equal(got, []string{"linux/amd64", "linux/arm64"}) {
		t.Errorf("%s is there for %v", channels, got)
	}
	b.pull(b.serve(made), channels)
}

func TestDiff(t *testing.T) {
	b := newBench(t)
	made := b.create(want())
	w := want()
	delete(w.Files, plugins)
	w.Files["https://example.com/tool"] = sum("tool")
	w.Images = []string{proxy, "registry.k8s.io/pause:3.10.1", "quay.io/a/b:1"}
	state := func(list []bundle.Difference) string {
		var out []string
		for _, d := range list {
			out = append(out, string(d.State)+" "+d.Name+strings.Join(d.Lacks, ","))
		}
		return strings.Join(out, "\n")
	}
	const lacks = "missing https://example.com/tool\nmissing quay.io/a/b:1\nmore " + plugins + "\nmore " + etcd
	if got := state(made.Missing(w, []download.Arch{download.AMD64})); got != lacks {
		t.Errorf("it lacks\n%s\nand not\n%s", got, lacks)
	}
	if got := state(made.Missing(bundle.Want{Images: []string{pause, proxy, etcd}, Files: want().Files}, download.Arches())); !strings.HasPrefix(got, "other "+etcd+"linux/arm64\n") {
		t.Errorf("without another architecture:\n%s", got)
	}
	other := newBench(t)
	other.file(filepath.Join(other.own, "pause"), "#!/bin/sh\necho other\n")
	w = want()
	delete(w.Files, kubelet)
	with := other.create(w)
	if got := state(made.Diff(with)); got != "more "+kubelet+"\nother "+pause {
		t.Errorf("two bundles differ in\n%s", got)
	}
	if got := made.Diff(made); len(got) != 0 {
		t.Errorf("a bundle differs from itself: %v", got)
	}
}
