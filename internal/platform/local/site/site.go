// Package site says where a cluster of the local cloud lives on this host: its folder, the short
// name that marks its objects in the kernel, and the lock under which it is changed.
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

// Parts of a site's folder, each a folder with one entry for an object.
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

// Dir is the cluster's folder.
func (s Site) Dir() string { return filepath.Join(s.Root, s.Cluster) }

// Path is a file or folder of the cluster.
func (s Site) Path(elem ...string) string {
	return filepath.Join(append([]string{s.Dir()}, elem...)...)
}

// ID marks the cluster's interfaces, control groups and processes: six
// hexadecimal digits that differ between clusters and between roots.
func (s Site) ID() string {
	sum := sha256.Sum256([]byte(s.Root + "\n" + s.Cluster))
	return hex.EncodeToString(sum[:3])
}

// BridgePrefix begins the names of all clusters' bridges.
const BridgePrefix = "kops-"

// Bridge is the name of the cluster's network interface on the host.
func (s Site) Bridge() string { return BridgePrefix + s.ID() }

// CheckName checks that a name can be a folder's name.
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

// WriteJSON replaces a file, in one step and readable by its owner alone. It
// makes the folders above it.
func WriteJSON(file string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return Write(file, append(data, '\n'), 0o600)
}

// draft begins the names of files that are being written.
const draft = ".new-"

// Write replaces a file in one step. It makes the folders above it.
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
	if err == nil { // otherwise a power cut could leave the new name with nothing in it
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		os.Remove(f.Name()) // the first error is the one to tell
	}
	return err
}

// lockFile is the file below a folder that is locked.
const lockFile = ".lock"

// Lock waits until nobody else changes the cluster, and makes its folder. The
// returned func ends the change, and removes the folder if nothing is left in it,
// and then the root likewise.
func (s Site) Lock(ctx context.Context) (unlock func(), err error) {
	end, err := lockFolder(ctx, s.Dir(), []string{Groups, Machines, Volumes, Balancers, Mirrors, Images, Registry, Requests})
	if err != nil {
		return nil, err
	}
	return func() {
		end()
		s.tidyRoot()
	}, nil
}

// tidyRoot removes the root, if nothing but its lock is left; another process that has locked it
// does so as well.
func (s Site) tidyRoot() {
	if _, err := os.Stat(s.Dir()); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	if f, held, err := TryLock(filepath.Join(s.Root, lockFile)); err == nil && held {
		tidy(s.Root, nil)
		f.Close() // ends the lock
	}
}

// LockRoot is Lock for what all clusters of the root share.
func (s Site) LockRoot(ctx context.Context) (unlock func(), err error) {
	return lockFolder(ctx, s.Root, nil)
}

func lockFolder(ctx context.Context, dir string, parts []string) (func(), error) {
	for {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make the folder of the local cloud: %w", err)
		}
		f, held, err := TryLock(filepath.Join(dir, lockFile))
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist): // it may go between the two lines above
			return nil, err
		case held:
			return func() {
				tidy(dir, parts)
				f.Close() // ends the lock
			}, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for another change of %s: %w", dir, context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// tidy removes a folder in which nothing but empty parts and the lock is left. Drafts, and remains
// of removed files, have names that begin with a dot: interrupted processes left them.
func tidy(dir string, parts []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // it is left as it is
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
		os.RemoveAll(filepath.Join(dir, d)) // what stays is found the next time
	}
	os.Remove(filepath.Join(dir, lockFile)) // the lock is held: nobody else believes in it
	os.Remove(dir)                          // a folder that was written to meanwhile stays
}

// TryLock locks a file, which it makes, if nobody else has locked it. The lock
// ends when the file is closed, and at the latest with the process.
func TryLock(file string) (f *os.File, held bool, err error) {
	f, err = os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, false, err
	}
	if held, err = flock(f, false); held && err == nil {
		// A file that was removed since it was opened protects nothing.
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

// Locked reports whether somebody holds the lock of TryLock on a file. Those who
// ask at the same time do not take each other for the holder.
func Locked(file string) (bool, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close() // ends the lock, if it was had
	free, err := flock(f, true)
	return !free && err == nil, err
}
