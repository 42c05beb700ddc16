// Package backup stores snapshots of etcd and fetches them again, verifying them both
// times, and removes those that are no longer kept.
//
// It must not know when a backup is due, nor what happens to a fetched snapshot.
package backup

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"time"

	"kops.local/kops/internal/contract/encryption"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/node/etcd/snapshot"
	"kops.local/kops/internal/store"
)

// Source provides snapshots.
type Source interface {
	// Snapshot writes etcd's data, followed by their SHA-256.
	Snapshot(ctx context.Context, w io.Writer) (Origin, error)
}

// Origin describes the etcd from which a snapshot was taken.
type Origin struct {
	// EtcdVersion is the version of that etcd.
	EtcdVersion string
	// Revision and Keys are etcd's, read just before the snapshot.
	Revision, Keys int64
	// Cluster is the UID of the namespace kube-system; empty if it does not exist.
	Cluster string
}

const (
	// maxSequence is the highest number of a backup; the next one is 1 again.
	maxSequence = 999999
	// maxUnpacked is the size of the largest snapshot, in bytes: twice the largest
	// database that etcd is designed for (etcd documentation, "System limits").
	maxUnpacked = 16 << 30
	// maxInspected is the size of the largest backup that Inspect reads, in bytes.
	maxInspected = 16 << 20
)

// Archive manages the backups of one cluster. Its methods must not be called concurrently.
type Archive struct {
	Store     store.Store
	Retention etcd.Retention
	Now       func() time.Time
	// Scratch is the folder in which a backup is unpacked, as verify.db, to be verified.
	Scratch string
	// Inspect opens a snapshot; nil means snapshot.Read.
	Inspect func(file string) (snapshot.Contents, error)
	// Encryption returns the keys with which API servers read encrypted objects, nil if they are
	// not known; may itself be nil.
	Encryption func() []encryption.KeyID

	sequence  int
	cleanedAt time.Time
}

// Take stores a backup, and returns it and its facts. Its time, in whole seconds, is later than
// every credible backup's in the store (see etcd.OnlyCredible), and not before since, even if the
// clock says otherwise. A snapshot whose digest is wrong is not stored.
func (a *Archive) Take(ctx context.Context, from Source, spec etcd.Spec, since time.Time) (etcd.Backup, etcd.Facts, error) {
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	var sum checksum
	of, err := from.Snapshot(ctx, io.MultiWriter(zip, &sum))
	if err == nil {
		err = errors.Join(zip.Close(), sum.check())
	}
	if err != nil {
		return etcd.Backup{}, etcd.Facts{}, fmt.Errorf("back up etcd: %w", err)
	}
	at, err := a.next(ctx, since)
	if err != nil {
		return etcd.Backup{}, etcd.Facts{}, err
	}
	a.sequence = a.sequence%maxSequence + 1
	b := etcd.Backup{Name: etcd.BackupName(at, a.sequence), Time: at, Size: int64(packed.Len()), Complete: true, Recorded: true}
	facts := etcd.Facts{Size: b.Size, SHA256: digest(packed.Bytes()), Unpacked: sum.size, Revision: of.Revision, Keys: of.Keys, Cluster: of.Cluster}
	if a.Encryption != nil {
		facts.Encryption = a.Encryption()
	}
	if b.Version, err = a.Store.Put(ctx, b.Name+etcd.SnapshotName, packed.Bytes(), store.PutOptions{Private: true}); err != nil {
		return etcd.Backup{}, etcd.Facts{}, fmt.Errorf("store the backup %s: %w", b.Name, err)
	}
	facts.Version = b.Version
	if err = etcd.WriteFacts(ctx, a.Store, b.Name, facts); err == nil {
		err = etcd.WriteMeta(ctx, a.Store, b.Name, etcd.Meta{EtcdVersion: of.EtcdVersion, Time: at, Spec: spec})
	}
	return b, facts, err
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// next returns the time of the next backup.
func (a *Archive) next(ctx context.Context, since time.Time) (time.Time, error) {
	all, err := a.listCredible(ctx)
	if err != nil {
		return time.Time{}, err
	}
	at := max(a.Now().Unix(), since.Unix())
	if len(all) > 0 {
		at = max(at, all[len(all)-1].Time.Unix()+1)
	}
	return time.Unix(at, 0).UTC(), nil
}

// listCredible lists the backups except forged ones with a time in the future (see
// etcd.OnlyCredible).
func (a *Archive) listCredible(ctx context.Context) ([]etcd.Backup, error) {
	all, err := etcd.Backups(ctx, a.Store)
	if err != nil {
		return nil, err
	}
	return etcd.OnlyCredible(all, a.Now()), nil
}

// Latest returns when the latest complete and credible backup was taken, the zero time if
// there is none, and its facts, which may be nil.
func (a *Archive) Latest(ctx context.Context) (time.Time, *etcd.Facts, error) {
	all, err := a.listCredible(ctx)
	if err != nil {
		return time.Time{}, nil, err
	}
	var latest etcd.Backup
	for _, b := range all {
		if b.Complete && b.Time.After(latest.Time) {
			latest = b
		}
	}
	if latest.Name == "" {
		return time.Time{}, nil, nil
	}
	facts, err := etcd.ReadFacts(ctx, a.Store, latest.Name)
	return latest.Time, facts, err
}

// Clean removes the backups that are no longer kept, with all versions that the store has of them,
// at most once an hour, and returns how many it removed.
func (a *Archive) Clean(ctx context.Context) (int, error) {
	now := a.Now()
	if now.Sub(a.cleanedAt) < time.Hour {
		return 0, nil
	}
	all, err := etcd.Backups(ctx, a.Store)
	if err != nil {
		return 0, err
	}
	expired := a.Retention.Expired(all, now)
	keys, err := etcd.LoneFacts(ctx, a.Store, all)
	if err != nil {
		return 0, err
	}
	for _, b := range expired {
		keys = append(keys, b.Name+etcd.MetaName, b.Name+etcd.SnapshotName, etcd.FactsKey(b.Name))
	}
	if err := store.Purge(ctx, a.Store, keys); err != nil {
		return 0, fmt.Errorf("remove old backups: %w", err)
	}
	a.cleanedAt = now
	return len(expired), nil
}

// Fetch writes the snapshot of a backup, decompressed, to a file of mode 0600, and
// returns its contents. It is verified before the file is complete (see Verify); a
// damaged or missing backup is an error, and leaves no file.
func (a *Archive) Fetch(ctx context.Context, name, file string) (snapshot.Contents, error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
	if err != nil {
		return snapshot.Contents{}, fmt.Errorf("fetch the backup %s: %w", name, err)
	}
	c, err := a.unpack(ctx, name, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return snapshot.Contents{}, errors.Join(err, os.Remove(file))
	}
	return c, nil
}

// Verify fetches a backup, and returns its contents if it is intact: it is unchanged since it
// was taken, if that is known; it decompresses without an error; it ends in its own digest;
// and it opens as a database that etcd can start with. The error for a backup that is not
// intact has etcd.ErrDamaged in its chain.
func (a *Archive) Verify(ctx context.Context, name string) (snapshot.Contents, error) {
	file := filepath.Join(a.Scratch, "verify.db")
	c, err := a.Fetch(ctx, name, file)
	if err != nil {
		return snapshot.Contents{}, err
	}
	return c, os.Remove(file)
}

// unpack decompresses the snapshot of a backup into a file, and inspects it.
func (a *Archive) unpack(ctx context.Context, name string, f *os.File) (snapshot.Contents, error) {
	if _, err := etcd.ReadMeta(ctx, a.Store, name); err != nil {
		return snapshot.Contents{}, err
	}
	facts, err := etcd.ReadFacts(ctx, a.Store, name)
	if err != nil {
		return snapshot.Contents{}, err
	}
	packed, _, err := a.Store.Get(ctx, name+etcd.SnapshotName)
	if err != nil {
		return snapshot.Contents{}, fmt.Errorf("fetch the backup %s: %w", name, err)
	}
	if err = decompress(packed, facts, f); err != nil {
		return snapshot.Contents{}, damagedError(name, err)
	}
	inspect := a.Inspect
	if inspect == nil {
		inspect = snapshot.Read
	}
	c, err := inspect(f.Name())
	if err != nil {
		return snapshot.Contents{}, damagedError(name, err)
	}
	return c, nil
}

// Inspect returns the recorded facts of a backup, nil if there are none. It returns an error for a
// damaged backup if that can be found at little cost: by its size; and, if the store does not
// vouch that the object is unchanged since, or there are no facts, by its content, unless that is
// large.
func Inspect(ctx context.Context, s store.Store, b etcd.Backup) (*etcd.Facts, error) {
	facts, err := etcd.ReadFacts(ctx, s, b.Name)
	switch {
	case err != nil:
		return nil, err
	case facts != nil && facts.Size != b.Size:
		return facts, damagedError(b.Name, sizeDiffers(b.Size, facts.Size))
	case facts != nil && facts.Version == b.Version, b.Size > maxInspected:
		return facts, nil
	}
	packed, _, err := s.Get(ctx, b.Name+etcd.SnapshotName)
	if err != nil {
		return nil, fmt.Errorf("check the backup %s: %w", b.Name, err)
	}
	if err := decompress(packed, facts, io.Discard); err != nil {
		return facts, damagedError(b.Name, err)
	}
	return facts, nil
}

func damagedError(name string, why error) error {
	return fault.Wrap(fault.Permanent, fmt.Errorf("the backup %s is %w: %w", name, etcd.ErrDamaged, why), "restore another backup")
}

func sizeDiffers(now, taken int64) error {
	return fmt.Errorf("it has %d bytes, but had %d when it was taken", now, taken)
}

// decompress writes a snapshot, and checks that it is unchanged since it was taken,
// if that is known, and ends in its own digest.
func decompress(packed []byte, facts *etcd.Facts, w io.Writer) error {
	most := int64(maxUnpacked)
	if facts != nil {
		most = min(most, facts.Unpacked)
		switch size := int64(len(packed)); {
		case size != facts.Size:
			return sizeDiffers(size, facts.Size)
		case digest(packed) != facts.SHA256:
			return errors.New("its digest has changed since it was taken")
		}
	}
	zip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return err
	}
	var sum checksum
	n, err := io.Copy(io.MultiWriter(w, &sum), io.LimitReader(zip, most+1))
	switch {
	case err != nil:
		return err
	case n > most:
		return fmt.Errorf("it unpacks to more than %d bytes", most)
	}
	return sum.check()
}

// checksum checks a stream that ends in the SHA-256 of the preceding data. These
// are whole pages, so the length tells whether the digest is there.
type checksum struct {
	hash hash.Hash
	tail []byte // the last bytes, of which up to 32 may be the digest
	size int64
}

// page is the unit of the size of etcd's data, in bytes.
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
		return fmt.Errorf("a snapshot of %d bytes is incomplete", c.size)
	case !bytes.Equal(c.hash.Sum(nil), c.tail):
		return errors.New("the snapshot does not match its digest")
	}
	return nil
}
