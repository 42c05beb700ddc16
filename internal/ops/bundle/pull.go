package bundle

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"sync"
	"sync/atomic"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"kops.local/kops/internal/contract/signed"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/confined"
)

// Pulled counts what a pull fetched, and what the folder already had.
type Pulled struct {
	Fetched int   `json:"fetched"` // files, and parts of images
	Kept    int   `json:"kept"`
	Bytes   int64 `json:"bytes"` // that were fetched
}

// Pull turns a folder into a copy of the bundle in a store, where PushFiles with index put it. What
// the folder already has, by digest, is not fetched again. Everything fetched is compared with the
// digests of the index; with keys, one of these public keys must have signed the index. On an error
// the folder's bundle stays unchanged.
func Pull(ctx context.Context, from store.Store, dir string, keys []string, progress func(string)) (*Bundle, Pulled, error) {
	index, signature, err := pulledIndex(ctx, from, keys)
	if err != nil {
		return nil, Pulled{}, err
	}
	next, err := readContents(store.URL(from, indexName), index)
	if err != nil {
		return nil, Pulled{}, err
	}
	if _, err := newBundle(dir, next); err != nil { // rejects a forged index before anything that it lists is fetched
		return nil, Pulled{}, err
	}
	a, err := openArea(dir)
	if err != nil {
		return nil, Pulled{}, err
	}
	defer a.close()
	a.next = next
	p := &pull{area: a, from: from, report: progress, done: map[string]*sync.Once{}}
	if err := p.all(ctx, next); err != nil {
		return nil, p.result(), err
	}
	b, err := a.commit()
	if err == nil && signature != nil {
		err = keepSignature(dir, index, signature)
	}
	return b, p.result(), err
}

// pulledIndex fetches the index of a bundle with its signature, which is nil if there is none.
func pulledIndex(ctx context.Context, from store.Store, keys []string) (index, signature []byte, err error) {
	index, _, err = from.Get(ctx, indexName)
	if fault.Is(err, fault.Gone) {
		err = fault.Wrap(fault.Gone, fmt.Errorf("there is no bundle in %s", from.About().URL), "push one with `kops bundle push`")
	}
	if err != nil {
		return nil, nil, err
	}
	signature, _, err = from.Get(ctx, signatureName)
	switch {
	case fault.Is(err, fault.Gone) && len(keys) == 0:
		return index, nil, nil
	case fault.Is(err, fault.Gone):
		return nil, nil, fault.Wrap(fault.Permanent, fmt.Errorf("the bundle in %s is not signed", from.About().URL), "sign it with `kops bundle sign`, and push it again")
	case err != nil:
		return nil, nil, err
	}
	if len(keys) > 0 {
		if err := signed.Verify(keys, index, signature); err != nil {
			return nil, nil, fault.Wrap(fault.Permanent, fmt.Errorf("the index of the bundle in %s: %w", from.About().URL, err), "do not use the bundle unless you trust who signed it")
		}
	}
	return index, signature, nil
}

// keepSignature stores the signature if the written index has exactly the bytes that were signed.
func keepSignature(dir string, index, signature []byte) error {
	written, err := confined.Read(dir, indexName, indexSize)
	if err != nil {
		return fmt.Errorf("save the signature: %w", err)
	}
	if string(written) != string(index) {
		return nil // another version of kops formatted it differently
	}
	if err := confined.Write(dir, signatureName, signature, 0o755, 0o644); err != nil {
		return fmt.Errorf("save the signature: %w", err)
	}
	return nil
}

// pull fetches a bundle into an area.
type pull struct {
	area *area
	from store.Store

	fetched, unchanged, bytes atomic.Int64

	mu     sync.Mutex // guards tell and what follows
	report func(string)
	done   map[string]*sync.Once // by digest of an image's part
}

func (p *pull) result() Pulled {
	return Pulled{int(p.fetched.Load()), int(p.unchanged.Load()), p.bytes.Load()}
}

// all fetches the files and images that an index lists.
func (p *pull) all(ctx context.Context, c contents) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(fetches)
	for _, url := range slices.Sorted(maps.Keys(c.Files)) {
		g.Go(func() error { return named(url, p.file(ctx, url, c.Files[url])) })
	}
	for _, name := range slices.Sorted(maps.Keys(c.Images)) {
		g.Go(func() error { return named(name, p.image(ctx, name, c.Images[name])) })
	}
	return g.Wait()
}

func named(what string, err error) error {
	if err != nil {
		return fmt.Errorf("pull %s: %w", what, err)
	}
	return nil
}

// file fetches a file, unless the folder's bundle has the same one.
func (p *pull) file(ctx context.Context, url string, f File) error {
	if was := p.area.previous; was != nil && was.contents.Files[url].SHA256 == f.SHA256 && was.checkFile(url) == nil {
		p.unchanged.Add(1)
		return nil
	}
	key, err := filePath(url)
	if err != nil {
		return err
	}
	data, err := p.get(ctx, url, key, f.SHA256)
	if err != nil {
		return err
	}
	return p.area.file(url, f.Source, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// image fetches all contents of an image: documents first, as they list the rest.
func (p *pull) image(ctx context.Context, name string, i Image) error {
	for _, digest := range slices.Compact([]string{i.Digest, cmp.Or(i.Subset, i.Digest)}) {
		h, err := v1.NewHash(digest)
		if err != nil {
			return err
		}
		if err := p.blob(ctx, name, h.Hex); err != nil {
			return err
		}
	}
	root, err := describe(p.area.dir, i.Digest)
	if err != nil {
		return err
	}
	if root.MediaType.IsIndex() {
		index, err := readIndex(p.area.dir, i.Digest)
		if err != nil {
			return err
		}
		for _, m := range i.heldManifests(index) {
			if err := p.blob(ctx, name, m.Digest.Hex); err != nil {
				return err
			}
		}
	}
	all, err := parts(p.area.dir, i)
	if err != nil {
		return err
	}
	for _, d := range all {
		if err := p.blob(ctx, name, d.Digest.Hex); err != nil {
			return err
		}
	}
	return nil
}

// blob fetches a part of an image once, unless the folder has it.
func (p *pull) blob(ctx context.Context, name, sum string) (err error) {
	p.mu.Lock()
	once := p.done[sum]
	if once == nil {
		once = &sync.Once{}
		p.done[sum] = once
	}
	p.mu.Unlock()
	once.Do(func() { err = p.fetchBlob(ctx, name, sum) })
	return err
}

func (p *pull) fetchBlob(ctx context.Context, name, sum string) error {
	if checkBlob(p.area.dir, "sha256:"+sum) == nil {
		p.unchanged.Add(1)
		return nil
	}
	data, err := p.get(ctx, "a part of "+name, path.Join("oci/blobs/sha256", sum), sum)
	if err != nil {
		return err
	}
	_, err = p.area.raw("", data)
	return err
}

// get fetches content with a given hexadecimal SHA-256.
func (p *pull) get(ctx context.Context, what, key, sum string) ([]byte, error) {
	p.mu.Lock()
	p.report("fetching " + what)
	p.mu.Unlock()
	data, _, err := p.from.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	if got := digestOf(data); got != sum {
		return nil, fault.Wrap(fault.Permanent, fmt.Errorf("%s has the SHA-256 %s, but the index of the bundle says %s", store.URL(p.from, key), got, sum), "push the bundle again")
	}
	p.fetched.Add(1)
	p.bytes.Add(int64(len(data)))
	return data, nil
}
