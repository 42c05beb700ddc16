package stage

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"path/filepath"
	"runtime"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"kops.local/kops/internal/platform/local/site"
)

// entry is a file of a layer.
type entry struct{ path, text string }

// layerWith returns a compressed layer with some files.
func layerWith(t *testing.T, files ...entry) v1.Layer {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.path, Mode: 0o644, Size: int64(len(f.text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, f.text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(out.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func imageWith(t *testing.T, layers ...v1.Layer) v1.Image {
	t.Helper()
	image, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

const thing = "a thing of the publisher\n"

// newBundle creates a bundle of a file and two images, one of them in an index.
func newBundle(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	sum := sha256.Sum256([]byte(thing))
	do(site.Write(filepath.Join(dir, "files/dl/thing"), []byte(thing), 0o644))
	l, err := layout.Write(filepath.Join(dir, "oci"), empty.Index)
	do(err)
	own := imageWith(t, layerWith(t, entry{"etc/ssl/certs/ca-certificates.crt", "its own\n"}), layerWith(t, entry{"app", "x"}))
	none := imageWith(t, layerWith(t, entry{"app", "y"}))
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: imageWith(t, layerWith(t, entry{"app", "of another architecture"})), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "s390x"}}},
		mutate.IndexAddendum{Add: own, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: runtime.GOARCH}}})
	do(l.AppendIndex(index))
	do(l.AppendImage(none))
	images := map[string]any{}
	for name, i := range map[string]interface{ Digest() (v1.Hash, error) }{"images.publisher.test/own:1": index, "busybox:1": none} {
		d, err := i.Digest()
		do(err)
		images[name] = map[string]any{"digest": d.String(), "platforms": []string{"linux/" + runtime.GOARCH}, "source": "published"}
	}
	text, err := json.Marshal(map[string]any{"formatVersion": 1, "images": images, "files": map[string]any{
		"https://files.publisher.test/dl/thing": map[string]any{"sha256": hex.EncodeToString(sum[:]), "size": len(thing), "source": "published"}}})
	do(err)
	do(site.Write(filepath.Join(dir, "bundle.json"), text, 0o644))
	return dir
}
