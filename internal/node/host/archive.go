package host

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
)

// Archive is the set of files from a fetched archive in a folder.
type Archive struct {
	Folder string `res:"forbid"`
	// Asset is the File of an Asset.
	Asset string `res:"forbid"`
	// Below is the folder in the archive whose files are extracted; empty means its top. Files in
	// subfolders are not extracted.
	Below string `res:"forbid"`
}

// Archives is the kind of Archive. It exists if each file is in the folder with the right
// content; so another archive is another object, which replaces the first.
var Archives = resource.Kind[Archive, *Machine]{
	Name: "host_archive", API: "files", Direct: true,
	Key: archiveKey, List: listArchives, Create: unpack,
	Delete: func(_ context.Context, m *Machine, a *Archive) error {
		return m.eachMember(a, func(name, _ string) error { return m.remove(path.Join(a.Folder, name)) })
	},
}

func archiveKey(a *Archive) string { return a.Folder + "=" + a.Asset + "!" + a.Below }

// indexSuffix is the suffix of a file with the digests of an archive's members.
const indexSuffix = ".index"

func listArchives(_ context.Context, m *Machine, s resource.Scope) ([]*Archive, error) {
	var out []*Archive
	for _, key := range s.Names {
		a := &Archive{}
		a.Folder, key, _ = strings.Cut(key, "=")
		a.Asset, a.Below, _ = strings.Cut(key, "!")
		n := 0
		err := m.eachMember(a, func(name, sum string) error {
			n++
			return m.checkInstalled(path.Join(a.Folder, name), sum)
		})
		if errors.Is(err, errOther) || n == 0 {
			continue
		}
		if err != nil {
			return nil, classifyFileError(err)
		}
		out = append(out, a)
	}
	return out, nil
}

// errOther means that a file is missing or has another content.
var errOther = errors.New("another file")

// checkInstalled checks that a program is installed.
func (m *Machine) checkInstalled(p, sum string) error {
	info, err := os.Stat(m.path(p))
	if isMissing(err) || err == nil && (info.Mode().Perm() != 0o755 || !info.Mode().IsRegular()) {
		return errOther
	}
	if err != nil {
		return err
	}
	got, err := fileSHA256(m.path(p))
	if err == nil && got != sum {
		return errOther
	}
	return err
}

// eachMember calls f with the name and the digest of each file of the archive, as listed in its index.
func (m *Machine) eachMember(a *Archive, f func(name, sum string) error) error {
	text, err := os.ReadFile(m.path(m.cached(a.Asset + indexSuffix)))
	if isMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	index := map[string]string{}
	if err := json.Unmarshal(text, &index); err != nil {
		return nil //nolint:nilerr // a broken index counts as missing: it is written again
	}
	for name, sum := range index {
		if path.Dir(name) == path.Clean(a.Below) {
			if err := f(path.Base(name), sum); err != nil {
				return err
			}
		}
	}
	return nil
}

// unpack extracts every file of the archive, and then writes the index of its
// content.
func unpack(_ context.Context, m *Machine, a *Archive) error {
	n, index := 0, map[string]string{}
	err := walk(m.path(m.cached(a.Asset)), func(name string, content io.Reader) error {
		sum := sha256.New()
		content = io.TeeReader(content, sum)
		var err error
		if path.Dir(name) == path.Clean(a.Below) {
			n++
			err = m.install(path.Join(a.Folder, path.Base(name)), content)
		} else {
			_, err = io.Copy(io.Discard, content)
		}
		index[name] = hex.EncodeToString(sum.Sum(nil))
		return err
	})
	if err == nil && n == 0 {
		err = broken(fmt.Errorf("there are no files below %q", a.Below))
	}
	if err != nil {
		return fmt.Errorf("unpack %s: %w", Asset{File: a.Asset}.Base(), err)
	}
	text, err := json.Marshal(index)
	if err != nil {
		return err
	}
	return m.write(m.cached(a.Asset+indexSuffix), 0o644, owner{}, bytes.NewReader(text))
}

// broken returns the error for a corrupt archive whose digest is right.
func broken(err error) error {
	return fault.Wrap(fault.Permanent, err, "use the URL and digest of an archive with the same layout as the released one")
}

// walk calls f with each regular file of a .tar.gz; names are clean and relative.
func walk(archive string, f func(name string, content io.Reader) error) error {
	in, err := os.Open(archive)
	if err != nil {
		return classifyFileError(err)
	}
	defer in.Close() //nolint:errcheck // only read
	z, err := gzip.NewReader(in)
	if err != nil {
		return broken(err)
	}
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return broken(err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if h.Size > largest {
			return broken(fmt.Errorf("%s in it is longer than %d GiB", h.Name, largest>>30))
		}
		if err := f(strings.TrimPrefix(path.Clean("/"+h.Name), "/"), t); err != nil {
			return err
		}
	}
}

// Binary is an installed program that was fetched.
type Binary struct {
	Path string `res:"forbid"`
	// Asset is the File of an Asset.
	Asset string `res:"forbid"`
}

// Binaries is the kind of Binary. It exists if the installed file is the fetched one;
// so another asset is another object, which replaces the first.
var Binaries = resource.Kind[Binary, *Machine]{
	Name: "host_binary", API: "files", Direct: true,
	Key:  func(b *Binary) string { return b.Path + "=" + b.Asset },
	List: listBinaries, Create: installBinary,
	Delete: func(_ context.Context, m *Machine, b *Binary) error { return m.remove(b.Path) },
}

func listBinaries(_ context.Context, m *Machine, s resource.Scope) ([]*Binary, error) {
	var out []*Binary
	for _, key := range s.Names {
		b := &Binary{}
		b.Path, b.Asset, _ = strings.Cut(key, "=")
		sum, _, _ := strings.Cut(b.Asset, "_")
		if sum == download.Unverified {
			var err error
			if sum, err = fileSHA256(m.path(m.cached(b.Asset))); isMissing(err) {
				continue
			} else if err != nil {
				return nil, classifyFileError(err)
			}
		}
		switch err := m.checkInstalled(b.Path, sum); {
		case errors.Is(err, errOther):
		case err != nil:
			return nil, classifyFileError(err)
		default:
			out = append(out, b)
		}
	}
	return out, nil
}

func installBinary(_ context.Context, m *Machine, b *Binary) error {
	f, err := os.Open(m.path(m.cached(b.Asset)))
	if err != nil {
		return classifyFileError(err)
	}
	defer f.Close() //nolint:errcheck // only read
	return m.install(b.Path, f)
}
