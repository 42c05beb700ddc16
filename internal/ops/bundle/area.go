package bundle

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store/confined"
)

// area is a bundle being built: what bundle.json lists already and what it will list. The folder is
// locked until close.
type area struct {
	dir      string
	previous *Bundle // nil if there was none
	next     contents
	lock     *os.File
	// hasUnnamedFiles means that .new holds files that bundle.json does not name.
	hasUnnamedFiles bool

	mu sync.Mutex // guards the maps of next
}

// openArea locks a folder, finishes what an interrupted run had committed, and removes what it had
// not.
func openArea(dir string) (_ *area, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create the folder of the bundle: %w", err)
	}
	if err := confined.MakeFolder(dir, blobs, 0o755); err != nil {
		return nil, fmt.Errorf("create the folder of the bundle: %w", err)
	}
	a := &area{dir: dir}
	if a.lock, err = os.Open(dir); err != nil {
		return nil, fmt.Errorf("open the folder of the bundle: %w", err)
	}
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	if err := lock(a.lock); err != nil {
		return nil, fault.Wrap(fault.Conflict, fmt.Errorf("lock the bundle %s: %w", dir, err), "another command is adding to it; wait until it is done")
	}
	a.previous, err = Open(dir)
	switch {
	case err == nil:
		a.next = a.previous.contents
		a.next.Files, a.next.Images = a.previous.Files(), a.previous.Images()
	case fault.Is(err, fault.Gone):
		a.next = contents{Files: map[string]File{}, Images: map[string]Image{}}
	default:
		return nil, err
	}
	a.next.FormatVersion = formatVersion
	if err := a.moveIntoPlace(a.next.Files); err != nil {
		return nil, err
	}
	if err := confined.RemoveAll(dir, stage); err != nil {
		return nil, fmt.Errorf("remove leftovers of an interrupted run: %w", err)
	}
	a.hasUnnamedFiles = true
	return a, confined.MakeFolder(dir, stage, 0o755)
}

// close releases the lock and removes what bundle.json does not name.
func (a *area) close() {
	if a.hasUnnamedFiles {
		confined.RemoveAll(a.dir, stage) //nolint:errcheck // the next run removes it
	}
	a.lock.Close() //nolint:errcheck // nothing was written to it
}

// temp creates a file that becomes part of the bundle when it is renamed.
func (a *area) temp() (f *os.File, name string, err error) {
	if f, name, err = confined.Create(a.dir, stage); err != nil {
		return nil, "", fmt.Errorf("add to the bundle: %w", err)
	}
	return f, name, nil
}

// write calls fill on a new file, and returns its name, its SHA-256 and its size.
func (a *area) write(fill func(io.Writer) error) (file, sum string, size int64, err error) {
	f, file, err := a.temp()
	if err != nil {
		return "", "", 0, err
	}
	h := sha256.New()
	err = fill(io.MultiWriter(f, h))
	size, seek := f.Seek(0, io.SeekCurrent)
	if err = errors.Join(err, seek, f.Chmod(0o644), f.Close()); err != nil {
		confined.Remove(a.dir, file) //nolint:errcheck // the next run removes it
		return "", "", 0, err
	}
	return file, hex.EncodeToString(h.Sum(nil)), size, nil
}

// file adds the file with a public URL, whose content fill writes.
func (a *area) file(url string, source Source, fill func(io.Writer) error) error {
	p, err := filePath(url)
	if err != nil {
		return err
	}
	temp, sum, size, err := a.write(fill)
	if err != nil {
		return err
	}
	if err := a.move(temp, staged(sum, p)); err != nil {
		return fmt.Errorf("add to the bundle: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next.Files[url] = File{sum, size, source}
	return nil
}

// supersede drops files from an earlier version that would occupy the paths of wanted ones under
// other URLs.
func (a *area) supersede(wanted map[string]string) error {
	places := map[string]bool{}
	for u := range wanted {
		p, err := filePath(u)
		if err != nil {
			return err
		}
		places[p] = true
	}
	for u := range a.next.Files {
		if p, err := filePath(u); err != nil {
			return err
		} else if _, stays := wanted[u]; !stays && places[p] {
			delete(a.next.Files, u)
		}
	}
	return nil
}

// blob adds content to the image layout, and returns its descriptor.
func (a *area) blob(kind types.MediaType, fill func(io.Writer) error) (v1.Descriptor, error) {
	temp, sum, size, err := a.write(fill)
	if err != nil {
		return v1.Descriptor{}, err
	}
	d := v1.Descriptor{MediaType: kind, Size: size, Digest: v1.Hash{Algorithm: "sha256", Hex: sum}}
	return d, confined.Rename(a.dir, temp, blobPlace(sum))
}

// document adds a JSON document to the image layout.
func (a *area) document(kind types.MediaType, v any) (v1.Descriptor, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return v1.Descriptor{}, fmt.Errorf("write %s: %w", kind, err)
	}
	return a.raw(kind, text)
}

// raw adds a document's bytes unchanged.
func (a *area) raw(kind types.MediaType, text []byte) (v1.Descriptor, error) {
	return a.blob(kind, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// commit completes the bundle by renaming bundle.json into place: until then the old bundle is in
// effect, and after that the new one.
func (a *area) commit() (*Bundle, error) {
	b, err := newBundle(a.dir, a.next) // rejects what could not be opened later
	if err != nil {
		return nil, err
	}
	if err := a.layout(); err != nil {
		return nil, err
	}
	if err := confined.Remove(a.dir, signatureName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the outdated signature of the bundle: %w", err)
	}
	if err := a.replace(indexName, a.next); err != nil {
		return nil, err
	}
	a.hasUnnamedFiles = false
	if err := a.moveIntoPlace(a.next.Files); err != nil {
		return nil, err
	}
	return b, confined.RemoveAll(a.dir, stage)
}

// moveIntoPlace moves new files to their final paths.
func (a *area) moveIntoPlace(files map[string]File) error {
	for u, f := range files {
		p, err := filePath(u)
		if err != nil {
			return err
		}
		if err := a.move(staged(f.SHA256, p), filePlace(p)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("place the files of the bundle: %w", err)
		}
	}
	return nil
}

// move renames a file, creating the target folder if needed.
func (a *area) move(from, to string) error {
	if err := confined.MakeFolder(a.dir, path.Dir(to), 0o755); err != nil {
		return err
	}
	return confined.Rename(a.dir, from, to)
}

// layout writes the index of the OCI image layout, which lists every image by name for containerd
// and other tools.
func (a *area) layout() error {
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{}}
	for _, n := range slices.Sorted(maps.Keys(a.next.Images)) {
		full, err := fullName(n)
		if err != nil {
			return err
		}
		d, err := describe(a.dir, a.next.Images[n].Digest)
		if err != nil {
			return fault.Wrap(fault.Permanent, fmt.Errorf("the image %s is missing from the bundle: %w", n, err),
				"create it with the version of Kubernetes that has the image, or remove the folder first")
		}
		d.Annotations = map[string]string{"org.opencontainers.image.ref.name": full, "io.containerd.image.name": full}
		index.Manifests = append(index.Manifests, d)
	}
	if err := a.replace("oci/oci-layout", map[string]string{"imageLayoutVersion": "1.0.0"}); err != nil {
		return err
	}
	return a.replace("oci/index.json", index)
}

// replace rewrites a JSON file atomically.
func (a *area) replace(name string, v any) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	f, temp, err := a.temp()
	if err != nil {
		return err
	}
	_, err = f.Write(text.Bytes())
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return confined.Rename(a.dir, temp, name)
}
