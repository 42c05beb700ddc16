package bundle

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/store/confined"
)

// documentSize bounds the manifests that are read into memory; registries have the same limit.
const documentSize = 4 << 20

// searchPath is where programs in packed images look for others.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// pack adds an image with one layer. The layer is not compressed: machines fetch it over a local
// network, where compression costs more time than it saves. The same tree gives the same digest.
func (a *area) pack(t tree, r imageRecipe, arch download.Arch) (v1.Descriptor, error) {
	layer, err := a.blob(types.OCIUncompressedLayer, func(w io.Writer) error { return t.tar(w) })
	if err != nil {
		return v1.Descriptor{}, err
	}
	platform := v1.Platform{OS: "linux", Architecture: string(arch)}
	config, err := a.document(types.OCIConfigJSON, v1.ConfigFile{
		Created: v1.Time{Time: time.Unix(0, 0).UTC()}, OS: platform.OS, Architecture: platform.Architecture,
		RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{layer.Digest}},
		Config: v1.Config{Env: append([]string{"PATH=" + searchPath}, r.env...), Entrypoint: r.entrypoint, Cmd: r.cmd, User: r.user, WorkingDir: "/", Labels: r.labels()},
	})
	if err != nil {
		return v1.Descriptor{}, err
	}
	d, err := a.document(types.OCIManifestSchema1, v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: config, Layers: []v1.Descriptor{layer}})
	d.Platform = &platform
	return d, err
}

// labels returns the labels of an image whose content is not what its tag says
// (https://specs.opencontainers.org/image-spec/annotations/).
func (r imageRecipe) labels() map[string]string {
	if r.content == "" {
		return nil
	}
	return map[string]string{"org.opencontainers.image.description": r.content}
}

// image records a packed image with its manifests. Existing manifests for other platforms are kept.
func (a *area) image(name string, manifests []v1.Descriptor, source Source) error {
	var others []string
	for _, p := range a.next.Images[name].Platforms {
		if !slices.ContainsFunc(manifests, func(m v1.Descriptor) bool { return m.Platform.String() == p }) {
			others = append(others, p)
		}
	}
	if old := a.next.Images[name]; len(others) > 0 && old.Source == source && a.holdsImage(name, nil) {
		index, err := readIndex(a.dir, old.Digest)
		if err != nil {
			return err
		}
		for _, m := range index.Manifests {
			if slices.Contains(others, m.Platform.String()) {
				manifests = append(manifests, m)
			}
		}
	}
	slices.SortFunc(manifests, func(x, y v1.Descriptor) int { return strings.Compare(x.Platform.String(), y.Platform.String()) })
	d, err := a.document(types.OCIImageIndex, v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: manifests})
	if err != nil {
		return err
	}
	var platforms []string
	for _, m := range manifests {
		platforms = append(platforms, m.Platform.String())
	}
	return a.record(name, Image{Digest: d.Digest.String(), Platforms: platforms, Source: source})
}

// record adds an image whose contents are already stored.
func (a *area) record(name string, i Image) error {
	parts, err := parts(a.dir, i)
	if err != nil {
		return fmt.Errorf("add the image %s: %w", name, err)
	}
	for _, p := range parts {
		i.Size += p.Size
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next.Images[name] = i
	return nil
}

// heldManifests returns the manifests of an index that the bundle holds.
func (i Image) heldManifests(index v1.IndexManifest) []v1.Descriptor {
	var out []v1.Descriptor
	for _, m := range index.Manifests {
		if m.Platform != nil && slices.Contains(i.Platforms, m.Platform.String()) {
			out = append(out, m)
		}
	}
	return out
}

// subset adds an index of the manifests that the bundle holds of an image, if that is not all of
// them.
func (a *area) subset(i Image, index v1.IndexManifest, kind types.MediaType) (Image, error) {
	held := i.heldManifests(index)
	if len(held) == len(index.Manifests) {
		return i, nil
	}
	d, err := a.document(kind, v1.IndexManifest{SchemaVersion: 2, MediaType: kind, Manifests: held})
	i.Subset = d.Digest.String()
	return i, err
}

// splitDigest splits a name into the name with a tag and the digest at its end, or "". A name
// without a tag gets one derived from the digest.
func splitDigest(image string) (tagged, digest string) {
	tagged, digest, _ = strings.Cut(image, "@")
	if digest != "" && !strings.Contains(tagged[strings.LastIndex(tagged, "/")+1:], ":") {
		tagged += ":" + strings.Replace(digest, ":", "-", 1)
	}
	return tagged, digest
}

// readDocument reads a manifest, an index or a configuration.
func readDocument(dir, digest string) ([]byte, error) {
	f, err := confined.Open(dir, blobPlace(digest))
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	return io.ReadAll(io.LimitReader(f, documentSize))
}

func readIndex(dir, digest string) (v1.IndexManifest, error) {
	var index v1.IndexManifest
	text, err := readDocument(dir, digest)
	if err != nil {
		return index, err
	}
	if err := json.Unmarshal(text, &index); err != nil {
		return index, fmt.Errorf("read the index %s: %w", digest, err)
	}
	return index, nil
}

// mediaType returns a document's media type. Old manifests do not state it; their content
// identifies them.
func mediaType(text []byte) types.MediaType {
	var head struct {
		MediaType types.MediaType `json:"mediaType"`
		Manifests json.RawMessage `json:"manifests"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return ""
	}
	switch {
	case head.MediaType != "":
		return head.MediaType
	case head.Manifests != nil:
		return types.OCIImageIndex
	}
	return types.OCIManifestSchema1
}

// describe returns the descriptor of a manifest or an index.
func describe(dir, digest string) (v1.Descriptor, error) {
	text, err := readDocument(dir, digest)
	if err != nil {
		return v1.Descriptor{}, err
	}
	h, err := v1.NewHash(digest)
	return v1.Descriptor{MediaType: mediaType(text), Size: int64(len(text)), Digest: h}, err
}

// parts lists all contents of an image, for the platforms that the bundle holds: the index,
// manifests, configurations and layers, each once.
func parts(dir string, i Image) ([]v1.Descriptor, error) {
	root, err := describe(dir, i.Digest)
	if err != nil {
		return nil, err
	}
	out, manifests := []v1.Descriptor{root}, []v1.Descriptor{root}
	if root.MediaType.IsIndex() {
		index, err := readIndex(dir, i.Digest)
		if err != nil {
			return nil, err
		}
		manifests = i.heldManifests(index)
		out = append(out, manifests...)
	}
	if i.Subset != "" {
		d, err := describe(dir, i.Subset)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	for _, d := range manifests {
		text, err := readDocument(dir, d.Digest.String())
		if err != nil {
			return nil, err
		}
		var m v1.Manifest
		if err := json.Unmarshal(text, &m); err != nil {
			return nil, fmt.Errorf("read the manifest %s: %w", d.Digest, err)
		}
		out = append(append(out, m.Config), m.Layers...)
	}
	slices.SortFunc(out, func(x, y v1.Descriptor) int { return strings.Compare(x.Digest.Hex, y.Digest.Hex) })
	return slices.CompactFunc(out, func(x, y v1.Descriptor) bool { return x.Digest == y.Digest }), nil
}
