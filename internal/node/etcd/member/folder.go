package member

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"kops.local/kops/internal/engine/fault"
)

// maxTrash is how many sets of discarded data are kept, so that they do not fill the disk.
const maxTrash = 2

// folder is the folder with everything of a member:
//
//	state                    what the disk contains, 0600
//	data/TOKEN/              etcd's data
//	pki/TOKEN/peers,clients  etcd's certificates
//	data-trashcan/           discarded data
//
// It has the layout of kOps' manager, and state is that manager's file; etcd.pid and
// lock are ours.
type folder string

func (f folder) state() string                { return filepath.Join(string(f), "state") }
func (f folder) pidFile() string              { return filepath.Join(string(f), "etcd.pid") }
func (f folder) data(token string) string     { return filepath.Join(string(f), "data", token) }
func (f folder) pki(token, who string) string { return filepath.Join(string(f), "pki", token, who) }
func (f folder) trash() string                { return filepath.Join(string(f), "data-trashcan") }

// hasData reports whether etcd has begun to write its data.
func (f folder) hasData(token string) bool {
	info, err := os.Stat(filepath.Join(f.data(token), "member", "wal"))
	return err == nil && info.IsDir()
}

// tokenWithData returns the token of a cluster whose data exist, or "".
func (f folder) tokenWithData() (token string, err error) {
	entries, err := os.ReadDir(filepath.Join(string(f), "data"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("look for data of etcd: %w", err)
	}
	for _, e := range entries {
		if f.hasData(e.Name()) {
			return e.Name(), nil
		}
	}
	return "", nil
}

// isLost reports whether the data of an etcd that was once started are missing.
func (f folder) isLost(k storedState) bool { return k.Started && !f.hasData(k.Token) }

// load reads the stored state; an empty folder has none. theirs is nil unless kOps' manager was
// the last to use the disk, or it is unused (see decode).
func (f folder) load() (k storedState, theirs []node, err error) {
	text, err := os.ReadFile(f.state())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return storedState{}, nil, fmt.Errorf("read the state of the member: %w", err)
	}
	if k, theirs, err = decode(text); err != nil {
		return storedState{}, nil, fault.Wrap(fault.Permanent, fmt.Errorf("%s cannot be read: %w", f.state(), err),
			"nothing on the disk was changed; restore the file, or if nothing on the disk is needed, empty it: then the member gets the data of the others, or of a backup")
	}
	return k, theirs, nil
}

// save replaces the stored state atomically and durably, even in a power failure.
func (f folder) save(k storedState) error {
	text, err := k.encode()
	if err != nil {
		return fmt.Errorf("write the state of the member: %w", err)
	}
	temp := f.state() + ".new"
	file, err := os.OpenFile(temp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("write the state of the member: %w", err)
	}
	_, err = file.Write(text)
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(temp, f.state())
	}
	if err == nil {
		err = syncDir(string(f))
	}
	if err != nil {
		return fmt.Errorf("write the state of the member: %w", err)
	}
	return nil
}

// putAside moves the remains of a seat's data to the trash, and removes every
// certificate and all but the latest trash.
func (f folder) putAside(k storedState) error {
	tokens, err := os.ReadDir(filepath.Join(string(f), "data"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("move old data aside: %w", err)
	}
	if err := os.MkdirAll(f.trash(), 0o700); err != nil {
		return fmt.Errorf("move old data aside: %w", err)
	}
	var moved []string
	for _, t := range tokens {
		seat := "unknown"
		if t.Name() == k.Token {
			seat = k.Seat
		}
		moved = append(moved, t.Name()+"-"+seat)
		to := filepath.Join(f.trash(), moved[len(moved)-1])
		err := os.RemoveAll(to)
		if err == nil {
			err = os.Rename(f.data(t.Name()), to)
		}
		if err != nil {
			return fmt.Errorf("move old data aside: %w", err)
		}
	}
	if err := os.RemoveAll(filepath.Join(string(f), "pki")); err != nil {
		return fmt.Errorf("move old data aside: %w", err)
	}
	return f.emptyTrash(moved)
}

// emptyTrash removes old data. It keeps data moved there just now, even if a wrong clock makes
// them look old, and the youngest of the rest.
func (f folder) emptyTrash(moved []string) error {
	entries, err := os.ReadDir(f.trash())
	if err != nil {
		return fmt.Errorf("empty the trash: %w", err)
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return slices.Contains(moved, e.Name()) })
	age := map[string]int64{}
	for _, e := range entries {
		if info, err := e.Info(); err == nil { // one that is gone need not be removed
			age[e.Name()] = info.ModTime().UnixNano()
		}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return int(min(max(age[b.Name()]-age[a.Name()], -1), 1)) })
	for _, e := range entries[min(max(maxTrash-len(moved), 0), len(entries)):] {
		if err := os.RemoveAll(filepath.Join(f.trash(), e.Name())); err != nil {
			return fmt.Errorf("empty the trash: %w", err)
		}
	}
	return nil
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
