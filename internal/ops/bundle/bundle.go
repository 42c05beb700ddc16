// Package bundle keeps the files and container images that the machines of clusters fetch in one
// folder, by digest, so that clusters can be created without the internet. It creates the folder
// from built programs or from the publishers' downloads, verifies it, and serves it to machines.
//
// The folder holds:
//
//	bundle.json                the index: files by public URL, images by name
//	files/PATH                 each file, by the path of its public URL
//	oci/                       an OCI image layout with all images
//	bundle.json.sig            the user's signature of the index, if there is one
//	.new/                      files that are being added
//
// Updates are atomic: contents are written first, under temporary names, and bundle.json is renamed
// into place last. Files that bundle.json does not name are not served by name; contents of images
// stay until Prune removes them, because clusters created earlier refer to them by digest.
//
// It must not know how a cluster is created, nor where its machines run.
package bundle

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/contract/signed"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/store/confined"
)

// formatVersion is the version of bundle.json's format.
const formatVersion = 1

// indexName is the bundle's index; signatureName is its optional signature.
const (
	indexName     = signed.IndexName
	signatureName = signed.SignatureName
)

// Folders of a bundle: contents of images, and files that are being added.
const (
	blobs = "oci/blobs/sha256"
	stage = ".new"
)

// indexSize limits the size of bundle.json, in bytes.
const indexSize = 64 << 20

// Remedy is how to complete a bundle that is missing something.
const Remedy = "run `kops bundle create`"

// Source specifies where a file or an image of a bundle came from.
type Source string

const (
	// Built means packed from programs that were built elsewhere; the digest is not the publisher's.
	Built Source = "built"
	// Published means fetched from the publisher.
	Published Source = "published"
	// Added means one of the user's images, loaded from an archive.
	Added Source = "added"
)

// File is a file of a bundle.
type File struct {
	SHA256 string `json:"sha256"` // hexadecimal
	Size   int64  `json:"size"`   // bytes
	Source Source `json:"source"`
}

// Image is a container image of a bundle.
type Image struct {
	Digest string `json:"digest"` // "sha256:…", of the index if the image has one
	// Subset is the digest of an index of only the platforms that the bundle holds, if the index of
	// Digest lists more: registries reject an index that refers to missing images.
	Subset string `json:"subset,omitempty"`
	Size   int64  `json:"size"` // bytes of all its contents
	// Platforms are the platforms that the bundle holds, such as linux/amd64, sorted. The index of
	// a published image may list more.
	Platforms []string `json:"platforms"`
	Source    Source   `json:"source"`
}

// Versions are the versions for which a bundle was created.
type Versions struct {
	Kops       []string `json:"kops"`       // sorted
	Kubernetes []string `json:"kubernetes"` // without a leading v, sorted
}

// contents is bundle.json.
type contents struct {
	FormatVersion int              `json:"formatVersion"`
	Created       time.Time        `json:"created"`
	Versions      Versions         `json:"versions"`
	Files         map[string]File  `json:"files"`  // by public URL
	Images        map[string]Image `json:"images"` // by name with tag
}

// Bundle is a folder of files and images in the state in which it was opened. It is not changed
// after that.
type Bundle struct {
	dir      string
	contents contents
	text     []byte            // of bundle.json, if it was read
	paths    map[string]string // URLs by their path
	names    map[string]string // names in this bundle by full image name
}

// Open reads a bundle's index; Verify compares the contents. It fails with fault.Gone if there is
// no bundle.
func Open(dir string) (*Bundle, error) {
	text, err := confined.Read(dir, indexName, indexSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Wrap(fault.Gone, fmt.Errorf("there is no bundle in %s", dir), Remedy)
	}
	if err != nil {
		return nil, fmt.Errorf("open the bundle: %w", err)
	}
	c, err := readContents(dir, text)
	if err != nil {
		return nil, err
	}
	b, err := newBundle(dir, c)
	if err != nil {
		return nil, err
	}
	b.text = text
	return b, nil
}

// readContents parses the text of the bundle.json at a place.
func readContents(place string, text []byte) (contents, error) {
	var c contents
	if err := json.Unmarshal(text, &c); err != nil {
		return c, fault.Wrap(fault.Permanent, fmt.Errorf("read bundle.json of %s: %w", place, err), "remove the folder, and "+Remedy)
	}
	if c.FormatVersion != formatVersion {
		return c, fault.Wrap(fault.Permanent, fmt.Errorf("the bundle %s has the format %d, and this kops reads %d", place, c.FormatVersion, formatVersion),
			"create it again with this version: remove the folder, and "+Remedy)
	}
	return c, nil
}

func newBundle(dir string, c contents) (*Bundle, error) {
	b := &Bundle{dir: dir, contents: c, paths: map[string]string{}, names: map[string]string{}}
	for _, u := range slices.Sorted(maps.Keys(c.Files)) {
		p, err := filePath(u)
		if err != nil {
			return nil, err
		}
		if other, taken := b.paths[p]; taken {
			return nil, fault.New(fault.Permanent, "the files %s and %s would have the same path in a mirror", other, u)
		}
		b.paths[p] = u
	}
	for n := range c.Images {
		full, err := fullName(n)
		if err != nil {
			return nil, err
		}
		b.names[full] = n
	}
	return b, c.check()
}

// check rejects malformed digests, because contents are stored under them.
func (c contents) check() error {
	for _, u := range slices.Sorted(maps.Keys(c.Files)) {
		if sum := c.Files[u].SHA256; !digestForm.MatchString("sha256:" + sum) {
			return badDigest(u, sum)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(c.Images)) {
		for _, digest := range []string{c.Images[n].Digest, cmp.Or(c.Images[n].Subset, c.Images[n].Digest)} {
			if !digestForm.MatchString(digest) {
				return badDigest(n, digest)
			}
		}
	}
	return nil
}

func badDigest(name, digest string) error {
	return fault.Wrap(fault.Permanent, fmt.Errorf("bundle.json gives %s the digest %q, which is not a SHA-256", name, digest),
		"do not use the bundle: its index was damaged or forged")
}

// Dir returns the bundle's folder.
func (b *Bundle) Dir() string { return b.dir }

// Created returns when the bundle was created or last added to.
func (b *Bundle) Created() time.Time { return b.contents.Created }

// Versions returns the versions for which the bundle was created.
func (b *Bundle) Versions() Versions { return b.contents.Versions }

// Files lists the files by public URL.
func (b *Bundle) Files() map[string]File { return maps.Clone(b.contents.Files) }

// Images lists the images by name with tag.
func (b *Bundle) Images() map[string]Image { return maps.Clone(b.contents.Images) }

// Arches returns the architectures for which the bundle has an image, in order.
func (b *Bundle) Arches() []download.Arch {
	var out []download.Arch
	for _, a := range download.Arches() {
		for _, i := range b.contents.Images {
			if hasPlatform(i.Platforms, "linux/"+string(a)) {
				out = append(out, a)
				break
			}
		}
	}
	return out
}

// Only returns the bundle as if it held only these files and images. Nothing is removed.
func (b *Bundle) Only(files, images []string) *Bundle {
	out := &Bundle{dir: b.dir, contents: b.contents, paths: map[string]string{}, names: map[string]string{}}
	out.contents.Files, out.contents.Images = map[string]File{}, map[string]Image{}
	for p, u := range b.paths {
		if slices.Contains(files, u) {
			out.paths[p], out.contents.Files[u] = u, b.contents.Files[u]
		}
	}
	for _, n := range images {
		tagged, _ := splitDigest(n)
		if n = b.nameOf(tagged); b.contents.Images[n].Digest != "" {
			out.contents.Images[n] = b.contents.Images[n]
		}
	}
	for full, n := range b.names {
		if _, ok := out.contents.Images[n]; ok {
			out.names[full] = n
		}
	}
	return out
}

// FileHash returns the hexadecimal SHA-256 of the file at a public URL.
func (b *Bundle) FileHash(url string) (sum string, ok bool) {
	f, ok := b.contents.Files[url]
	return f.SHA256, ok
}

// ImageDigest returns the digest, "sha256:…", of the image with a name and tag. Names on Docker's
// registry may be short.
func (b *Bundle) ImageDigest(name string) (digest string, ok bool) {
	full, err := fullName(name)
	if err != nil {
		return "", false
	}
	i, ok := b.contents.Images[b.names[full]]
	return i.Digest, ok
}

// Facts returns the digests of all files and images.
func (b *Bundle) Facts() *facts.Facts {
	f := &facts.Facts{FileHashes: map[string]string{}, ImageDigests: map[string]string{}}
	for u, file := range b.contents.Files {
		f.FileHashes[u] = file.SHA256
	}
	for n, i := range b.contents.Images {
		f.ImageDigests[n] = i.Digest
	}
	return f
}

// Copied returns the digest under which a registry stores a copy of the image.
func (i Image) Copied() string { return cmp.Or(i.Subset, i.Digest) }

// open opens a file of the bundle, which may not have been moved to its final path yet.
func (b *Bundle) open(url string) (*os.File, error) {
	p, err := filePath(url)
	if err != nil {
		return nil, err
	}
	f, err := confined.Open(b.dir, staged(b.contents.Files[url].SHA256, p))
	if errors.Is(err, fs.ErrNotExist) {
		f, err = confined.Open(b.dir, filePlace(p))
	}
	return f, err
}

// filePlace returns where in the folder the file of a URL path is stored.
func filePlace(p string) string { return path.Join("files", p) }

// staged returns where a new file is kept until it has been moved to its final path.
func staged(sum, p string) string { return path.Join(stage, sum, p) }

// blobPlace returns where the content with a digest is stored.
func blobPlace(digest string) string { return path.Join(blobs, strings.TrimPrefix(digest, "sha256:")) }

// filePath returns the path of a public URL, without the leading slash: the part that a mirror's
// URL keeps.
func filePath(public string) (string, error) {
	u, err := url.Parse(public)
	if err != nil {
		return "", fmt.Errorf("read the URL of a file: %w", err)
	}
	p := strings.TrimPrefix(u.Path, "/")
	if u.Host == "" || u.RawQuery != "" || !filepath.IsLocal(filepath.FromSlash(p)) || p == "." {
		return "", fault.New(fault.Permanent, "%q is not the URL of a file that a mirror can hold; write https://host/path without a query", public)
	}
	return p, nil
}

// fullName returns an image's name as containerd writes it, with registry and tag.
func fullName(image string) (string, error) {
	ref, err := name.NewTag(image)
	if err != nil {
		return "", fault.Wrap(fault.Permanent, fmt.Errorf("read the image name %q: %w", image, err), "write registry/name:tag")
	}
	return registryName(ref.RegistryStr()) + "/" + ref.RepositoryStr() + ":" + ref.TagStr(), nil
}

// registryName maps Docker's registry to the name under which containerd queries mirrors for it.
func registryName(host string) string {
	if host == name.DefaultRegistry {
		return "docker.io"
	}
	return host
}
