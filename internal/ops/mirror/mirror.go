// Package mirror copies files and images to where the user's machines fetch
// them: files into a store, images into a registry. Anything already there, by digest,
// is not sent again.
//
// It must not know where files and images come from, nor for which cluster they are.
package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"golang.org/x/sync/semaphore"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/web"
)

// inMemory is how many bytes of files are read into memory at a time; a larger file is read alone.
const inMemory = 256 << 20

// Files is a store with copies of files. It is safe for concurrent use.
type Files struct {
	target store.Store
	memory *semaphore.Weighted

	mu      sync.Mutex
	present map[string]store.Info
}

// NewFiles returns a Files after listing what the store has.
func NewFiles(ctx context.Context, to store.Store) (*Files, error) {
	f := &Files{target: to, memory: semaphore.NewWeighted(inMemory), present: map[string]store.Info{}}
	for info, err := range to.List(ctx, "") {
		if err != nil {
			return nil, err
		}
		f.present[info.Key] = info
	}
	return f, nil
}

// Put writes a file with a hexadecimal SHA-256 and FILE.sha256 next to it, as publishers do, and
// returns how many bytes were sent: 0 if it is already there. read returns its content.
func (f *Files) Put(ctx context.Context, key, sum string, size int64, read func() ([]byte, error)) (sent int64, err error) {
	stated := []byte(sum + "\n")
	there, err := f.has(ctx, key+".sha256", stated)
	if err != nil || there && f.size(key) == size {
		return 0, err
	}
	if sent, err = f.write(ctx, key, size, read); err != nil {
		return sent, err
	}
	return sent, f.put(ctx, key+".sha256", stated)
}

// PutBlob writes content whose key contains its digest.
func (f *Files) PutBlob(ctx context.Context, key string, size int64, read func() ([]byte, error)) (sent int64, err error) {
	if f.size(key) == size {
		return 0, nil
	}
	return f.write(ctx, key, size, read)
}

// PutText writes a short text that may change.
func (f *Files) PutText(ctx context.Context, key string, text []byte) (sent int64, err error) {
	if there, err := f.has(ctx, key, text); err != nil || there {
		return 0, err
	}
	return int64(len(text)), f.put(ctx, key, text)
}

func (f *Files) write(ctx context.Context, key string, size int64, read func() ([]byte, error)) (sent int64, err error) {
	weight := min(size, inMemory)
	if err := f.memory.Acquire(ctx, weight); err != nil {
		return 0, fmt.Errorf("copy %s: %w", key, err)
	}
	defer f.memory.Release(weight)
	data, err := read()
	if err != nil {
		return 0, err
	}
	return int64(len(data)), f.put(ctx, key, data)
}

func (f *Files) put(ctx context.Context, key string, data []byte) error {
	v, err := f.target.Put(ctx, key, data, store.PutOptions{})
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.present[key] = store.Info{Key: key, Size: int64(len(data)), Version: v, Digest: store.Digest(data)}
	return nil
}

// size returns the size of an existing file, or -1 if there is none.
func (f *Files) size(key string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if info, ok := f.present[key]; ok {
		return info.Size
	}
	return -1
}

// has reports whether the store has a short text. The text is read if its digest is not proof.
func (f *Files) has(ctx context.Context, key string, text []byte) (bool, error) {
	f.mu.Lock()
	info, ok := f.present[key]
	f.mu.Unlock()
	switch {
	case !ok || info.Size != int64(len(text)):
		return false, nil
	case info.Digest == store.Digest(text):
		return true, nil
	}
	data, _, err := f.target.Get(ctx, key)
	if fault.Is(err, fault.Gone) {
		return false, nil
	}
	return string(data) == string(text), err
}

// Registry writes images. HTTP must be set.
type Registry struct {
	HTTP http.RoundTripper
	// Keychain has the credentials for registries; nil means none.
	Keychain authn.Keychain
	// Sent counts the bytes that were sent.
	Sent atomic.Int64
}

// Put writes an image, or an index of images, under a name, and reports whether there
// was anything to send. Contents that the registry has are not sent again.
func (r *Registry) Put(ctx context.Context, to string, what remote.Taggable) (sent bool, err error) {
	ref, err := name.NewTag(to)
	if err != nil {
		return false, fault.Wrap(fault.Permanent, fmt.Errorf("read the name %q: %w", to, err), "write registry/repository")
	}
	raw, err := what.RawManifest()
	if err != nil {
		return false, err
	}
	want, _, err := v1.SHA256(strings.NewReader(string(raw)))
	if err != nil {
		return false, err
	}
	if d, err := remote.Head(ref, r.options(ctx)...); err == nil && d.Digest == want {
		return false, nil
	}
	switch what := what.(type) {
	case v1.ImageIndex:
		err = remote.WriteIndex(ref, what, r.options(ctx)...)
	case v1.Image:
		err = remote.Write(ref, what, r.options(ctx)...)
	default:
		err = fmt.Errorf("%T is neither an image nor an index", what)
	}
	return err == nil, registryError(ref, err)
}

func (r *Registry) options(ctx context.Context) []remote.Option {
	keys := r.Keychain
	if keys == nil {
		keys = authn.NewMultiKeychain()
	}
	return []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(keys), remote.WithTransport(countingTransport{r.HTTP, &r.Sent})}
}

// registryError returns a registry's error, with a remedy.
func registryError(ref name.Reference, err error) error {
	if err == nil {
		return nil
	}
	host := ref.Context().RegistryStr()
	err = fmt.Errorf("write %s: %w", ref.Name(), err)
	if e := (*transport.Error)(nil); errors.As(err, &e) {
		class := web.ClassOf(e.StatusCode)
		if class == fault.Denied {
			return fault.Wrap(class, err, "log in with docker login "+host+", and check that you have permission to write to "+path.Dir(ref.Context().RepositoryStr()))
		}
		return fault.Wrap(class, err, "")
	}
	return err
}

// countingTransport counts the bytes of request bodies.
type countingTransport struct {
	next http.RoundTripper
	sent *atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (c countingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return c.next.RoundTrip(r)
	}
	r = r.Clone(r.Context())
	r.Body = countingReader{r.Body, c.sent}
	return c.next.RoundTrip(r)
}

type countingReader struct {
	io.ReadCloser
	sent *atomic.Int64
}

// Read implements io.Reader.
func (c countingReader) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.sent.Add(int64(n))
	return n, err
}
