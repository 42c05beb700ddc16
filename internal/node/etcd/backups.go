package etcd

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"kops.local/kops/internal/contract/encryption"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
)

// The two objects of a backup, below its name.
const (
	// SnapshotName is the snapshot of etcd, compressed with gzip.
	SnapshotName = "/etcd.backup.gz"
	// MetaName describes the snapshot; it is written last, so that a backup that has it is complete.
	MetaName = "/_etcd_backup.meta"
)

// factsFolder contains what kOps' layout has no place for: one object per backup,
// under its name. kOps' manager rejects a description with further fields, and ignores
// this folder.
const factsFolder = ".kops/backups/"

// backupName is 2026-08-01T10:15:00Z-000042.
var backupName = regexp.MustCompile(`^(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z)-(\d{6})$`)

// Backup is one backup of a cluster.
type Backup struct {
	// Name is the folder of the backup: the time at which it was taken, in UTC, and a number.
	Name string
	Time time.Time
	// Size is the size of the compressed snapshot, in bytes.
	Size int64
	// Version is the version of the compressed snapshot in the store.
	Version store.Version
	// Complete is set if both objects exist.
	Complete bool
	// Recorded is set if the backup has facts: a manager of this store has taken it.
	Recorded bool
}

// Facts are what was known about a backup when it was taken. kOps' backups have none.
type Facts struct {
	// Size, SHA256 and Version describe the compressed snapshot; Unpacked is its size without
	// compression, in bytes.
	Size     int64         `json:"size"`
	SHA256   string        `json:"sha256"`
	Version  store.Version `json:"version,omitempty"`
	Unpacked int64         `json:"unpacked"`
	// Revision and Keys are etcd's, read just before the snapshot.
	Revision int64 `json:"revision"`
	Keys     int64 `json:"keys"`
	// Cluster is the UID of the namespace kube-system; empty if etcd does not have it.
	Cluster string `json:"cluster,omitempty"`
	// Encryption are the keys with which API servers could read at that time: one of them decrypts
	// every encrypted object in the backup. nil means that they are not known.
	Encryption []encryption.KeyID `json:"encryption"`
}

// FactsKey returns the key of a backup's facts.
func FactsKey(backup string) string { return factsFolder + backup }

// ReadFacts reads the facts of a backup; nil if there are none that can be read.
func ReadFacts(ctx context.Context, s store.Store, backup string) (*Facts, error) {
	return readSound[Facts](ctx, s, FactsKey(backup)) // they are optional
}

// WriteFacts writes the facts of a backup.
func WriteFacts(ctx context.Context, s store.Store, backup string, f Facts) error {
	if err := write(ctx, s, FactsKey(backup), f, store.PutOptions{}); err != nil {
		return fmt.Errorf("write the facts of the backup %s: %w", backup, err)
	}
	return nil
}

// LoneFacts lists the facts whose backups are not among those given: kOps' manager,
// which does not know the facts, has removed the backups.
func LoneFacts(ctx context.Context, s store.Store, backups []Backup) ([]string, error) {
	var out []string
	for info, err := range s.List(ctx, factsFolder) {
		if err != nil {
			return nil, fmt.Errorf("list the facts of backups: %w", err)
		}
		if !slices.ContainsFunc(backups, func(b Backup) bool { return FactsKey(b.Name) == info.Key }) {
			out = append(out, info.Key)
		}
	}
	return out, nil
}

// BackupName returns the name of a backup; sequence distinguishes backups taken in the same second.
func BackupName(at time.Time, sequence int) string {
	return fmt.Sprintf("%s-%06d", at.UTC().Format("2006-01-02T15:04:05Z"), sequence)
}

// Meta describes a backup.
type Meta struct {
	EtcdVersion string
	Time        time.Time
	Spec        Spec
}

type metaFile struct {
	EtcdVersion string `json:"etcdVersion"`
	Timestamp   stamp  `json:"timestamp"` // seconds since 1970
	ClusterSpec Spec   `json:"clusterSpec"`
}

// ReadMeta reads the description of a backup; the error is of class fault.Gone if there is no such backup.
func ReadMeta(ctx context.Context, s store.Store, backup string) (Meta, error) {
	f, _, err := read[metaFile](ctx, s, backup+MetaName)
	if err != nil {
		return Meta{}, err
	}
	if f == nil {
		return Meta{}, fault.Wrap(fault.Gone, fmt.Errorf("there is no backup %s in %s", backup, s.About().URL), "list the backups, and choose one of them")
	}
	return Meta{f.EtcdVersion, time.Unix(int64(f.Timestamp), 0), f.ClusterSpec}, nil
}

// ErrDamaged is in the chain of errors about an object whose content is damaged.
var ErrDamaged = errors.New("damaged")

// IsUnusable reports whether an error from reading a backup means that it is damaged
// or gone, rather than that the store could not be read.
func IsUnusable(err error) bool { return fault.Is(err, fault.Gone) || errors.Is(err, ErrDamaged) }

// WriteMeta writes the description of a backup.
func WriteMeta(ctx context.Context, s store.Store, backup string, m Meta) error {
	if err := write(ctx, s, backup+MetaName, metaFile{m.EtcdVersion, stamp(m.Time.Unix()), m.Spec}, store.PutOptions{}); err != nil {
		return fmt.Errorf("describe the backup %s: %w", backup, err)
	}
	return nil
}

// Backups lists the backups in a store, oldest first. Objects without a backup's name are ignored.
func Backups(ctx context.Context, s store.Store) ([]Backup, error) {
	found := map[string]*Backup{}
	meta, recorded := map[string]bool{}, map[string]bool{}
	for info, err := range s.List(ctx, "") {
		if err != nil {
			return nil, fmt.Errorf("list the backups of etcd: %w", err)
		}
		if name, of := strings.CutPrefix(info.Key, factsFolder); of {
			recorded[name] = true
			continue
		}
		name, object := path.Split(info.Key)
		name = strings.TrimSuffix(name, "/")
		parts := backupName.FindStringSubmatch(name)
		if parts == nil {
			continue
		}
		at, err := time.Parse(time.RFC3339, parts[1])
		if err != nil {
			continue // digits that are not a time
		}
		if found[name] == nil {
			found[name] = &Backup{Name: name, Time: at}
		}
		switch "/" + object {
		case SnapshotName:
			found[name].Size, found[name].Version = info.Size, info.Version
		case MetaName:
			meta[name] = true
		}
	}
	var out []Backup
	for name, b := range found {
		b.Complete, b.Recorded = b.Size > 0 && meta[name], recorded[name]
		out = append(out, *b)
	}
	slices.SortFunc(out, func(a, b Backup) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// clockSkew is how far ahead the clock of the machine that takes a backup may be.
const clockSkew = 10 * time.Minute

// IsFromFuture reports whether a backup claims to have been taken after now.
func (b Backup) IsFromFuture(now time.Time) bool { return b.Time.Sub(now) > clockSkew }

// OnlyCredible returns the backups without those that claim to be from the future and that no
// manager of this store has recorded: they were put there by others. Names of later
// backups must not continue from theirs.
func OnlyCredible(all []Backup, now time.Time) []Backup {
	return filter(all, func(b Backup) bool { return b.Recorded || !b.IsFromFuture(now) })
}

// Retention defines how long backups are kept: all for an hour, then the oldest of
// each hour for Hourly, then the oldest of each day (in UTC) for Daily.
type Retention struct{ Hourly, Daily time.Duration }

// DefaultRetention keeps a backup of each hour for a week and of each day for two years, as kOps'
// manager does by default.
func DefaultRetention() Retention {
	return Retention{Hourly: 7 * 24 * time.Hour, Daily: 2 * 365 * 24 * time.Hour}
}

// Expired returns the backups, oldest first, that are no longer kept. A backup that was not
// completed within an hour never will be: it is not kept, and must not take the place of a
// complete one.
func (r Retention) Expired(backups []Backup, now time.Time) []Backup {
	var out []Backup
	kept := map[string]bool{}
	for _, b := range backups {
		age := now.Sub(b.Time)
		slot := ""
		switch {
		case age < time.Hour:
			continue
		case !b.Complete:
		case age < r.Hourly:
			slot = b.Time.UTC().Format("2006-01-02T15")
		case age < r.Daily:
			slot = b.Time.UTC().Format("2006-01-02")
		}
		if slot != "" && !kept[slot] {
			kept[slot] = true
			continue
		}
		out = append(out, b)
	}
	return out
}
