// Package delivery finds and reads the archive of kops' own programs, which are delivered with each
// cluster: a tar file whose first entry is its index.
//
// It must not know how the archive is packed, nor where a cluster keeps what is in it.
package delivery

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"kops.local/kops/internal/contract/programs"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store/web"
)

// IndexName is the first entry of an archive, and a file of a copy on a web server.
const IndexName = "index.json"

// indexSize limits the size of an index, in bytes.
const indexSize = 1 << 20

// FileName returns the name of a version's archive.
func FileName(version string) string { return "kops-programs-" + version + ".tar" }

// Places are where the programs of a version may be found.
type Places struct {
	Version string
	// Files are archives; the first that exists is used.
	Files []string
	// Releases is the URL of a folder with an archive for each version, which is downloaded to the
	// last of Files if none exists; "" if there is no such folder.
	Releases string
	// Digest is the SHA-256 of the index, if the programs that belong to this version are known; ""
	// accepts any programs of the version.
	Digest string
	// Base is the URL of a copy of an archive's contents that machines read directly; "" if there
	// is none. Only its index is read here.
	Base string
	// HTTP reaches Releases and Base.
	HTTP *http.Client
}

// Archive is an existing archive. Its file is only open while one of its contents is read.
type Archive struct {
	Index  *programs.Index
	file   string
	places map[string]section
}

// section is where in the file an entry is stored.
type section struct{ offset, size int64 }

// Find returns the archive, or fault.Gone if there is none. An archive of another version or a
// broken one is an error.
func (p Places) Find(ctx context.Context) (*Archive, error) {
	if p.Base != "" {
		return p.readCopy(ctx)
	}
	for _, f := range p.Files {
		a, err := open(f)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return a, p.check(a.Index, a.file)
	}
	if p.Releases != "" && len(p.Files) > 0 {
		return p.fetch(ctx)
	}
	return nil, fault.Wrap(fault.Gone, fmt.Errorf("kops' own programs for machines are missing: there is no %s", strings.Join(p.Files, ", nor ")),
		"put "+FileName(p.Version)+" of the release next to kops, or build it with `make archive`")
}

// readCopy reads the index of a copy.
func (p Places) readCopy(ctx context.Context) (*Archive, error) {
	if !strings.Contains(p.Base, "://") {
		return nil, fmt.Errorf("KOPS_BASE_URL: %q is not a URL; specify one such as https://files.example.com/kops", p.Base)
	}
	at := strings.TrimSuffix(p.Base, "/") + "/" + IndexName
	text, err := web.Get(ctx, p.HTTP, at, indexSize)
	if err != nil {
		return nil, fmt.Errorf("KOPS_BASE_URL: %w", err)
	}
	index, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("KOPS_BASE_URL: read %s: %w", at, err)
	}
	return &Archive{Index: index}, p.check(index, at)
}

// check rejects programs of another version than this one, or with another digest than the known
// one.
func (p Places) check(i *programs.Index, where string) error {
	const remedy = "use the archive of the same release as kops"
	if i.Version != p.Version {
		return fault.Wrap(fault.Permanent, fmt.Errorf("%s holds the programs of kops %s, but this is kops %s", where, i.Version, p.Version), remedy)
	}
	if p.Digest == "" {
		return nil
	}
	text, err := Encode(i)
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != p.Digest {
		return fault.Wrap(fault.Permanent, fmt.Errorf("%s does not contain the programs that this kops was released with", where), remedy)
	}
	return nil
}

// fetch downloads the archive of the version from its release.
func (p Places) fetch(ctx context.Context) (*Archive, error) {
	to := p.Files[len(p.Files)-1]
	from := strings.TrimSuffix(p.Releases, "/") + "/v" + p.Version + "/" + FileName(p.Version)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, fmt.Errorf("fetch kops' own programs: %w", err)
	}
	body, err := web.Send(p.HTTP, req)
	if err != nil {
		return nil, fmt.Errorf("fetch kops' own programs: %s: %w", from, err)
	}
	defer body.Close() //nolint:errcheck // it was only read
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return nil, fmt.Errorf("save kops' own programs: %w", err)
	}
	draft, err := os.CreateTemp(filepath.Dir(to), ".new-*")
	if err != nil {
		return nil, fmt.Errorf("save kops' own programs: %w", err)
	}
	defer os.Remove(draft.Name()) //nolint:errcheck // it is gone when all went well
	_, err = io.Copy(draft, body)
	if err = errors.Join(err, draft.Close()); err != nil {
		return nil, fmt.Errorf("fetch kops' own programs: %s: %w", from, err)
	}
	a, err := open(draft.Name())
	if err == nil {
		err = p.check(a.Index, from)
	}
	if err == nil {
		err = os.Rename(draft.Name(), to)
	}
	if err != nil {
		return nil, err
	}
	a.file = to
	return a, nil
}

// open reads the positions of an archive's contents.
func open(file string) (*Archive, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("open kops' own programs: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	a := &Archive{file: file, places: map[string]section{}}
	broken := func(err error) error {
		return fault.Wrap(fault.Permanent, fmt.Errorf("%s is not an archive of kops' own programs: %w", file, err), "replace it with the archive of the release")
	}
	for t := tar.NewReader(f); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, broken(err)
		}
		if a.Index == nil {
			text, err := io.ReadAll(io.LimitReader(t, indexSize))
			if err == nil && h.Name != IndexName {
				err = fmt.Errorf("it begins with %s", h.Name)
			}
			if err == nil {
				a.Index, err = parse(text)
			}
			if err != nil {
				return nil, broken(err)
			}
			continue
		}
		at, err := f.Seek(0, io.SeekCurrent)
		if err != nil {
			return nil, broken(err)
		}
		a.places[h.Name] = section{at, h.Size}
	}
	if a.Index == nil {
		return nil, broken(errors.New("it is empty"))
	}
	return a, nil
}

// Read returns a file of the archive, and checks its digest against the index.
func (a *Archive) Read(file programs.File) ([]byte, error) {
	at, ok := a.places[file.Path]
	if !ok {
		return nil, fault.New(fault.Permanent, "%s has no %s", a.file, file.Path)
	}
	f, err := os.Open(a.file)
	if err != nil {
		return nil, fmt.Errorf("open kops' own programs: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	data := make([]byte, at.size)
	if _, err := f.ReadAt(data, at.offset); err != nil {
		return nil, fmt.Errorf("read %s of %s: %w", file.Path, a.file, err)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != file.SHA256 {
		return nil, fault.Wrap(fault.Permanent, fmt.Errorf("%s of %s has changed since it was packed", file.Path, a.file), "replace it with the archive of the release")
	}
	return data, nil
}

// Encode writes an index; the same index gives the same text.
func Encode(i *programs.Index) ([]byte, error) {
	text, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the index of kops' own programs: %w", err)
	}
	return append(text, '\n'), nil
}

func parse(text []byte) (*programs.Index, error) {
	i := &programs.Index{}
	if err := json.Unmarshal(text, i); err != nil {
		return nil, fmt.Errorf("read %s: %w", IndexName, err)
	}
	if i.Version == "" || len(i.Nodeup) == 0 {
		return nil, fmt.Errorf("read %s: it lacks the version or nodeup", IndexName)
	}
	return i, nil
}
