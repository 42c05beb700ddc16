// Package confined reads and writes files in a folder under names that come from
// other parties' documents: a downloaded index, an API server, a machine. A name
// cannot lead out of the folder, no symbolic link is followed below it, and only
// regular files are opened.
//
// It must not know what the files are. The folder itself is chosen by the user, and
// may be reached through a link.
package confined

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Open opens a regular file for reading. The name is slash-separated. It fails with
// fs.ErrNotExist if there is no such file.
func Open(dir, name string) (*os.File, error) {
	root, err := open(dir, name)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // nothing was written through it
	seen, err := statRegular(root, name)
	if err != nil {
		return nil, err
	}
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	if now, err := f.Stat(); err != nil || !os.SameFile(seen, now) {
		return nil, errors.Join(err, f.Close(), fmt.Errorf("open %s: it was replaced in the meantime; try again", path.Join(dir, name)))
	}
	return f, nil
}

// Read returns the content of a regular file, and fails if it is longer than limit bytes.
func Read(dir, name string, limit int64) ([]byte, error) {
	f, err := Open(dir, name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s has more than %d bytes", f.Name(), limit)
	}
	return data, nil
}

// Stat describes a regular file.
func Stat(dir, name string) (fs.FileInfo, error) {
	root, err := open(dir, name)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // nothing was written through it
	return statRegular(root, name)
}

// Check fails for the first name that Write could not write: one that leads out of the
// folder, or for which a link, a folder or a device is in the way. If the folder does
// not exist, every local name is allowed.
func Check(dir string, names ...string) error {
	for _, name := range names {
		root, err := open(dir, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		_, err = statRegular(root, name)
		if err = errors.Join(err, root.Close()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Write writes a file atomically, creating the folders above it, including dir.
func Write(dir, name string, data []byte, folders, mode fs.FileMode) error {
	if err := os.MkdirAll(dir, folders); err != nil {
		return err
	}
	parent := path.Dir(name)
	if err := Check(dir, name); err != nil {
		return err
	}
	if err := MakeFolder(dir, parent, folders); err != nil {
		return err
	}
	f, draft, err := Create(dir, parent)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = Rename(dir, draft, name)
	}
	if err != nil {
		return errors.Join(err, Remove(dir, draft))
	}
	return nil
}

// Create creates a new file with a unique name in a folder, accessible only to its
// owner, and returns the name within dir.
func Create(dir, folder string) (*os.File, string, error) {
	root, err := open(dir, folder)
	if err != nil {
		return nil, "", err
	}
	defer root.Close() //nolint:errcheck // the file is closed on its own
	if err := checkFolders(root, folder); err != nil {
		return nil, "", err
	}
	name := path.Join(folder, ".new-"+rand.Text())
	f, err := root.OpenFile(filepath.FromSlash(name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	return f, name, err
}

// MakeFolder creates a folder and its missing parents within dir, which exists.
func MakeFolder(dir, name string, mode fs.FileMode) error {
	root, err := open(dir, name)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // the new folder does not depend on it
	if err := checkFolders(root, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return root.MkdirAll(filepath.FromSlash(name), mode)
}

// Rename renames a file, in an existing folder. An existing file with the new name is
// replaced; a link is replaced, not followed.
func Rename(dir, from, to string) error {
	return inParent(dir, from, func(root *os.Root) error {
		if err := localName(dir, to); err != nil {
			return err
		}
		if err := checkFolders(root, path.Dir(to)); err != nil {
			return err
		}
		return root.Rename(filepath.FromSlash(from), filepath.FromSlash(to))
	})
}

// Walk calls do with the name of each file and link below a folder of dir, in lexical
// order. It follows no link.
func Walk(dir, folder string, do func(name string) error) error {
	root, err := open(dir, folder)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // nothing was written through it
	if err := checkFolders(root, folder); err != nil {
		return err
	}
	return fs.WalkDir(root.FS(), folder, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		return do(name)
	})
}

// Remove removes a file, a link or an empty folder.
func Remove(dir, name string) error {
	return inParent(dir, name, func(root *os.Root) error { return root.Remove(filepath.FromSlash(name)) })
}

// RemoveAll removes a file, or a folder with its content. It is not an error if it does not exist.
func RemoveAll(dir, name string) error {
	err := inParent(dir, name, func(root *os.Root) error { return root.RemoveAll(filepath.FromSlash(name)) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// inParent calls do after checking that everything above a name is a folder.
func inParent(dir, name string, do func(*os.Root) error) error {
	root, err := open(dir, name)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // a change is complete when its call returns
	if err := checkFolders(root, path.Dir(name)); err != nil {
		return err
	}
	return do(root)
}

// open opens the folder for a local name.
func open(dir, name string) (*os.Root, error) {
	if err := localName(dir, name); err != nil {
		return nil, err
	}
	return os.OpenRoot(dir)
}

// localName rejects a name that leads out of the folder.
func localName(dir, name string) error {
	if !filepath.IsLocal(filepath.FromSlash(name)) || strings.ContainsRune(name, 0) {
		return fmt.Errorf("the name %q is outside the folder %s", name, dir)
	}
	return nil
}

// statRegular describes a regular file below folders that are not links.
func statRegular(root *os.Root, name string) (fs.FileInfo, error) {
	if err := checkFolders(root, path.Dir(name)); err != nil {
		return nil, err
	}
	info, err := root.Lstat(filepath.FromSlash(name))
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is %s and not a regular file; remove it", path.Join(root.Name(), name), kind(info))
	}
	return info, err
}

// checkFolders fails if any part of a path is not a folder.
func checkFolders(root *os.Root, name string) error {
	if name == "." {
		return nil
	}
	if err := checkFolders(root, path.Dir(name)); err != nil {
		return err
	}
	info, err := root.Lstat(filepath.FromSlash(name))
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is %s and not a folder; remove it", path.Join(root.Name(), name), kind(info))
	}
	return err
}

func kind(info fs.FileInfo) string {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return "a symbolic link"
	case info.IsDir():
		return "a folder"
	case info.Mode().IsRegular():
		return "a file"
	}
	return "a device, a socket or a pipe"
}
