package bundle_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"kops.local/kops/internal/ops/bundle"
)

func TestItemsThatAreNotBuiltAreFetchedFromTheirPublisher(t *testing.T) {
	b := newBench(t)
	tool := "the tool"
	stated := sum(tool)
	mux := http.NewServeMux()
	mux.Handle("/v2/", registry.New())
	mux.HandleFunc("/dl/tool", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, tool) })
	mux.HandleFunc("/dl/tool.sha256", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, stated+"  tool\n") })
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	host := strings.TrimPrefix(s.URL, "http://")
	ref, err := name.NewTag(host + "/some/image:v1")
	if err != nil {
		t.Fatal(err)
	}
	index := published(t)
	if err := remote.WriteIndex(ref, index); err != nil {
		t.Fatal(err)
	}
	o := b.options(bundle.Want{Files: map[string]string{s.URL + "/dl/tool": ""}, Images: []string{ref.Name()}})
	o.HTTP = s.Client()
	made, err := bundle.Create(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := index.Digest()
	if got, ok := made.ImageDigest(ref.Name()); err != nil || !ok || got != digest.String() {
		t.Errorf("the digest is %s, that of the publisher %s, %v", got, digest, err)
	}
	if got, _ := made.FileHash(s.URL + "/dl/tool"); got != sum(tool) {
		t.Errorf("the file has %s", got)
	}
	if err := made.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
	layers, err := b.pull(b.serve(made), ref.Name()).Layers()
	if err != nil || len(layers) != 2 {
		t.Errorf("%d layers, %v", len(layers), err)
	}
	stated = sum("another tool")
	o.Dir = filepath.Join(t.TempDir(), "other")
	_, err = bundle.Create(t.Context(), o)
	expectError(t, err, "its publisher states "+stated)
	s.Close()
	o.Dir = b.dir
	if _, err := bundle.Create(t.Context(), o); err != nil { // it exists
		t.Errorf("without the publisher: %v", err)
	}
}

// published is an image for two platforms.
func published(t *testing.T) v1.ImageIndex {
	t.Helper()
	var add []mutate.IndexAddendum
	for _, arch := range []string{"amd64", "arm64"} {
		img, err := random.Image(1000, 2)
		if err != nil {
			t.Fatal(err)
		}
		add = append(add, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	empty, err := random.Index(10, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	return mutate.AppendManifests(empty, add...)
}
