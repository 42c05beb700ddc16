package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"kops.local/kops/internal/engine/fault"
)

// hashLimit is the size in bytes up to which a file's version is the digest of its
// content. A larger file, such as a backup, has a version derived from its identity
// and times, and no digest, so that a listing need not read it.
const hashLimit = 4 << 20

// Folder is a store that keeps each object as a file below one folder, with the key as
// its path. It therefore cannot contain both "a" and "a/b".
//
// Folders are created on demand with mode 0700 and removed with their last file. Writers
// take turns by an advisory lock (flock) on the file's folder, across processes; on
// systems without it (see lock_other.go) only single writers are safe.
type Folder struct {
	root string
	sync func(folder *os.File) error // makes the names in it durable
}

// NewFolder returns the store in a folder, which need not exist.
func NewFolder(root string) *Folder { return &Folder{root: filepath.Clean(root), sync: syncFolder} }

// Folders is the backend of file:///absolute/path and of plain paths.
func Folders() Backend {
	return Backend{
		Schemes: []string{"file"},
		Open: func(_ context.Context, _, rest string) (Store, error) {
			if rest == "" {
				return nil, fault.New(fault.Permanent, "the path is empty")
			}
			root, err := filepath.Abs(rest)
			if err != nil {
				return nil, fmt.Errorf("find the folder: %w", err)
			}
			return NewFolder(root), nil
		},
	}
}

// About implements Store.
func (f *Folder) About() About { return About{URL: "file://" + filepath.ToSlash(f.root)} }

// Get implements Store.
func (f *Folder) Get(ctx context.Context, key string) ([]byte, Version, error) {
	if err := checkUsable(ctx, key); err != nil {
		return nil, "", err
	}
	file, err := os.Open(f.path(key))
	if err != nil {
		return nil, "", f.wrapError("read", key, err)
	}
	defer file.Close() // it was only read
	info, err := file.Stat()
	if err == nil && info.IsDir() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, "", f.wrapError("read", key, err)
	}
	data, err := io.ReadAll(file)
	if err != nil {
		return nil, "", f.wrapError("read", key, err)
	}
	return data, version(info, data), nil
}

// List implements Store. Symbolic links to folders are not followed.
func (f *Folder) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		folder := ""
		if i := strings.LastIndexByte(prefix, '/'); i >= 0 {
			folder = prefix[:i]
		}
		if err := ctx.Err(); err != nil {
			yield(Info{}, f.wrapError("list", prefix, err))
			return
		}
		if folder == "" || CheckKey(folder) == nil { // no object has another prefix
			f.walk(ctx, folder, prefix, yield)
		}
	}
}

// walk yields the objects below a folder in the order of their keys, and reports whether to
// continue.
func (f *Folder) walk(ctx context.Context, folder, prefix string, yield func(Info, error) bool) bool {
	entries, err := os.ReadDir(f.path(folder))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return true
	}
	if err != nil {
		return yield(Info{}, f.wrapError("list", folder, err)) && false
	}
	for _, e := range sortByKey(entries) {
		if err := ctx.Err(); err != nil {
			return yield(Info{}, f.wrapError("list", folder, err)) && false
		}
		key := join(folder, e.Name())
		if e.IsDir() {
			below := key + "/"
			if (strings.HasPrefix(below, prefix) || strings.HasPrefix(prefix, below)) && !f.walk(ctx, key, prefix, yield) {
				return false
			}
			continue
		}
		if !strings.HasPrefix(key, prefix) || CheckKey(key) != nil {
			continue
		}
		info, ok, err := f.info(ctx, key)
		switch {
		case err != nil:
			return yield(Info{}, err) && false
		case ok && !yield(info, nil):
			return false
		}
	}
	return true
}

// info describes one file; ok is false if it does not exist or is not a regular file.
func (f *Folder) info(ctx context.Context, key string) (info Info, ok bool, err error) {
	stat, err := os.Stat(f.path(key))
	if errors.Is(err, fs.ErrNotExist) || (err == nil && !stat.Mode().IsRegular()) {
		return Info{}, false, nil
	}
	if err != nil {
		return Info{}, false, f.wrapError("list", key, err)
	}
	info = Info{Key: key, Size: stat.Size()}
	if stat.Size() > hashLimit {
		info.Version = identity(stat)
		return info, true, nil
	}
	data, v, err := f.Get(ctx, key)
	switch {
	case fault.Is(err, fault.Gone):
		return Info{}, false, nil
	case fault.Is(err, fault.Denied): // an unreadable file is listed, too
		info.Version = identity(stat)
		return info, true, nil
	}
	info.Size, info.Version = int64(len(data)), v
	if info.Size <= hashLimit {
		info.Digest = string(v)
	}
	return info, err == nil, err
}

// path returns the path of the key's file.
func (f *Folder) path(key string) string { return filepath.Join(f.root, filepath.FromSlash(key)) }

// wrapError classifies a file-system error and adds the failed operation.
func (f *Folder) wrapError(doing, key string, err error) error {
	err = fmt.Errorf("%s %s: %w", doing, join(f.About().URL, key), err)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return fault.Wrap(fault.Gone, err, "")
	case errors.Is(err, fs.ErrPermission):
		return fault.Wrap(fault.Denied, err, "give this user access to "+f.path(key)+", or run as the user who owns it")
	case errors.Is(err, syscall.ENOSPC):
		return fault.Wrap(fault.Quota, err, "free some space on the disk of "+f.root)
	}
	return err
}
