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

// trustFile is where programs look for the authorities that they trust, on machines and in
// images: Debian's place, which comes first in the list of Go, and which most images have.
const trustFile = "/etc/ssl/certs/ca-certificates.crt"

// images are a bundle's images, with one layer more: containers bring a list of trusted
// authorities of their own, to which the rehearsal's must be added.
type images struct {
	dir       string // the bundle's
	authority *authority
	// trusted is the list for images that have none.
	trusted []byte
	log     *slog.Logger

	working sync.Mutex // one is made at a time
	mu      sync.Mutex
	made    map[string]string  // digest of an image or an index → digest of its manifest here
	blobs   map[string]content // by digest, what is here and not in the bundle
}

type content struct {
	kind types.MediaType
	data []byte
}

func newImages(dir string, a *authority, trusted []byte, log *slog.Logger) *images {
	return &images{dir: dir, authority: a, trusted: trusted, log: log, made: map[string]string{}, blobs: map[string]content{}}
}

// tagged serves the manifest of an image of the bundle that was asked for by its tag.
func (i *images) tagged(w http.ResponseWriter, r *http.Request, digest string) {
	own, err := i.amended(digest)
	if err != nil {
		i.log.Error("add the rehearsal's authority to an image", "image", r.URL.Path, "error", err)
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	i.send(w, r, own)
}

// own serves a content that is not of the bundle, if it is one.
func (i *images) own(w http.ResponseWriter, r *http.Request) bool {
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

// amended returns the digest of the manifest of an image with the layer. It is made once.
func (i *images) amended(digest string) (string, error) {
	i.working.Lock()
	defer i.working.Unlock()
	i.mu.Lock()
	own, ok := i.made[digest]
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
	i.made[digest] = own
	return own, nil
}

// find returns an image of the bundle, of an index the one for machines of this host.
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

// amend adds the layer to an image. It returns the digest of the manifest, and what is new.
func (i *images) amend(image v1.Image) (string, map[string]content, error) {
	trusted, err := trustOf(image)
	if err != nil {
		return "", nil, err
	}
	file := i.trusted
	if trusted != nil {
		file = i.authority.added(trusted)
	}
	data, err := layerOf(file)
	if err != nil {
		return "", nil, err
	}
	kind, err := image.MediaType()
	if err != nil {
		return "", nil, err
	}
	layer := content{types.OCIUncompressedLayer, data}
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
	return own.String(), map[string]content{
		own.String():                              {kind, manifest},
		m.Config.Digest.String():                  {"application/octet-stream", config},
		m.Layers[len(m.Layers)-1].Digest.String(): {"application/octet-stream", data},
	}, nil
}

// layerOf is a layer that has the file of trusted authorities alone.
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

// trustOf is the file of trusted authorities of an image; nil: it has none.
func trustOf(image v1.Image) ([]byte, error) {
	layers, err := image.Layers()
	if err != nil {
		return nil, err
	}
	for _, l := range slices.Backward(layers) {
		data, over, err := trustIn(l)
		if err != nil {
			return nil, fmt.Errorf("look for trusted authorities in an image: %w", err)
		}
		if over {
			return data, nil
		}
	}
	return nil, nil
}

// trustIn looks into one layer; over says that what is below it does not count.
func trustIn(l v1.Layer) (data []byte, over bool, err error) {
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
		case at == trustFile && h.Typeflag != tar.TypeDir, hides(at):
			over = true // a link elsewhere becomes the machines' list, as does nothing
		}
	}
}

// hides reports whether an entry of a layer removes the file from those below, or a folder
// above it (the image specification of OCI, on whiteouts).
func hides(at string) bool {
	for dir := trustFile; dir != "/"; dir = path.Dir(dir) {
		if at == path.Join(path.Dir(dir), ".wh."+path.Base(dir)) || dir != trustFile && at == path.Join(dir, ".wh..wh..opq") {
			return true
		}
	}
	return false
}
