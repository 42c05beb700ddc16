package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"kops.local/kops/internal/engine/fault"
)

// folderTries is how often a write is restarted because its folder was removed.
const folderTries = 1000

// Put implements Store: the content is written to an unfinished file beside the
// target, flushed, and renamed to the target atomically.
func (f *Folder) Put(ctx context.Context, key string, data []byte, o PutOptions) (v Version, err error) {
	if err := checkUsable(ctx, key); err != nil {
		return "", err
	}
	for range folderTries {
		// A process that empties a folder below ours also removes ours, without our lock, while it is still
		// empty.
		away := false
		if v, away, err = f.put(ctx, key, data, o); !away {
			break
		}
	}
	return v, err
}

// put is one attempt of Put. away is true if it failed because the folder was removed after it was
// locked.
func (f *Folder) put(ctx context.Context, key string, data []byte, o PutOptions) (v Version, away bool, err error) {
	path := f.path(key)
	dir, err := f.lockFolder(ctx, filepath.Dir(path), true)
	if err != nil {
		return "", false, f.wrapWriteError(key, err)
	}
	defer dir.Close() // releases the lock
	defer func() {
		if err != nil && !away { // a folder that was recreated belongs to another writer
			f.removeEmpty(filepath.Dir(path)) // ours may have been created for this object only
		}
	}()
	now, err := f.current(ctx, key)
	if err != nil {
		return "", false, err
	}
	if err := o.Check(URL(f, key), now); err != nil {
		return "", false, err
	}
	mode := os.FileMode(0o644)
	if o.Private {
		mode = 0o600
	}
	info, err := replaceFile(dir, filepath.Base(path), data, mode)
	if errors.Is(err, fs.ErrNotExist) {
		return "", true, f.wrapWriteError(key, err)
	}
	if err != nil {
		return "", false, f.wrapWriteError(key, err)
	}
	if err := f.sync(dir); err != nil {
		return "", false, f.wrapWriteError(key, err)
	}
	return version(info, data), false, nil
}

// Delete implements Store. Folders that become empty are removed too, up to the root.
func (f *Folder) Delete(ctx context.Context, key string, o DeleteOptions) error {
	if err := checkUsable(ctx, key); err != nil {
		return err
	}
	path := f.path(key)
	dir, err := f.lockFolder(ctx, filepath.Dir(path), false)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return f.wrapError("delete", key, err)
	}
	defer dir.Close() // releases the lock
	now, err := f.current(ctx, key)
	if err != nil || now == "" {
		return err
	}
	if err := o.Check(URL(f, key), now); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f.wrapError("delete", key, err)
	}
	f.prune(filepath.Dir(path))
	return nil
}

// current returns the version of a key, or "" if it is absent.
func (f *Folder) current(ctx context.Context, key string) (Version, error) {
	info, err := os.Stat(f.path(key))
	if err == nil && info.Mode().IsRegular() && info.Size() > hashLimit {
		return identity(info), nil
	}
	_, v, err := f.Get(ctx, key)
	if fault.Is(err, fault.Gone) {
		return "", nil
	}
	return v, err
}

// prune removes a folder that contains only unfinished files, and every parent that becomes empty,
// but not the root. The caller holds the folder's lock, so unfinished files in it were left by a
// killed process. It ignores failures to remove a folder: it is in use again, or harmless.
func (f *Folder) prune(dir string) {
	if dir == f.root {
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), tempPrefix) {
			return
		}
	}
	for _, e := range entries {
		if os.Remove(filepath.Join(dir, e.Name())) != nil {
			return
		}
	}
	f.removeEmpty(dir)
}

// removeEmpty removes a folder and every parent that becomes empty, but not the root.
func (f *Folder) removeEmpty(dir string) {
	for ; dir != f.root && len(dir) > len(f.root); dir = filepath.Dir(dir) {
		if os.Remove(dir) != nil {
			return
		}
	}
}

// wrapWriteError is wrapError for writes, for which a file in the place of a folder is a special case.
func (f *Folder) wrapWriteError(key string, err error) error {
	for _, clash := range []error{syscall.ENOTDIR, syscall.EISDIR, syscall.EEXIST, syscall.ENOTEMPTY} {
		if errors.Is(err, clash) {
			return fault.Wrap(fault.Permanent, fmt.Errorf("write %s: %w", URL(f, key), err),
				"a folder cannot hold an object and others below its name; use another name")
		}
	}
	return f.wrapError("write", key, err)
}

// replaceFile writes data to a file of a folder atomically. The caller holds the folder's lock,
// so the unfinished file can always have the same name: an existing file of that name was left
// by a killed process, or is a trap, and is removed. If the path has meanwhile become another
// folder, whose lock is not held, replaceFile leaves it alone and returns fs.ErrNotExist.
func replaceFile(dir *os.File, name string, data []byte, mode os.FileMode) (os.FileInfo, error) {
	folder, err := os.OpenRoot(dir.Name())
	if err != nil {
		return nil, err
	}
	defer folder.Close() // nothing was written through it
	held, err := dir.Stat()
	if err != nil {
		return nil, err
	}
	if there, err := folder.Stat("."); err != nil || !os.SameFile(held, there) {
		return nil, cmp.Or(err, fs.ErrNotExist)
	}
	temp := tempPrefix + Digest([]byte(name))[:16]
	if err := folder.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	file, err := folder.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, err
	}
	_, err = file.Write(data)
	err = errors.Join(err, file.Sync(), file.Close())
	var info os.FileInfo
	if err == nil {
		info, err = folder.Stat(temp)
	}
	if err == nil {
		err = folder.Rename(temp, name)
	}
	if err != nil {
		folder.Remove(temp) //nolint:errcheck // whatever remains is removed later
		return nil, err
	}
	return info, nil
}

// lockFolder opens a folder and waits for its lock, which is released by closing it.
// The folder may be removed and recreated meanwhile; then lockFolder tries again.
func (f *Folder) lockFolder(ctx context.Context, path string, create bool) (*os.File, error) {
	var err error
	for range folderTries {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if create {
			err = f.makeFolder(path)
		}
		var dir *os.File
		if err == nil {
			dir, err = tryLockFolder(ctx, path)
		}
		if create && ctx.Err() != nil && dir == nil {
			f.removeEmpty(path) // nothing will be written to it
		}
		// fs.ErrExist is also returned if the folder existed and was then removed.
		if err == nil || !create || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
			return dir, err
		}
	}
	return nil, err
}

// folderMode denies other users of the host access: folders contain specs, and the names of
// secrets.
const folderMode = 0o700

// makeFolder creates a folder with all its parents, and makes the name of each new one
// durable: unless its folder is flushed too, a flushed file is lost. It checks for the folder
// first, because some file systems return a permission error for one that exists.
func (f *Folder) makeFolder(path string) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.IsDir():
		return &fs.PathError{Op: "mkdir", Path: path, Err: syscall.ENOTDIR}
	case err == nil || !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if above := filepath.Dir(path); above != path {
		if err := f.makeFolder(above); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, folderMode); err != nil {
		return err
	}
	parent, err := os.Open(filepath.Dir(path))
	if errors.Is(err, fs.ErrPermission) { // write permission on it does not imply read permission
		return nil
	}
	if err != nil {
		return err
	}
	defer parent.Close() // nothing was written through it
	return f.sync(parent)
}

// tryLockFolder is one attempt of lockFolder. It fails with fs.ErrNotExist if the folder was
// removed.
func tryLockFolder(ctx context.Context, path string) (*os.File, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := lock(ctx, dir); err != nil {
		return nil, err
	}
	held, err := dir.Stat()
	if err == nil {
		var there os.FileInfo
		if there, err = os.Stat(path); err == nil && os.SameFile(held, there) {
			return dir, nil
		}
	}
	dir.Close() // it was only read
	return nil, cmp.Or(err, fs.ErrNotExist)
}

// version returns the version of a file: the digest of its content, or for a large
// one its identity, size and change time, which differ after every write.
func version(info os.FileInfo, data []byte) Version {
	if info.Size() <= hashLimit && len(data) <= hashLimit {
		return Version(Digest(data))
	}
	return identity(info)
}

// identity returns a version of a file that does not depend on its content.
func identity(info os.FileInfo) Version {
	return Version(fmt.Sprintf("%d-%d-%d", info.Size(), info.ModTime().UnixNano(), inode(info)))
}

// sortByKey sorts entries in the order of their keys, where the name of a folder is
// followed by a slash: "a-b" comes before the content of "a".
func sortByKey(entries []fs.DirEntry) []fs.DirEntry {
	spelled := func(e fs.DirEntry) string {
		if e.IsDir() {
			return e.Name() + "/"
		}
		return e.Name()
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(spelled(a), spelled(b)) })
	return entries
}
