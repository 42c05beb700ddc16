package stage

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// trustFile is where programs look for trusted authorities, on machines and in images:
// Debian's path, which is the first in Go's list, and which most images have.
const trustFile = "/etc/ssl/certs/ca-certificates.crt"

// images are a bundle's images with an additional layer: containers have a list of
// trusted authorities of their own, to which the rehearsal's must be added.
type images struct {
	dir       string // the bundle's folder
	authority *authority
	// trusted is the list for images without one.
	trusted []byte
	log     *slog.Logger

	amending       sync.Mutex // only one image is amended at a time
	mu             sync.Mutex
	amendedDigests map[string]string // digest of an image or an index → digest of its amended manifest
	blobs          map[string]blob   // contents that are not in the bundle, by digest
}

type blob struct {
	kind types.MediaType
	data []byte
}

func newImages(dir string, a *authority, trusted []byte, log *slog.Logger) *images {
	return &images{dir: dir, authority: a, trusted: trusted, log: log, amendedDigests: map[string]string{}, blobs: map[string]blob{}}
}

// serveByTag serves the manifest of an image of the bundle that was requested by tag.
func (i *images) serveByTag(w http.ResponseWriter, r *http.Request, digest string) {
	own, err := i.amendedDigest(digest)
	if err != nil {
		i.log.Error("add the rehearsal's authority to an image", "image", r.URL.Path, "error", err)
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	i.send(w, r, own)
}

// serveOwn serves a content that is not in the bundle; it reports whether there is one.
func (i *images) serveOwn(w http.ResponseWriter, r *http.Request) bool {
	digest := path.Base(r.URL.Path)
	i.mu.Lock()
	_, ok := i.blobs[digest]
	i.mu.Unlock()
	if ok {
		i.send(w, r, digest)
	}
	return ok
}

func (i *images) send(w http.ResponseWriter, r *http.Request, digest string) {
	i.mu.Lock()
	c := i.blobs[digest]
	i.mu.Unlock()
	w.Header().Set("Content-Type", string(c.kind))
	w.Header().Set("Docker-Content-Digest", digest)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(c.data))
}

// amendedDigest returns the digest of the amended manifest of an image. It is created once.
func (i *images) amendedDigest(digest string) (string, error) {
	i.amending.Lock()
	defer i.amending.Unlock()
	i.mu.Lock()
	own, ok := i.amendedDigests[digest]
	i.mu.Unlock()
	if ok {
		return own, nil
	}
	image, err := i.find(digest)
	if err != nil {
		return "", err
	}
	own, blobs, err := i.amend(image)
	if err != nil {
		return "", err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for d, b := range blobs {
		i.blobs[d] = b
	}
	i.amendedDigests[digest] = own
	return own, nil
}

// find returns an image of the bundle; of an index, the image for machines of this host.
func (i *images) find(digest string) (v1.Image, error) {
	h, err := v1.NewHash(digest)
	if err != nil {
		return nil, err
	}
	all, err := layout.ImageIndexFromPath(filepath.Join(i.dir, "oci"))
	if err != nil {
		return nil, err
	}
	entries, err := all.IndexManifest()
	if err != nil {
		return nil, err
	}
	n := slices.IndexFunc(entries.Manifests, func(d v1.Descriptor) bool { return d.Digest == h })
	if n < 0 || !entries.Manifests[n].MediaType.IsIndex() {
		return all.Image(h)
	}
	index, err := all.ImageIndex(h)
	if err != nil {
		return nil, err
	}
	list, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, d := range list.Manifests {
		if d.Platform != nil && d.Platform.OS == "linux" && d.Platform.Architecture == runtime.GOARCH {
			return index.Image(d.Digest)
		}
	}
	return nil, fmt.Errorf("the image %s is not for machines of the architecture %s", digest, runtime.GOARCH)
}

// amend adds the layer to an image. It returns the digest of the manifest, and the new contents.
func (i *images) amend(image v1.Image) (string, map[string]blob, error) {
	trusted, err := trustFileOf(image)
	if err != nil {
		return "", nil, err
	}
	file := i.trusted
	if trusted != nil {
		file = i.authority.withAuthority(trusted)
	}
	data, err := layerOf(file)
	if err != nil {
		return "", nil, err
	}
	kind, err := image.MediaType()
	if err != nil {
		return "", nil, err
	}
	layer := blob{types.OCIUncompressedLayer, data}
	if kind == types.DockerManifestSchema2 {
		layer.kind = types.DockerUncompressedLayer
	}
	added := static.NewLayer(layer.data, layer.kind)
	if image, err = mutate.AppendLayers(image, added); err != nil {
		return "", nil, err
	}
	m, err := image.Manifest()
	if err != nil {
		return "", nil, err
	}
	manifest, err := image.RawManifest()
	if err != nil {
		return "", nil, err
	}
	config, err := image.RawConfigFile()
	if err != nil {
		return "", nil, err
	}
	own, err := image.Digest()
	if err != nil {
		return "", nil, err
	}
	return own.String(), map[string]blob{
		own.String():                              {kind, manifest},
		m.Config.Digest.String():                  {"application/octet-stream", config},
		m.Layers[len(m.Layers)-1].Digest.String(): {"application/octet-stream", data},
	}, nil
}

// layerOf returns a layer that contains only the file of trusted authorities.
func layerOf(file []byte) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: trustFile[1:], Mode: 0o644, Size: int64(len(file)), ModTime: time.Unix(0, 0)})
	if err == nil {
		_, err = w.Write(file)
	}
	if err == nil {
		err = w.Close()
	}
	return out.Bytes(), err
}

// trustFileOf returns an image's file of trusted authorities, or nil if it has none.
func trustFileOf(image v1.Image) ([]byte, error) {
	layers, err := image.Layers()
	if err != nil {
		return nil, err
	}
	for _, l := range slices.Backward(layers) {
		data, over, err := trustFileInLayer(l)
		if err != nil {
			return nil, fmt.Errorf("look for trusted authorities in an image: %w", err)
		}
		if over {
			return data, nil
		}
	}
	return nil, nil
}

// trustFileInLayer searches one layer; over is true if the layers below it no longer count.
func trustFileInLayer(l v1.Layer) (data []byte, over bool, err error) {
	in, err := l.Uncompressed()
	if err != nil {
		return nil, false, err
	}
	defer in.Close() //nolint:errcheck // only read
	for t := tar.NewReader(in); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil, over, nil
		}
		if err != nil {
			return nil, false, err
		}
		switch at := path.Join("/", h.Name); {
		case at == trustFile && h.Typeflag == tar.TypeReg:
			data, err := io.ReadAll(t)
			return data, true, err
		case at == trustFile && h.Typeflag != tar.TypeDir, hidesTrustFile(at):
			over = true // a link elsewhere is replaced by the machines' list, as is a missing file
		}
	}
}

// hidesTrustFile reports whether an entry of a layer hides the file, or a folder above it, from
// lower layers (whiteouts in the OCI image specification).
func hidesTrustFile(at string) bool {
	for dir := trustFile; dir != "/"; dir = path.Dir(dir) {
		if at == path.Join(path.Dir(dir), ".wh."+path.Base(dir)) || dir != trustFile && at == path.Join(dir, ".wh..wh..opq") {
			return true
		}
	}
	return false
}
