package bundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"kops.local/kops/internal/store/confined"
)

// ArtifactName is the name of a bundle's files in a registry.
const ArtifactName = "kops-bundle:latest"

// Media types of the artifact: its configuration is the index of the bundle, and each layer is a
// file, whose title is its path, under which tools write it to a folder.
const (
	artifactConfig types.MediaType = "application/vnd.kops.bundle.v1+json"
	artifactFile   types.MediaType = "application/octet-stream"
	titleKey                       = "org.opencontainers.image.title"
)

// artifact returns the bundle's files and index as an artifact of the OCI image specification
// (Guidelines for Artifact Usage).
func (b *Bundle) artifact() (v1.Image, error) {
	config, err := confined.Read(b.dir, indexName, indexSize)
	if err != nil {
		return nil, fmt.Errorf("pack the files: %w", err)
	}
	a := artifact{dir: b.dir, config: config, files: map[string]string{}}
	m := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: descriptor(artifactConfig, digestOf(config), int64(len(config)))}
	add := func(file, title, sum string, size int64) {
		d := descriptor(artifactFile, sum, size)
		d.Annotations = map[string]string{titleKey: title}
		m.Layers, a.files[sum] = append(m.Layers, d), file
	}
	for _, p := range slices.Sorted(maps.Keys(b.paths)) {
		f := b.contents.Files[b.paths[p]]
		add(filePlace(p), p, f.SHA256, f.Size)
	}
	for _, n := range []string{indexName, signatureName} {
		text, err := confined.Read(b.dir, n, indexSize)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it is not signed
		}
		if err != nil {
			return nil, fmt.Errorf("pack the files: %w", err)
		}
		add(n, n, digestOf(text), int64(len(text)))
	}
	if a.raw, err = json.Marshal(m); err != nil {
		return nil, fmt.Errorf("pack the files: %w", err)
	}
	return partial.CompressedToImage(a)
}

func descriptor(kind types.MediaType, sum string, size int64) v1.Descriptor {
	return v1.Descriptor{MediaType: kind, Digest: v1.Hash{Algorithm: "sha256", Hex: sum}, Size: size}
}

// artifact is a partial.CompressedImageCore.
type artifact struct {
	dir         string
	raw, config []byte
	files       map[string]string // paths in the folder, by digest
}

// MediaType, RawManifest, RawConfigFile and LayerByDigest implement partial.CompressedImageCore.
func (a artifact) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// RawManifest returns the manifest.
func (a artifact) RawManifest() ([]byte, error) { return a.raw, nil }

// RawConfigFile returns the index of the bundle.
func (a artifact) RawConfigFile() ([]byte, error) { return a.config, nil }

// LayerByDigest returns a file.
func (a artifact) LayerByDigest(digest v1.Hash) (partial.CompressedLayer, error) {
	file, ok := a.files[digest.Hex]
	if !ok {
		return nil, fmt.Errorf("there is no file with the digest %s", digest)
	}
	info, err := confined.Stat(a.dir, file)
	if err != nil {
		return nil, err
	}
	return heldLayer{a.dir, file, descriptor(artifactFile, digest.Hex, info.Size())}, nil
}
