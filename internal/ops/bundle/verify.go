package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store/confined"
)

// Verify reads every file and all contents of images, and compares them with their digests. Its
// error names every item that has changed or is missing; the remedy is to create the bundle again.
// progress is called with each item; it may be nil.
func (b *Bundle) Verify(ctx context.Context, progress func(string)) error {
	if progress == nil {
		progress = func(string) {}
	}
	var wrong []string
	note := func(name string, err error) {
		if err != nil {
			wrong = append(wrong, "\n  "+name+": "+err.Error())
		}
	}
	for _, u := range slices.Sorted(maps.Keys(b.contents.Files)) {
		progress("reading " + u)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("verify the bundle: %w", err)
		}
		note(u, b.checkFile(u))
	}
	checked := map[string]error{}
	for _, n := range slices.Sorted(maps.Keys(b.contents.Images)) {
		progress("reading " + n)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("verify the bundle: %w", err)
		}
		note(n, checkImage(b.dir, b.contents.Images[n], checked))
	}
	if len(wrong) == 0 {
		return nil
	}
	return fault.Wrap(fault.Permanent, fmt.Errorf("%d of the files and images of the bundle %s have changed:%s\n%s",
		len(wrong), b.dir, strings.Join(wrong, ""), Remedy), Remedy)
}

func (b *Bundle) checkFile(url string) error {
	f, err := b.open(url)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	return check(f, b.contents.Files[url].SHA256)
}

// checkImage compares all contents of an image. Contents that were already compared are in checked,
// by digest.
func checkImage(dir string, i Image, checked map[string]error) error {
	if err := checkBlob(dir, i.Digest); err != nil {
		return err
	}
	all, err := parts(dir, i)
	if err != nil {
		return err
	}
	var out error
	for _, p := range all {
		digest := p.Digest.String()
		err, before := checked[digest]
		if !before {
			err = checkBlob(dir, digest)
			checked[digest] = err
		}
		out = errors.Join(out, err)
	}
	return out
}

func checkBlob(dir, digest string) error {
	f, err := confined.Open(dir, blobPlace(digest))
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	return check(f, strings.TrimPrefix(digest, "sha256:"))
}

// check compares an open file with its digest.
func check(f *os.File, want string) error {
	sum, err := copySum(io.Discard, f)
	if err != nil {
		return err
	}
	if sum != want {
		return fmt.Errorf("%s has changed: its SHA-256 is %s, and was %s", f.Name(), sum, want)
	}
	return nil
}

// holdsFile reports whether the bundle has an intact copy of a file.
func (a *area) holdsFile(url string) bool {
	if a.previous == nil {
		return false
	}
	_, named := a.previous.contents.Files[url]
	return named && a.previous.checkFile(url) == nil
}

// holdsImage reports whether the bundle has an intact copy of an image for all architectures.
func (a *area) holdsImage(image string, arches []download.Arch) bool {
	if a.previous == nil {
		return false
	}
	i, named := a.previous.contents.Images[image]
	for _, arch := range arches {
		named = named && hasPlatform(i.Platforms, "linux/"+string(arch))
	}
	return named && checkImage(a.dir, i, map[string]error{}) == nil
}

// prune removes contents that the bundle does not name.
func (b *Bundle) prune() error {
	named := map[string]bool{}
	for _, i := range b.contents.Images {
		all, err := parts(b.dir, i)
		if err != nil {
			return fmt.Errorf("list the contents of the bundle: %w", err)
		}
		for _, p := range all {
			named[blobPlace(p.Digest.Hex)] = true
		}
	}
	for p := range b.paths {
		named[filePlace(p)] = true
	}
	for _, top := range []string{"oci/blobs", "files"} {
		err := confined.Walk(b.dir, top, func(name string) error {
			if named[name] {
				return nil
			}
			return confined.Remove(b.dir, name)
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove contents that the bundle does not list: %w", err)
		}
	}
	return nil
}
