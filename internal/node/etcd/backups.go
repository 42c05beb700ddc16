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

// The two objects of a back-up, below its name.
const (
	// SnapshotName is the snapshot of etcd, compressed with gzip.
	SnapshotName = "/etcd.backup.gz"
	// MetaName says what the snapshot is of; it is written last, so that a back-up with it is whole.
	MetaName = "/_etcd_backup.meta"
)

// factsFolder holds what kOps' layout has no place for: an object for each back-up, of
// its name. kOps' manager refuses a description with further fields, and passes over
// this folder.
const factsFolder = ".kops/backups/"

// backupName is 2026-08-01T10:15:00Z-000042.
var backupName = regexp.MustCompile(`^(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z)-(\d{6})$`)

// Backup is one back-up of a cluster.
type Backup struct {
	// Name is the folder of the back-up: the time it was taken at, in UTC, and a number.
	Name string
	Time time.Time
	// Size is the size of the compressed snapshot, in bytes.
	Size int64
	// Version is the version of the compressed snapshot in the store.
	Version store.Version
	// Complete says that both objects are there.
	Complete bool
	// Recorded says that there are facts of it: a manager of this store has taken it.
	Recorded bool
}

// Facts are what was known of a back-up when it was taken. kOps' back-ups have none.
type Facts struct {
	// Size, SHA256 and Version describe the compressed snapshot; Unpacked is its size without
	// compression, in bytes.
	Size     int64         `json:"size"`
	SHA256   string        `json:"sha256"`
	Version  store.Version `json:"version,omitempty"`
	Unpacked int64         `json:"unpacked"`
	// Revision and Keys are etcd's, just before.
	Revision int64 `json:"revision"`
	Keys     int64 `json:"keys"`
	// Cluster is the UID of the namespace kube-system; empty where etcd has none.
	Cluster string `json:"cluster,omitempty"`
	// Encryption are the keys with which API servers could read at that time: one of them decrypts
	// every encrypted object in the backup. nil: they are not known.
	Encryption []encryption.KeyID `json:"encryption"`
}

// FactsKey is the key of a back-up's facts.
func FactsKey(backup string) string { return factsFolder + backup }

// ReadFacts reads the facts of a back-up; nil when there are none that can be read.
func ReadFacts(ctx context.Context, s store.Store, backup string) (*Facts, error) {
	return readSound[Facts](ctx, s, FactsKey(backup)) // they only ever help
}

// WriteFacts writes the facts of a back-up.
func WriteFacts(ctx context.Context, s store.Store, backup string, f Facts) error {
	if err := write(ctx, s, FactsKey(backup), f, store.PutOptions{}); err != nil {
		return fmt.Errorf("write the facts of the backup %s: %w", backup, err)
	}
	return nil
}

// LoneFacts lists the facts of back-ups that are not among those given: kOps' manager,
// which does not know of them, has removed their back-ups.
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

// BackupName returns the name of a backup; sequence distinguishes backups of one second.
func BackupName(at time.Time, sequence int) string {
	return fmt.Sprintf("%s-%06d", at.UTC().Format("2006-01-02T15:04:05Z"), sequence)
}

// Meta says what a back-up is of.
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

// ReadMeta reads what a back-up is of; the error is of class fault.Gone when there is no such back-up.
func ReadMeta(ctx context.Context, s store.Store, backup string) (Meta, error) {
	f, _, err := read[metaFile](ctx, s, backup+MetaName)
	if err != nil {
		return Meta{}, err
	}
	if f == nil {
		return Meta{}, fault.Wrap(fault.Gone, fmt.Errorf("there is no backup %s in %s", backup, s.About().URL), "list the backups, and use one of them")
	}
	return Meta{f.EtcdVersion, time.Unix(int64(f.Timestamp), 0), f.ClusterSpec}, nil
}

// ErrDamaged is in the chain of errors about an object whose content is not whole.
var ErrDamaged = errors.New("damaged")

// Useless reports whether an error of reading a back-up says that it is damaged or
// gone, and not only that the store could not be read.
func Useless(err error) bool { return fault.Is(err, fault.Gone) || errors.Is(err, ErrDamaged) }

// WriteMeta writes what a back-up is of.
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
			continue // digits that are no time
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

// clockSkew is how far ahead the clock of the machine that takes a back-up may be.
const clockSkew = 10 * time.Minute

// Future reports whether a back-up claims to have been taken later than now.
func (b Backup) Future(now time.Time) bool { return b.Time.Sub(now) > clockSkew }

// Credible returns the back-ups without those that claim to be from the future and that no
// manager of this store has recorded: somebody has put them there. Names of later back-ups
// must not continue from theirs.
func Credible(all []Backup, now time.Time) []Backup {
	return filter(all, func(b Backup) bool { return b.Recorded || !b.Future(now) })
}

// Retention says how long back-ups are kept: all for an hour, then the oldest
// of each hour for Hourly, then the oldest of each day (in UTC) for Daily.
type Retention struct{ Hourly, Daily time.Duration }

// DefaultRetention keeps a backup of each hour for a week and of each day for two years, as kOps'
// manager does by default.
func DefaultRetention() Retention {
	return Retention{Hourly: 7 * 24 * time.Hour, Daily: 2 * 365 * 24 * time.Hour}
}

// Expired returns the backups, oldest first, that are no longer kept. A backup that was not
// completed within the hour will never be: it is not kept for later, and least of all in the place
// of a complete one.
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
