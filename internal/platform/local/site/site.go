// Package site defines where a cluster of the local cloud lives on this host: its folder, the
// short name that marks its objects in the kernel, and the lock under which it is changed.
//
// It must not know what is kept there.
package site

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Site is one cluster on this host.
type Site struct {
	// Root is the folder of all clusters; Cluster is the cluster's name.
	Root, Cluster string
}

// Parts of a site's folder, each a folder with one entry per object.
const (
	Groups    = "groups"
	Machines  = "machines"
	Volumes   = "volumes"
	Balancers = "balancers"
	Mirrors   = "mirrors"
	Images    = "images"
	// Registry holds one JSON file for each machine, with its public key.
	Registry = "registry"
	// Requests holds an empty file for each machine that the cluster itself wants replaced.
	Requests = "requests"
)

// Dir returns the cluster's folder.
func (s Site) Dir() string { return filepath.Join(s.Root, s.Cluster) }

// Path returns the path of a file or folder of the cluster.
func (s Site) Path(elem ...string) string {
	return filepath.Join(append([]string{s.Dir()}, elem...)...)
}

// ID returns the mark of the cluster's interfaces, control groups and processes: six
// hexadecimal digits that differ between clusters and between roots.
func (s Site) ID() string {
	sum := sha256.Sum256([]byte(s.Root + "\n" + s.Cluster))
	return hex.EncodeToString(sum[:3])
}

// BridgePrefix is the prefix of the names of all clusters' bridges.
const BridgePrefix = "kops-"

// Bridge returns the name of the cluster's bridge on the host.
func (s Site) Bridge() string { return BridgePrefix + s.ID() }

// CheckName checks that a name is usable as a folder's name.
func CheckName(name string) error {
	if name == "" || strings.HasPrefix(name, ".") || strings.ContainsAny(name, "/\x00") || len(name) > 200 {
		return fmt.Errorf("%q cannot be a name of the local cloud: it must be a valid folder name", name)
	}
	return nil
}

// List returns the names of the entries of a folder, in order; a folder that
// does not exist has none. Entries that begin with a dot are left out.
func List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// Sites returns the clusters that have a folder below root.
func Sites(root string) ([]Site, error) {
	names, err := List(root)
	if err != nil {
		return nil, fmt.Errorf("list the clusters of this host: %w", err)
	}
	names = slices.DeleteFunc(names, func(n string) bool {
		info, err := os.Stat(filepath.Join(root, n))
		return err != nil || !info.IsDir()
	})
	out := make([]Site, len(names))
	for i, n := range names {
		out[i] = Site{root, n}
	}
	return out, nil
}

// ReadJSON reads a file into out and reports whether the file exists.
func ReadJSON(file string, out any) (bool, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, out)
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", file, err)
	}
	return true, nil
}

// WriteJSON replaces a file atomically, readable only by its owner. It creates
// missing parent folders.
func WriteJSON(file string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return Write(file, append(data, '\n'), 0o600)
}

// draft is the prefix of files that are being written.
const draft = ".new-"

// Write replaces a file atomically. It creates missing parent folders.
func Write(file string, data []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), draft+"*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil { // otherwise the new name could have no content after a power cut
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		os.Remove(f.Name()) // the first error is the one to report
	}
	return err
}

// lockFile is the file in a folder that is locked.
const lockFile = ".lock"

// Lock waits until no other process is changing the cluster, and creates its folder.
// The returned func releases the lock, after it has removed the folder if nothing is
// left in it, and then the root likewise.
func (s Site) Lock(ctx context.Context) (unlock func(), err error) {
	end, err := lockFolder(ctx, s.Dir(), []string{Groups, Machines, Volumes, Balancers, Mirrors, Images, Registry, Requests})
	if err != nil {
		return nil, err
	}
	return func() {
		end()
		s.removeRootIfEmpty()
	}, nil
}

// removeRootIfEmpty removes the root if nothing but its lock is left; if another process has locked it,
// that process does so.
func (s Site) removeRootIfEmpty() {
	if _, err := os.Stat(s.Dir()); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	if f, held, err := TryLock(filepath.Join(s.Root, lockFile)); err == nil && held {
		removeIfEmpty(s.Root, nil)
		f.Close() // releases the lock
	}
}

// LockRoot is like Lock, for what all clusters of the root share.
func (s Site) LockRoot(ctx context.Context) (unlock func(), err error) {
	return lockFolder(ctx, s.Root, nil)
}

func lockFolder(ctx context.Context, dir string, parts []string) (func(), error) {
	for {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("create the folder of the local cloud: %w", err)
		}
		f, held, err := TryLock(filepath.Join(dir, lockFile))
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist): // it may be removed between the two lines above
			return nil, err
		case held:
			return func() {
				removeIfEmpty(dir, parts)
				f.Close() // releases the lock
			}, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for another change of %s: %w", dir, context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// removeIfEmpty removes a folder that contains only empty parts and the lock. Drafts, and remains of removed
// files, have names that begin with a dot: interrupted processes left them.
func removeIfEmpty(dir string, parts []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // leave it as it is
	}
	var doomed []string
	for _, e := range entries {
		switch {
		case slices.Contains(parts, e.Name()):
			if left, err := List(filepath.Join(dir, e.Name())); err != nil || len(left) > 0 {
				return
			}
			doomed = append(doomed, e.Name())
		case strings.HasPrefix(e.Name(), draft):
			doomed = append(doomed, e.Name())
		case e.Name() != lockFile:
			return
		}
	}
	for _, d := range doomed {
		os.RemoveAll(filepath.Join(dir, d)) // whatever remains is found the next time
	}
	os.Remove(filepath.Join(dir, lockFile)) // while the lock is held, no other process relies on it
	os.Remove(dir)                          // fails if it was written to meanwhile
}

// TryLock locks a file, which it creates if necessary, unless another process has
// locked it. The lock is released when the file is closed or the process exits.
func TryLock(file string) (f *os.File, held bool, err error) {
	f, err = os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, false, err
	}
	if held, err = flock(f, false); held && err == nil {
		// A lock on a file that was removed after it was opened protects nothing.
		var now, opened os.FileInfo
		if opened, err = f.Stat(); err == nil {
			now, err = os.Stat(file)
		}
		if err == nil && os.SameFile(now, opened) {
			return f, true, nil
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	f.Close() // not ours
	return nil, false, err
}

// Locked reports whether a process holds the lock of TryLock on a file. Concurrent
// calls do not mistake each other for the holder.
func Locked(file string) (bool, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close() // releases the lock, if it was acquired
	free, err := flock(f, true)
	return !free && err == nil, err
}
