// Package backup puts snapshots of etcd into a store and takes them out again,
// checked both times, and removes those that are no longer kept.
//
// It must not know when a back-up is due, nor what becomes of one that is taken out.
package backup

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"time"

	"kops.local/kops/internal/etcd"
	"kops.local/kops/internal/fault"
	"kops.local/kops/internal/store"
)

// Source gives snapshots.
type Source interface {
	// Snapshot writes the data of etcd, followed by their SHA-256, and returns the
	// version of etcd that they come from.
	Snapshot(ctx context.Context, w io.Writer) (version string, err error)
}

// maxSequence is the last number of a back-up before the first comes again.
const maxSequence = 999999

// Archive is the back-ups of one cluster. Its methods are not used concurrently.
type Archive struct {
	Store     store.Store
	Retention etcd.Retention
	Now       func() time.Time

	sequence int
	cleaned  time.Time
}

// Take stores a back-up and returns it. Its time, in whole seconds, is later than
// that of every other in the store, and not before since, though the clock may say
// otherwise. A snapshot whose digest is wrong is not stored.
func (a *Archive) Take(ctx context.Context, from Source, spec etcd.Spec, since time.Time) (etcd.Backup, error) {
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	var sum checksum
	version, err := from.Snapshot(ctx, io.MultiWriter(zip, &sum))
	if err == nil {
		err = errors.Join(zip.Close(), sum.check())
	}
	if err != nil {
		return etcd.Backup{}, fmt.Errorf("back up etcd: %w", err)
	}
	at, err := a.next(ctx, since)
	if err != nil {
		return etcd.Backup{}, err
	}
	a.sequence = a.sequence%maxSequence + 1
	b := etcd.Backup{Name: etcd.BackupName(at, a.sequence), Time: at, Size: int64(packed.Len()), Complete: true}
	if _, err := a.Store.Put(ctx, b.Name+etcd.SnapshotName, packed.Bytes(), store.PutOptions{Private: true}); err != nil {
		return etcd.Backup{}, fmt.Errorf("store the back-up %s: %w", b.Name, err)
	}
	if err := etcd.WriteMeta(ctx, a.Store, b.Name, etcd.Meta{EtcdVersion: version, Time: at, Spec: spec}); err != nil {
		return etcd.Backup{}, err
	}
	return b, nil
}

// next is the time of the next back-up.
func (a *Archive) next(ctx context.Context, since time.Time) (time.Time, error) {
	all, err := etcd.Backups(ctx, a.Store)
	if err != nil {
		return time.Time{}, err
	}
	at := max(a.Now().Unix(), since.Unix())
	if len(all) > 0 {
		at = max(at, all[len(all)-1].Time.Unix()+1)
	}
	return time.Unix(at, 0).UTC(), nil
}

// Latest returns when the youngest complete back-up was taken; zero when there is none.
func (a *Archive) Latest(ctx context.Context) (time.Time, error) {
	all, err := etcd.Backups(ctx, a.Store)
	if err != nil {
		return time.Time{}, err
	}
	var latest time.Time
	for _, b := range all {
		if b.Complete && b.Time.After(latest) {
			latest = b.Time
		}
	}
	return latest, nil
}

// Clean removes the back-ups that are no longer kept, with all versions that the
// store has of them, at most once an hour, and returns how many those were.
func (a *Archive) Clean(ctx context.Context) (int, error) {
	now := a.Now()
	if now.Sub(a.cleaned) < time.Hour {
		return 0, nil
	}
	all, err := etcd.Backups(ctx, a.Store)
	if err != nil {
		return 0, err
	}
	expired := a.Retention.Expired(all, now)
	var keys []string
	for _, b := range expired {
		keys = append(keys, b.Name+etcd.MetaName, b.Name+etcd.SnapshotName)
	}
	if err := store.Purge(ctx, a.Store, keys); err != nil {
		return 0, fmt.Errorf("remove old back-ups: %w", err)
	}
	a.cleaned = now
	return len(expired), nil
}

// Fetch writes the snapshot of a back-up, decompressed, to a file of mode 0600.
// It is checked before the file is complete; a back-up that is damaged or does
// not exist is an error, and leaves no file.
func (a *Archive) Fetch(ctx context.Context, name, file string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("fetch the back-up %s: %w", name, err)
	}
	err = a.copy(ctx, name, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	return nil
}

// Verify reports whether a back-up is there and whole.
func (a *Archive) Verify(ctx context.Context, name string) error {
	return a.copy(ctx, name, io.Discard)
}

// largest is the longest snapshot, in bytes: twice the largest database that etcd is
// made for (etcd documentation, "System limits").
const largest = 16 << 30

func (a *Archive) copy(ctx context.Context, name string, w io.Writer) error {
	if _, err := etcd.ReadMeta(ctx, a.Store, name); err != nil {
		return err
	}
	packed, _, err := a.Store.Get(ctx, name+etcd.SnapshotName)
	if err != nil {
		return fmt.Errorf("fetch the back-up %s: %w", name, err)
	}
	var sum checksum
	zip, err := gzip.NewReader(bytes.NewReader(packed))
	if err == nil {
		_, err = io.Copy(io.MultiWriter(w, &sum), io.LimitReader(zip, largest)) // one that is cut off is damaged
	}
	if err == nil {
		err = sum.check()
	}
	if err != nil {
		return fault.Wrap(fault.Permanent, fmt.Errorf("the back-up %s is %w: %w", name, etcd.ErrDamaged, err), "restore another back-up")
	}
	return nil
}

// checksum checks a stream that ends in the SHA-256 of what comes before. The
// data before it are whole pages, so that the length tells whether it is there.
type checksum struct {
	hash hash.Hash
	tail []byte // the last bytes, of which up to 32 may be the digest
	size int64
}

// page is the unit of size of etcd's data, in bytes.
const page = 512

func (c *checksum) Write(p []byte) (int, error) {
	if c.hash == nil {
		c.hash = sha256.New()
	}
	c.size += int64(len(p))
	c.tail = append(c.tail, p...)
	if n := len(c.tail) - sha256.Size; n > 0 {
		c.hash.Write(c.tail[:n])
		c.tail = append(c.tail[:0], c.tail[n:]...)
	}
	return len(p), nil
}

func (c *checksum) check() error {
	switch {
	case c.hash == nil || c.size%page != sha256.Size:
		return fmt.Errorf("a snapshot of %d bytes is not whole", c.size)
	case !bytes.Equal(c.hash.Sum(nil), c.tail):
		return errors.New("the snapshot is not what its digest says")
	}
	return nil
}
