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

// pushes is how many files or images are sent concurrently.
const pushes = 4

// Pushed counts what a push has sent, and what was already there.
type Pushed struct {
	Sent  int   `json:"sent"` // files and images, or parts of images
	Kept  int   `json:"kept"`
	Bytes int64 `json:"bytes"` // that were sent
}

// PushFiles copies the files to a destination, each at the path of its public URL. With index, it
// also copies the bundle's index with its signature, and the images as an OCI image layout; the
// index comes last. progress is called with each file that is sent.
func (b *Bundle) PushFiles(ctx context.Context, to *mirror.Files, index bool, progress func(string)) (Pushed, error) {
	p := &push{report: progress}
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
					g.reportStep("sending a part of " + n)
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

// PushImages copies the images to a registry, below a repository such as registry.example.com/kops,
// under the names that a cluster with that spec.assets.containerRegistry looks for. With files,
// these are pushed there too, as one OCI artifact.
func (b *Bundle) PushImages(ctx context.Context, to *mirror.Registry, repository string, files bool, progress func(string)) (Pushed, error) {
	p := &push{report: progress}
	g := p.group()
	before := to.Sent.Load()
	names := assets.MirrorsOf(&api.AssetsSpec{ContainerRegistry: &repository})
	for _, n := range slices.Sorted(maps.Keys(b.contents.Images)) {
		g.do(ctx, n, func(ctx context.Context) (int64, error) {
			img, err := b.imageToCopy(b.contents.Images[n])
			if err != nil {
				return 0, err
			}
			p.reportStep("sending " + n)
			return countSent(to.Put(ctx, nameIn(repository, names.Image(n)), img))
		})
	}
	err := p.failed(g.Wait())
	if err == nil && files {
		err = p.one(ctx, "the files", func(ctx context.Context) (int64, error) {
			a, err := b.artifact()
			if err != nil {
				return 0, err
			}
			return countSent(to.Put(ctx, repository+"/"+ArtifactName, a))
		})
	}
	out := p.result()
	out.Bytes = to.Sent.Load() - before
	return out, cmp.Or(err, p.failed(nil))
}

// nameIn returns an image's name within a repository. Only a tag may follow a colon there, so the
// colon of another registry's port becomes a dash.
func nameIn(repository, image string) string {
	rest, ok := strings.CutPrefix(image, repository+"/")
	at := strings.LastIndex(rest, ":")
	if !ok || at < 0 {
		return image
	}
	return repository + "/" + strings.ReplaceAll(rest[:at], ":", "-") + rest[at:]
}

// countSent converts whether something was sent into a number, not 0 if it was.
func countSent(sent bool, err error) (int64, error) {
	if sent {
		return 1, err
	}
	return 0, err
}

// read reads a file and checks that it has not changed.
func (b *Bundle) read(url string, p *push) ([]byte, error) {
	p.reportStep("sending " + url)
	f, err := b.open(url)
	if err != nil {
		return nil, err
	}
	return readChecked(f, b.contents.Files[url].SHA256)
}

// readChecked reads a file and closes it, and fails if it has changed.
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

// push counts what was sent.
type push struct {
	report func(string)
	bytes  atomic.Int64

	mu              sync.Mutex
	sent, unchanged int
	errs            []error
}

func (p *push) result() Pushed { return Pushed{p.sent, p.unchanged, p.bytes.Load()} }

// reportStep reports a step; steps run concurrently.
func (p *push) reportStep(step string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.report(step)
}

// one runs one task, and counts it.
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
		p.unchanged++
	}
	return ctx.Err()
}

// failed returns the error of everything that could not be sent; err is the context's error.
func (p *push) failed(err error) error {
	if len(p.errs) == 0 {
		return err
	}
	first := p.errs[0]
	return fault.Wrap(fault.Of(first), fmt.Errorf("%d files and images could not be sent, all others were sent; the first error: %w", len(p.errs), first), fault.Remedy(first))
}

// group runs several tasks concurrently.
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

// Wait blocks until all tasks are done.
func (g *pushing) Wait() error { return g.group.Wait() }
