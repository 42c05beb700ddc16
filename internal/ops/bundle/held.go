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

// copied is an image as another registry gets it: whole as it was published, or else as
// an index of the platforms that the bundle holds.
func (b *Bundle) copied(i Image) (remote.Taggable, error) {
	root, err := readHeld(b.dir, i.Copied())
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
	all := i.held(index)
	if len(all) < len(index.Manifests) { // of a bundle that an earlier version made
		index.Manifests = all
		if root.raw, err = json.Marshal(index); err != nil {
			return nil, fmt.Errorf("write an index: %w", err)
		}
	}
	return heldIndex{root, index}, nil
}

// held is a manifest of the bundle; one of an image is a partial.CompressedImageCore.
type held struct {
	dir  string
	raw  []byte
	kind types.MediaType
}

func readHeld(dir, digest string) (held, error) {
	raw, err := readDocument(dir, digest)
	if err != nil {
		return held{}, err
	}
	return held{dir, raw, mediaType(raw)}, nil
}

// MediaType, RawManifest, RawConfigFile and LayerByDigest implement partial.CompressedImageCore.
func (h held) MediaType() (types.MediaType, error) { return h.kind, nil }

// RawManifest is the manifest as it is.
func (h held) RawManifest() ([]byte, error) { return h.raw, nil }

// RawConfigFile is the configuration as it is.
func (h held) RawConfigFile() ([]byte, error) {
	m, err := h.manifest()
	if err != nil {
		return nil, err
	}
	return readDocument(h.dir, m.Config.Digest.String())
}

// LayerByDigest is a layer, or the configuration, as remote.Write asks for it.
func (h held) LayerByDigest(digest v1.Hash) (partial.CompressedLayer, error) {
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

func (h held) manifest() (v1.Manifest, error) {
	var m v1.Manifest
	if err := json.Unmarshal(h.raw, &m); err != nil {
		return m, fmt.Errorf("read a manifest: %w", err)
	}
	return m, nil
}

// heldLayer is a file of a bundle that is sent as it is.
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
	held
	index v1.IndexManifest
}

// Digest, Size, IndexManifest, Image and ImageIndex implement v1.ImageIndex.
func (i heldIndex) Digest() (v1.Hash, error) { return partial.Digest(i) }

// Size is the size of the index itself.
func (i heldIndex) Size() (int64, error) { return int64(len(i.raw)), nil }

// IndexManifest lists the images.
func (i heldIndex) IndexManifest() (*v1.IndexManifest, error) { return &i.index, nil }

// Image is one of the images.
func (i heldIndex) Image(digest v1.Hash) (v1.Image, error) {
	h, err := readHeld(i.dir, digest.String())
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(h)
}

// ImageIndex fails: indexes of images have no others in them.
func (i heldIndex) ImageIndex(digest v1.Hash) (v1.ImageIndex, error) {
	return nil, fmt.Errorf("%s is not an index", digest)
}
