// Package snapshot reads the contents of an etcd snapshot, without etcd.
//
// It must not know where snapshots come from, nor what is done with them.
package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"
)

// Contents are the contents of a snapshot.
type Contents struct {
	// Revision is the last written revision, and 1 if nothing was written.
	Revision int64
	// Keys is the number of keys, without deleted ones.
	Keys int64
	// Cluster is the UID of the namespace kube-system, which identifies a Kubernetes cluster;
	// empty if there is none that can be read.
	Cluster string
	// Sealed are the ways in which API servers have encrypted objects, sorted.
	Sealed []Sealed
}

const (
	// lockTime is how long another process may hold the file.
	lockTime = 5 * time.Second
	// revisionSize is the length of an entry's name in the bucket of revisions: the
	// main revision, "_" and the one within a transaction, big endian, and for a
	// deletion one letter more (etcd's package server/storage/mvcc).
	revisionSize = 17
	// keyField and valueField are the numbers of the fields key and value in etcd's message
	// KeyValue (mvccpb/kv.proto).
	keyField, valueField = 1, 5
)

// Read opens a snapshot, which may be followed by its SHA-256, as a database, and
// reads every entry. An error means that etcd could not start with it.
func Read(file string) (c Contents, err error) {
	// The file is mapped, and the library does not check its pointers: an invalid one causes a panic.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if what := recover(); what != nil {
			err = fmt.Errorf("the database cannot be read: %v", what)
		}
	}()
	db, err := bolt.Open(file, 0o600, &bolt.Options{ReadOnly: true, Timeout: lockTime})
	if err != nil {
		return Contents{}, fmt.Errorf("open the database: %w", err)
	}
	err = db.View(func(tx *bolt.Tx) error {
		revisions := tx.Bucket([]byte("key"))
		if revisions == nil {
			return errors.New("the database has no bucket of keys, so it is not a database of etcd")
		}
		c, err = read(revisions)
		return err
	})
	return c, errors.Join(err, db.Close())
}

// read counts the keys whose last entry is not a deletion, and examines the relevant ones.
func read(revisions *bolt.Bucket) (Contents, error) {
	c := Contents{Revision: 1}
	alive, sealed := map[string]struct{}{}, sealedObjects{}
	err := revisions.ForEach(func(name, value []byte) error {
		if len(name) < revisionSize {
			return fmt.Errorf("an entry has the name %x, which is not a revision", name)
		}
		c.Revision = max(c.Revision, int64(binary.BigEndian.Uint64(name))) //nolint:gosec // revisions are signed in etcd
		if len(value) == 0 {                                               // where a restore has raised the revision
			return nil
		}
		raw, ok := field(value, keyField)
		if !ok {
			return fmt.Errorf("revision %d: an entry without a key", c.Revision)
		}
		key := string(raw)
		delete(sealed, key)
		if len(name) > revisionSize {
			delete(alive, key)
			return nil
		}
		alive[key] = struct{}{}
		content, _ := field(value, valueField)
		if key == ClusterKey {
			c.Cluster = UID(content)
		}
		sealed.add(key, name, content)
		return nil
	})
	c.Keys = int64(len(alive))
	c.Sealed = sealed.sample(revisions)
	return c, err
}
