package bundle

import (
	"encoding/json"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"kops.local/kops/internal/store/confined"
)

// imageToCopy returns an image as another registry receives it: whole as it was published, or else
// as an index of the platforms that the bundle holds.
func (b *Bundle) imageToCopy(i Image) (remote.Taggable, error) {
	root, err := openManifest(b.dir, i.Copied())
	if err != nil {
		return nil, err
	}
	if !root.kind.IsIndex() {
		return partial.CompressedToImage(root)
	}
	index, err := readIndex(b.dir, i.Copied())
	if err != nil {
		return nil, err
	}
	all := i.heldManifests(index)
	if len(all) < len(index.Manifests) { // from a bundle that an earlier version created
		index.Manifests = all
		if root.raw, err = json.Marshal(index); err != nil {
			return nil, fmt.Errorf("write an index: %w", err)
		}
	}
	return heldIndex{root, index}, nil
}

// heldManifest is a manifest in the bundle; an image's manifest is a partial.CompressedImageCore.
type heldManifest struct {
	dir  string
	raw  []byte
	kind types.MediaType
}

func openManifest(dir, digest string) (heldManifest, error) {
	raw, err := readDocument(dir, digest)
	if err != nil {
		return heldManifest{}, err
	}
	return heldManifest{dir, raw, mediaType(raw)}, nil
}

// MediaType, RawManifest, RawConfigFile and LayerByDigest implement partial.CompressedImageCore.
func (h heldManifest) MediaType() (types.MediaType, error) { return h.kind, nil }

// RawManifest returns the manifest unchanged.
func (h heldManifest) RawManifest() ([]byte, error) { return h.raw, nil }

// RawConfigFile returns the configuration unchanged.
func (h heldManifest) RawConfigFile() ([]byte, error) {
	m, err := h.manifest()
	if err != nil {
		return nil, err
	}
	return readDocument(h.dir, m.Config.Digest.String())
}

// LayerByDigest returns a layer, or the configuration, which remote.Write requests in the same way.
func (h heldManifest) LayerByDigest(digest v1.Hash) (partial.CompressedLayer, error) {
	m, err := h.manifest()
	if err != nil {
		return nil, err
	}
	for _, d := range append(m.Layers, m.Config) {
		if d.Digest == digest {
			return heldLayer{h.dir, blobPlace(digest.Hex), d}, nil
		}
	}
	return nil, fmt.Errorf("the image has no layer %s", digest)
}

func (h heldManifest) manifest() (v1.Manifest, error) {
	var m v1.Manifest
	if err := json.Unmarshal(h.raw, &m); err != nil {
		return m, fmt.Errorf("read a manifest: %w", err)
	}
	return m, nil
}

// heldLayer is a file of a bundle that is sent unchanged.
type heldLayer struct {
	dir, file string
	d         v1.Descriptor
}

func (l heldLayer) Digest() (v1.Hash, error)            { return l.d.Digest, nil }
func (l heldLayer) Size() (int64, error)                { return l.d.Size, nil }
func (l heldLayer) MediaType() (types.MediaType, error) { return l.d.MediaType, nil }
func (l heldLayer) Compressed() (io.ReadCloser, error)  { return confined.Open(l.dir, l.file) }
func (l heldLayer) Descriptor() (*v1.Descriptor, error) { return &l.d, nil }

// heldIndex is an index of images that are all in the bundle.
type heldIndex struct {
	heldManifest
	index v1.IndexManifest
}

// Digest, Size, IndexManifest, Image and ImageIndex implement v1.ImageIndex.
func (i heldIndex) Digest() (v1.Hash, error) { return partial.Digest(i) }

// Size returns the size of the index itself.
func (i heldIndex) Size() (int64, error) { return int64(len(i.raw)), nil }

// IndexManifest returns the list of the images.
func (i heldIndex) IndexManifest() (*v1.IndexManifest, error) { return &i.index, nil }

// Image returns one of the images.
func (i heldIndex) Image(digest v1.Hash) (v1.Image, error) {
	h, err := openManifest(i.dir, digest.String())
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(h)
}

// ImageIndex always fails: indexes of images do not contain other indexes.
func (i heldIndex) ImageIndex(digest v1.Hash) (v1.ImageIndex, error) {
	return nil, fmt.Errorf("%s is not an index", digest)
}
