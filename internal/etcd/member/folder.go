package member

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"kops.local/kops/internal/etcd"
	"kops.local/kops/internal/fault"
)

// keptTrash is how many sets of data that were put aside are kept, so that they do not fill the disk.
const keptTrash = 2

// folder is the place of everything of a member:
//
//	state                    what the disk holds, 0600
//	data/TOKEN/              etcd's data
//	pki/TOKEN/peers,clients  etcd's certificates
//	data-trashcan/           data that were put aside
type folder string

// kept is what is remembered on the disk.
type kept struct {
	etcd.State
	// Initial are the members that etcd is told of until it has begun its data.
	Initial []etcd.Node `json:"initial,omitempty"`
}

func (k kept) sameAs(o kept) bool { return reflect.DeepEqual(k, o) }

func (f folder) state() string                { return filepath.Join(string(f), "state") }
func (f folder) pidFile() string              { return filepath.Join(string(f), "etcd.pid") }
func (f folder) data(token string) string     { return filepath.Join(string(f), "data", token) }
func (f folder) pki(token, who string) string { return filepath.Join(string(f), "pki", token, who) }
func (f folder) trash() string                { return filepath.Join(string(f), "data-trashcan") }

// begun reports whether etcd has begun to write its data.
func (f folder) begun(token string) bool {
	info, err := os.Stat(filepath.Join(f.data(token), "member", "wal"))
	return err == nil && info.IsDir()
}

// lost reports whether the data of an etcd that was once started are not there.
func (f folder) lost(k kept) bool { return k.Started && !f.begun(k.Token) }

// load reads what is remembered; of an empty folder that is nothing.
func (f folder) load() (kept, error) {
	text, err := os.ReadFile(f.state())
	if errors.Is(err, fs.ErrNotExist) {
		return kept{}, nil
	}
	if err != nil {
		return kept{}, fmt.Errorf("read the state of the member: %w", err)
	}
	if !bytes.HasPrefix(text, []byte("{")) {
		return kept{}, fault.Wrap(fault.Permanent, fmt.Errorf("%s was written by another program", f.state()),
			"restore a back-up of the cluster on empty disks: the data of kOps' own etcd-manager cannot be taken over in place")
	}
	var k kept
	if err := json.Unmarshal(text, &k); err != nil {
		return kept{}, fmt.Errorf("read the state of the member %s: %w", f.state(), err)
	}
	return k, nil
}

// save replaces what is remembered, in one step that a power cut does not undo.
func (f folder) save(k kept) error {
	text, err := json.MarshalIndent(k, "", "  ")
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

// putAside moves what is left of a seat's data to the trash, and removes every
// certificate and all but the youngest trash.
func (f folder) putAside(k kept) error {
	tokens, err := os.ReadDir(filepath.Join(string(f), "data"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("put old data aside: %w", err)
	}
	if err := os.MkdirAll(f.trash(), 0o700); err != nil {
		return fmt.Errorf("put old data aside: %w", err)
	}
	for _, t := range tokens {
		seat := "unknown"
		if t.Name() == k.Token {
			seat = k.Seat
		}
		to := filepath.Join(f.trash(), t.Name()+"-"+seat)
		err := os.RemoveAll(to)
		if err == nil {
			err = os.Rename(f.data(t.Name()), to)
		}
		if err != nil {
			return fmt.Errorf("put old data aside: %w", err)
		}
	}
	if err := os.RemoveAll(filepath.Join(string(f), "pki")); err != nil {
		return fmt.Errorf("put old data aside: %w", err)
	}
	return f.emptyTrash()
}

func (f folder) emptyTrash() error {
	entries, err := os.ReadDir(f.trash())
	if err != nil {
		return fmt.Errorf("empty the trash: %w", err)
	}
	age := map[string]int64{}
	for _, e := range entries {
		if info, err := e.Info(); err == nil { // one that is gone needs no removal
			age[e.Name()] = info.ModTime().UnixNano()
		}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return int(min(max(age[b.Name()]-age[a.Name()], -1), 1)) })
	for _, e := range entries[min(keptTrash, len(entries)):] {
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
