package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
)

// Asset is a file that is fetched, verified by its digest, and kept in the cache.
type Asset struct {
	// File is the name in the cache, see AssetFile.
	File string `res:"forbid"`
	// URLs are the locations of the file, in the order in which they are tried.
	URLs []string `res:"writeonly"`
	// SHA256 is the hexadecimal digest; empty accepts any content, see Unverified.
	SHA256 string `res:"default"`
}

// Assets is the kind of Asset. Content with another digest is never stored under the file's name.
var Assets = resource.Kind[Asset, *Machine]{
	Name: "host_asset", API: "download", Direct: true,
	Key: func(a *Asset) string { return a.File }, List: listAssets, Create: fetchAsset,
	Update: []resource.Setter[Asset, *Machine]{{Fields: []string{"SHA256"},
		Set: func(ctx context.Context, m *Machine, _, want *Asset) error { return fetchAsset(ctx, m, want) }}},
	Delete: func(_ context.Context, m *Machine, a *Asset) error {
		return errors.Join(m.remove(m.cached(a.File)), m.remove(m.cached(a.File+indexSuffix)))
	},
}

// NewAsset parses an asset of the node configuration: digest@url,url. It rejects a
// file without a digest, unless download.Unverified takes its place.
func NewAsset(text string) (Asset, error) {
	sum, places, ok := strings.Cut(text, "@")
	if !ok || strings.Contains(sum, ":") { // an @ in a URL
		sum, places = "", text
	}
	a := Asset{SHA256: strings.ToLower(sum), URLs: strings.Split(places, ",")}
	base := path.Base(a.URLs[0])
	if places == "" || strings.Trim(base, "./") == "" {
		return Asset{}, fmt.Errorf("the file %q has no name", text)
	}
	prefix := a.SHA256
	switch {
	case a.SHA256 == download.Unverified:
		a.SHA256 = ""
	case a.SHA256 == "":
		return Asset{}, fault.Wrap(fault.Permanent, fmt.Errorf("the file %q has no SHA-256 digest, and files are not installed unchecked", base),
			"put its digest before its URL, or allow this file with "+download.Unverified+"@"+places)
	case !download.IsSHA256(a.SHA256):
		return Asset{}, fault.New(fault.Permanent, "the file %q: %q is not a SHA-256 digest", base, sum)
	}
	a.File = prefix + "_" + clean(base)
	return a, nil
}

// clean keeps only those characters of a name that are safe everywhere.
func clean(name string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("._-+", r) || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
}

// Base is the file's own name, without its digest.
func (a Asset) Base() string { _, base, _ := strings.Cut(a.File, "_"); return base }

// IsArchive reports whether the file is an archive.
func (a Asset) IsArchive() bool { return isArchive(a.File) }

func isArchive(file string) bool {
	return strings.HasSuffix(file, ".tar.gz") || strings.HasSuffix(file, ".tgz")
}

// cached returns the path of a file of the cache, on the machine.
func (m *Machine) cached(file string) string { return filepath.Join(m.Cache, file) }

func listAssets(_ context.Context, m *Machine, s resource.Scope) ([]*Asset, error) {
	var out []*Asset
	for _, file := range s.Names {
		at := m.path(m.cached(file))
		sum, err := fileSHA256(at)
		if isMissing(err) {
			continue
		}
		if err != nil {
			return nil, classifyFileError(err)
		}
		out = append(out, &Asset{File: file, SHA256: sum})
	}
	return out, nil
}

func fileSHA256(at string) (string, error) {
	f, err := os.Open(at)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // only read
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// How long one location may take for a whole file, and how long it may send nothing.
const (
	fetchTime = 15 * time.Minute
	silence   = time.Minute
)

// largest is the size of the largest file that is fetched, or unpacked from an
// archive, in bytes: about ten times the size of any release's.
const largest = 2 << 30

// fetchAsset tries the locations in order. If all fail, the error is retryable if
// one of them might succeed later.
func fetchAsset(ctx context.Context, m *Machine, a *Asset) error {
	class := fault.Permanent
	var tried []string
	for _, place := range a.URLs {
		err := m.fetchFrom(ctx, a, place)
		if err == nil {
			return nil
		}
		if d := (*diskError)(nil); errors.As(err, &d) || ctx.Err() != nil {
			return fmt.Errorf("fetch %s: %w", a.Base(), err) // no other location helps
		}
		if fault.Of(err).Retryable() {
			class = fault.NotYet
		}
		tried = append(tried, place+": "+err.Error())
	}
	return fault.Wrap(class, fmt.Errorf("fetch %s: %s", a.Base(), strings.Join(tried, "; ")),
		"make one of these places reachable from the machine, or set spec.assets.fileRepository to a mirror that has the file with the given digest")
}

// fetchFrom fetches from one location, unless that sends nothing for too long.
func (m *Machine) fetchFrom(ctx context.Context, a *Asset, place string) error {
	longest := m.Silence
	if longest == 0 {
		longest = silence
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	inner, stop := context.WithCancel(ctx)
	defer stop()
	w := &watch{timer: time.AfterFunc(longest, stop), limit: longest}
	defer w.timer.Stop()
	err := m.fetch(inner, a, place, w)
	if err != nil && inner.Err() != nil && ctx.Err() == nil {
		return fault.New(fault.NotYet, "no data received for %s", longest)
	}
	return err
}

// diskError is an error of the machine's own disk.
type diskError struct{ error }

func (d *diskError) Unwrap() error { return d.error }

// onDisk classifies an error of the machine's own disk; nil stays nil.
func onDisk(err error) error {
	if err == nil {
		return nil
	}
	return &diskError{classifyFileError(err)}
}

// watch is a reader that records when data arrive.
type watch struct {
	io.Reader
	timer *time.Timer
	limit time.Duration
}

func (w *watch) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	w.timer.Reset(w.limit)
	return n, err
}

// fetch writes a file next to its destination and hashes it meanwhile; it moves
// the file to its destination only if the digest is right.
func (m *Machine) fetch(ctx context.Context, a *Asset, place string, w *watch) (err error) {
	body, err := m.Fetch(ctx, place)
	if err != nil {
		return err
	}
	defer body.Close() //nolint:errcheck // only read
	w.Reader = body
	at := m.path(m.cached(a.File))
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return onDisk(err)
	}
	f, err := openDraft(at)
	if err != nil {
		return onDisk(err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()           // it may be closed already
			_ = os.Remove(f.Name()) // the first error is the one to report
		}
	}()
	sum := sha256.New()
	if err := copyBody(io.MultiWriter(f, sum), w); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); a.SHA256 != "" && got != a.SHA256 {
		return fault.New(fault.Permanent, "the file is not the requested one: its SHA-256 digest is %s, not %s", got, a.SHA256)
	}
	// It is not synced: every run reads it again, and fetches a torn file again.
	if err := errors.Join(f.Chmod(0o755), f.Close()); err != nil {
		return onDisk(err)
	}
	return onDisk(os.Rename(f.Name(), at))
}

// copyBody distinguishes a full disk from a sender that stopped sending, and does
// not let a sender fill the disk.
func copyBody(to io.Writer, from io.Reader) error {
	buffer := make([]byte, 256<<10)
	for size := 0; ; {
		n, err := from.Read(buffer)
		if size += n; size > largest {
			return fault.New(fault.Permanent, "it is longer than %d GiB", largest>>30)
		}
		if n > 0 {
			if _, werr := to.Write(buffer[:n]); werr != nil {
				return onDisk(werr)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fault.Wrap(fault.NotYet, fmt.Errorf("the download was interrupted: %w", err), "")
		}
	}
}
