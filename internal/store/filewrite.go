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

// folderTries is how often a write starts over because its folder was removed.
const folderTries = 1000

// Put implements Store: the content goes to an unfinished file beside the
// target, is flushed, and takes the target's name in one step.
func (f *Folder) Put(ctx context.Context, key string, data []byte, o PutOptions) (v Version, err error) {
	if err := usable(ctx, key); err != nil {
		return "", err
	}
	for range folderTries {
		// A process that empties a folder below removes ours with it, without our lock, while it is still empty.
		away := false
		if v, away, err = f.put(ctx, key, data, o); !away {
			break
		}
	}
	return v, err
}

// put is one try of Put. It is away when it failed because the folder went away after it was locked.
func (f *Folder) put(ctx context.Context, key string, data []byte, o PutOptions) (v Version, away bool, err error) {
	path := f.path(key)
	dir, err := f.lockFolder(ctx, filepath.Dir(path), true)
	if err != nil {
		return "", false, f.writeFailed(key, err)
	}
	defer dir.Close() // gives the lock back
	defer func() {
		if err != nil && !away { // one that was made again is another writer's
			f.removeEmpty(filepath.Dir(path)) // ours may have been made for this object alone
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
		return "", true, f.writeFailed(key, err)
	}
	if err != nil {
		return "", false, f.writeFailed(key, err)
	}
	if err := f.sync(dir); err != nil {
		return "", false, f.writeFailed(key, err)
	}
	return version(info, data), false, nil
}

// Delete implements Store. Folders that the removal leaves empty go too, up to the root.
func (f *Folder) Delete(ctx context.Context, key string, o DeleteOptions) error {
	if err := usable(ctx, key); err != nil {
		return err
	}
	path := f.path(key)
	dir, err := f.lockFolder(ctx, filepath.Dir(path), false)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return f.failed("delete", key, err)
	}
	defer dir.Close() // gives the lock back
	now, err := f.current(ctx, key)
	if err != nil || now == "" {
		return err
	}
	if err := o.Check(URL(f, key), now); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f.failed("delete", key, err)
	}
	f.prune(filepath.Dir(path))
	return nil
}

// current returns the version of a key, or "" when it is absent.
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

// prune removes a folder that holds only unfinished files, and every
// parent that becomes empty, but not the root. The folder's lock is held, so
// unfinished files in it were left by a killed process. Failing to remove a folder is
// not an error: it is in use again, or harmless.
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

// writeFailed is failed for writes, where a file in the place of a folder has a meaning of its own.
func (f *Folder) writeFailed(key string, err error) error {
	for _, clash := range []error{syscall.ENOTDIR, syscall.EISDIR, syscall.EEXIST, syscall.ENOTEMPTY} {
		if errors.Is(err, clash) {
			return fault.Wrap(fault.Permanent, fmt.Errorf("write %s: %w", URL(f, key), err),
				"a folder cannot hold an object and others below its name; use another name")
		}
	}
	return f.failed("write", key, err)
}

// replaceFile writes data to a file of a folder in one step. The folder's lock is held, so the
// name of the unfinished file may be the same each time: an existing file of that name was left
// by a killed process, or is a trap, and is removed. If another folder has taken the path by
// now, whose lock is not held, replaceFile leaves it alone and returns fs.ErrNotExist.
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
		folder.Remove(temp) //nolint:errcheck // what stays behind is removed later
		return nil, err
	}
	return info, nil
}

// lockFolder opens a folder and waits for its lock, which closing it gives back.
// The folder may be removed, and made again, while we wait; then we try again.
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
			dir, err = lockedFolder(ctx, path)
		}
		if create && ctx.Err() != nil && dir == nil {
			f.removeEmpty(path) // nobody is going to write to it
		}
		// That a folder exists already is said of one that went away just after.
		if err == nil || !create || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
			return dir, err
		}
	}
	return nil, err
}

// folderMode closes folders to other users of the host: they hold specs, and the names of secrets.
const folderMode = 0o700

// makeFolder makes a folder with all its parents, and makes the name of each new one
// durable: unless its folder is flushed too, a flushed file is lost. It looks first, because
// some file systems deny making a folder that exists.
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
	if errors.Is(err, fs.ErrPermission) { // who may make a name in it need not be able to read it
		return nil
	}
	if err != nil {
		return err
	}
	defer parent.Close() // it was not written through
	return f.sync(parent)
}

// lockedFolder is one try of lockFolder. It fails with fs.ErrNotExist when the folder went away.
func lockedFolder(ctx context.Context, path string) (*os.File, error) {
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

// version is the version of a file: the digest of its content, or of a large
// one its identity, size and time of change, which differ after every write.
func version(info os.FileInfo, data []byte) Version {
	if info.Size() <= hashLimit && len(data) <= hashLimit {
		return Version(Digest(data))
	}
	return identity(info)
}

// identity is a version of a file whose content is not looked at.
func identity(info os.FileInfo) Version {
	return Version(fmt.Sprintf("%d-%d-%d", info.Size(), info.ModTime().UnixNano(), inode(info)))
}

// byKey sorts entries as their keys sort, in which the name of a folder is
// followed by a slash: "a-b" comes before what is in "a".
func byKey(entries []fs.DirEntry) []fs.DirEntry {
	spelled := func(e fs.DirEntry) string {
		if e.IsDir() {
			return e.Name() + "/"
		}
		return e.Name()
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(spelled(a), spelled(b)) })
	return entries
}
