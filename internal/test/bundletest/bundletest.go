// Package bundletest stands in for the publishers of files and images from which bundles are made.
package bundletest

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// publishers represents all of them with one server.
type publishers struct{ dir string }

// RoundTrip implements http.RoundTripper: it sends the requests for every host to the server.
func (p publishers) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = "http", p.dir
	return http.DefaultTransport.RoundTrip(r)
}

// Publishers serves any file, whose content is its path, and images of some names for all
// architectures. It does not publish digests.
func Publishers(t testing.TB, images []string) http.RoundTripper {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/v2/", registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(strings.ToLower(r.URL.Path), "sha256") {
			http.NotFound(w, r)
			return
		}
		io.WriteString(w, "file "+r.URL.Path) //nolint:errcheck // the client is the test
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	p := publishers{strings.TrimPrefix(s.URL, "http://")}
	for _, n := range images {
		tag, err := name.NewTag(n)
		if err == nil {
			err = remote.WriteIndex(tag, image(t), remote.WithTransport(p))
		}
		if err != nil {
			t.Fatalf("publish %s: %v", n, err)
		}
	}
	return p
}

// image returns an image for two architectures.
func image(t testing.TB) v1.ImageIndex {
	t.Helper()
	var add []mutate.IndexAddendum
	for _, arch := range []string{"amd64", "arm64"} {
		img, err := random.Image(100, 1)
		if err != nil {
			t.Fatal(err)
		}
		add = append(add, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	return mutate.AppendManifests(empty.Index, add...)
}
