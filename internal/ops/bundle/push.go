package bundle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/model/assets"
	"kops.local/kops/internal/ops/mirror"
	"kops.local/kops/internal/store/confined"
)

// pushes is how many files or images are sent at once.
const pushes = 4

// Pushed says what a push has sent, and what was there.
type Pushed struct {
	Sent  int   `json:"sent"` // files and images, or parts of images
	Kept  int   `json:"kept"`
	Bytes int64 `json:"bytes"` // that were sent
}

// PushFiles copies the files to a place, each at the path of its public URL. With index,
// it also copies the bundle's index with its signature, and the images as an OCI image layout;
// the index comes last. progress is called with each file that is sent.
func (b *Bundle) PushFiles(ctx context.Context, to *mirror.Files, index bool, progress func(string)) (Pushed, error) {
	p := &push{tell: progress}
	g := p.group()
	for _, u := range slices.Sorted(maps.Keys(b.contents.Files)) {
		key, err := filePath(u)
		if err != nil {
			return Pushed{}, err
		}
		f := b.contents.Files[u]
		g.do(ctx, u, func(ctx context.Context) (int64, error) {
			return to.Put(ctx, key, f.SHA256, f.Size, func() ([]byte, error) { return b.read(u, p) })
		})
	}
	if index {
		if err := b.pushBlobs(ctx, g, to); err != nil {
			return Pushed{}, errors.Join(err, g.Wait())
		}
	}
	if err := p.failed(g.Wait()); err != nil || !index {
		return p.result(), err
	}
	for _, n := range []string{"oci/oci-layout", "oci/index.json", signatureName, indexName} {
		text, err := confined.Read(b.dir, n, indexSize)
		if errors.Is(err, fs.ErrNotExist) && n == signatureName {
			continue // it is not signed
		}
		if err != nil {
			return p.result(), fmt.Errorf("push the bundle: %w", err)
		}
		sent, err := to.PutText(ctx, n, text)
		if err != nil {
			return p.result(), err
		}
		p.bytes.Add(sent)
	}
	return p.result(), nil
}

// pushBlobs sends the contents of images.
func (b *Bundle) pushBlobs(ctx context.Context, g *pushing, to *mirror.Files) error {
	seen := map[string]bool{}
	for _, n := range slices.Sorted(maps.Keys(b.contents.Images)) {
		all, err := parts(b.dir, b.contents.Images[n])
		if err != nil {
			return fmt.Errorf("push the image %s: %w", n, err)
		}
		for _, d := range all {
			if seen[d.Digest.Hex] {
				continue
			}
			seen[d.Digest.Hex] = true
			g.do(ctx, n, func(ctx context.Context) (int64, error) {
				return to.PutBlob(ctx, path.Join("oci/blobs/sha256", d.Digest.Hex), d.Size, func() ([]byte, error) {
					g.tellOnce("sending a part of " + n)
					f, err := confined.Open(b.dir, blobPlace(d.Digest.Hex))
					if err != nil {
						return nil, err
					}
					return readChecked(f, d.Digest.Hex)
				})
			})
		}
	}
	return nil
}

// PushImages copies the images to a registry, below a repository such as
// registry.example.com/kops, under the names that a cluster looks for when that is its
// spec.assets.containerRegistry. With files, these go there too, as one OCI artifact.
func (b *Bundle) PushImages(ctx context.Context, to *mirror.Registry, repository string, files bool, progress func(string)) (Pushed, error) {
	p := &push{tell: progress}
	g := p.group()
	before := to.Sent.Load()
	names := assets.MirrorsOf(&api.AssetsSpec{ContainerRegistry: &repository})
	for _, n := range slices.Sorted(maps.Keys(b.contents.Images)) {
		g.do(ctx, n, func(ctx context.Context) (int64, error) {
			img, err := b.copied(b.contents.Images[n])
			if err != nil {
				return 0, err
			}
			p.tellOnce("sending " + n)
			return sentOne(to.Put(ctx, nameIn(repository, names.Image(n)), img))
		})
	}
	err := p.failed(g.Wait())
	if err == nil && files {
		err = p.one(ctx, "the files", func(ctx context.Context) (int64, error) {
			a, err := b.artifact()
			if err != nil {
				return 0, err
			}
			return sentOne(to.Put(ctx, repository+"/"+ArtifactName, a))
		})
	}
	out := p.result()
	out.Bytes = to.Sent.Load() - before
	return out, cmp.Or(err, p.failed(nil))
}

// nameIn returns a name in a repository, in which only a tag may have a colon: the colon
// of another registry's port becomes a dash.
func nameIn(repository, image string) string {
	rest, ok := strings.CutPrefix(image, repository+"/")
	at := strings.LastIndex(rest, ":")
	if !ok || at < 0 {
		return image
	}
	return repository + "/" + strings.ReplaceAll(rest[:at], ":", "-") + rest[at:]
}

// sentOne turns whether anything was sent into a number that is not 0.
func sentOne(sent bool, err error) (int64, error) {
	if sent {
		return 1, err
	}
	return 0, err
}

// read returns a file that is what it was.
func (b *Bundle) read(url string, p *push) ([]byte, error) {
	p.tellOnce("sending " + url)
	f, err := b.open(url)
	if err != nil {
		return nil, err
	}
	return readChecked(f, b.contents.Files[url].SHA256)
}

// readChecked reads a file and closes it, and refuses one that has changed.
func readChecked(f *os.File, sum string) ([]byte, error) {
	data, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if got := digestOf(data); got != sum {
		return nil, fault.Wrap(fault.Permanent, fmt.Errorf("%s has changed: its SHA-256 is %s, and was %s", f.Name(), got, sum), Remedy)
	}
	return data, nil
}

// push counts what is sent.
type push struct {
	tell  func(string)
	bytes atomic.Int64

	mu         sync.Mutex
	sent, kept int
	errs       []error
}

func (p *push) result() Pushed { return Pushed{p.sent, p.kept, p.bytes.Load()} }

// tellOnce tells a step; several are under way at once.
func (p *push) tellOnce(step string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tell(step)
}

// one does one thing, and counts it.
func (p *push) one(ctx context.Context, what string, do func(context.Context) (int64, error)) error {
	n, err := do(ctx)
	p.bytes.Add(n)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err != nil:
		p.errs = append(p.errs, fmt.Errorf("%s: %w", what, err))
	case n > 0:
		p.sent++
	default:
		p.kept++
	}
	return ctx.Err()
}

// failed returns the error of everything that could not be sent; err is the context's error.
func (p *push) failed(err error) error {
	if len(p.errs) == 0 {
		return err
	}
	first := p.errs[0]
	return fault.Wrap(fault.Of(first), fmt.Errorf("%d of the files and images could not be sent, all others were; the first error: %w", len(p.errs), first), fault.Remedy(first))
}

// group does several things at once.
func (p *push) group() *pushing {
	g := &errgroup.Group{}
	g.SetLimit(pushes)
	return &pushing{push: p, group: g}
}

type pushing struct {
	*push
	group *errgroup.Group
}

func (g *pushing) do(ctx context.Context, what string, f func(context.Context) (int64, error)) {
	g.group.Go(func() error { return g.one(ctx, what, f) })
}

// Wait waits for all of them.
func (g *pushing) Wait() error { return g.group.Wait() }
