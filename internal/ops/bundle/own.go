package bundle

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"kops.local/kops/internal/contract/programs"
	"kops.local/kops/internal/engine/fault"
)

// archivedFile makes the nodeup file from the archive of kops' own programs, ready to run; nil if
// the archive does not have it.
func (m *maker) archivedFile(url string) func(context.Context) error {
	if m.Archive == nil {
		return nil
	}
	for arch, f := range m.Archive.Index.Nodeup {
		if programs.Public(m.Archive.Index.Version, arch) != url {
			continue
		}
		return func(context.Context) error {
			packed, err := m.Archive.Read(f)
			if err != nil {
				return err
			}
			z, err := gzip.NewReader(bytes.NewReader(packed))
			if err != nil {
				return fmt.Errorf("unpack %s: %w", f.Path, err)
			}
			return m.area.file(url, Built, func(w io.Writer) error {
				sum, err := copySum(w, z)
				if err == nil && sum != f.Program {
					err = fault.New(fault.Permanent, "the unpacked %s has the SHA-256 %s, but its index says %s", f.Path, sum, f.Program)
				}
				return err
			})
		}
	}
	return nil
}

// archivedImage builds an image from the archive of kops' own programs, or from one of the user's
// archives; nil if neither has it.
func (m *maker) archivedImage(image string) func(context.Context) error {
	if file := m.Saved[image]; file != "" {
		return func(context.Context) error {
			d, err := m.unpack(image, func() (io.ReadCloser, error) { return os.Open(file) })
			if err != nil {
				return fmt.Errorf("read %s: %w", file, err)
			}
			return m.area.image(image, []v1.Descriptor{d}, Added)
		}
	}
	if m.Archive == nil {
		return nil
	}
	for _, of := range m.Archive.Index.Images {
		if of.Name == image {
			return func(context.Context) error { return m.archived(of) }
		}
	}
	return nil
}

// archived builds one of kops' own images for each architecture.
func (m *maker) archived(of programs.Image) error {
	var manifests []v1.Descriptor
	for _, arch := range m.Arches {
		f, ok := of.Archives[arch]
		if !ok {
			return fmt.Errorf("the archive of kops' own programs has no programs for %s", arch)
		}
		text, err := m.Archive.Read(f)
		if err != nil {
			return err
		}
		d, err := m.unpack(of.Name, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil })
		if err != nil {
			return fmt.Errorf("read %s: %w", f.Path, err)
		}
		manifests = append(manifests, d)
	}
	return m.area.image(of.Name, manifests, Built)
}

// unpack adds the contents of an image with a given name from an archive.
func (m *maker) unpack(image string, open tarball.Opener) (v1.Descriptor, error) {
	tag, err := name.NewTag(image)
	if err != nil {
		return v1.Descriptor{}, err
	}
	img, err := tarball.Image(open, &tag)
	if err != nil {
		return v1.Descriptor{}, err
	}
	platform, err := m.area.addPublished(img)
	if err != nil {
		return v1.Descriptor{}, err
	}
	digest, err := img.Digest()
	if err != nil {
		return v1.Descriptor{}, err
	}
	d, err := describe(m.area.dir, digest.String())
	d.Platform = platform
	return d, err
}

// SavedImages lists the names of the images in an archive written by docker save.
func SavedImages(file string) ([]string, error) {
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(file) })
	if err != nil {
		return nil, fault.Wrap(fault.Permanent, fmt.Errorf("%s is not an archive of images: %w", file, err), "write it with docker save, or podman save --format docker-archive")
	}
	names := map[string]bool{}
	for _, d := range manifest {
		for _, t := range d.RepoTags {
			names[t] = true
		}
	}
	if len(names) == 0 {
		return nil, fault.New(fault.Permanent, "the images of %s have no names; save them by name", file)
	}
	return slices.Sorted(maps.Keys(names)), nil
}
