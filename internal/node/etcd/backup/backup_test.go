package backup_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/node/etcd/backup"
	"kops.local/kops/internal/node/etcd/etcdtest"
	"kops.local/kops/internal/store"
)

// source is a Source that writes a snapshot in small pieces.
type source []byte

func (s source) Snapshot(_ context.Context, w io.Writer) (backup.Origin, error) {
	for len(s) > 0 {
		n := min(701, len(s))
		if _, err := w.Write(s[:n]); err != nil {
			return backup.Origin{}, err
		}
		s = s[n:]
	}
	return backup.Origin{EtcdVersion: "3.6.12", Revision: 3, Keys: 2}, nil
}

// newSnapshot returns a snapshot of two keys.
func newSnapshot(t *testing.T) source {
	return etcdtest.Snapshot(t, "/registry/namespaces/default", "/registry/namespaces/kube-system")
}

func archive(t *testing.T, now *time.Time) *backup.Archive {
	return &backup.Archive{Store: store.NewMemory("memory://etcd"), Retention: etcd.Retention{Hourly: 2 * time.Hour, Daily: 48 * time.Hour},
		Now: func() time.Time { return *now }, Scratch: t.TempDir()}
}

func TestATakenBackupCanBeFetched(t *testing.T) {
	now := time.Date(2026, 8, 1, 10, 15, 0, 0, time.UTC)
	a := archive(t, &now)
	spec := etcd.Spec{MemberCount: 3, EtcdVersion: "3.6.12"}
	made, facts, err := a.Take(t.Context(), newSnapshot(t), spec, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	name := made.Name
	if name != "2026-08-01T10:15:00Z-000001" {
		t.Errorf("the name is %s", name)
	}
	if all, err := etcd.Backups(t.Context(), a.Store); err != nil || len(all) != 1 || all[0] != made {
		t.Errorf("what was taken is %v, and what is listed %v, %v", made, all, err)
	}
	meta, err := etcd.ReadMeta(t.Context(), a.Store, name)
	if err != nil || meta.EtcdVersion != "3.6.12" || meta.Spec != spec || !meta.Time.Equal(now) {
		t.Errorf("it is described as %v, %v", meta, err)
	}
	file := filepath.Join(t.TempDir(), "snapshot")
	c, err := a.Fetch(t.Context(), name, file)
	if err != nil || c.Keys != facts.Keys || c.Revision != facts.Revision {
		t.Fatal(c, facts, err)
	}
	got, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(got, newSnapshot(t)) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info, err)
	}
	if latest, _, err := a.Latest(t.Context()); err != nil || !latest.Equal(now) {
		t.Errorf("the latest is of %v, %v", latest, err)
	}
}

func TestABackupIsLaterThanAllOthers(t *testing.T) {
	start := time.Date(2026, 8, 1, 10, 15, 0, 999e6, time.UTC)
	now := start
	a := archive(t, &now)
	for _, x := range []struct {
		what         string
		clock, since time.Duration
		want         string
	}{
		{"the first", 0, -time.Hour, "2026-08-01T10:15:00Z-000001"},
		{"in the same second", 0, -time.Hour, "2026-08-01T10:15:01Z-000002"},
		{"in the next second", time.Second, -time.Hour, "2026-08-01T10:15:02Z-000003"},
		{"by a clock one hour behind", -time.Hour, -time.Hour, "2026-08-01T10:15:03Z-000004"},
		{"by a clock behind the founding", -time.Hour, time.Minute, "2026-08-01T10:16:00Z-000005"},
		{"by a clock that is right again", 2 * time.Minute, time.Minute, "2026-08-01T10:17:00Z-000006"},
	} {
		now = start.Add(x.clock)
		b, _, err := a.Take(t.Context(), newSnapshot(t), etcd.Spec{}, start.Add(x.since))
		if err != nil || b.Name != x.want {
			t.Errorf("%s: %s, %v; want %s", x.what, b.Name, err, x.want)
		}
		if latest, _, err := a.Latest(t.Context()); err != nil || latest != b.Time {
			t.Errorf("%s: taken at %v, and the latest is of %v, %v", x.what, b.Time, latest, err)
		}
		if meta, err := etcd.ReadMeta(t.Context(), a.Store, b.Name); err != nil || !meta.Time.Equal(b.Time) {
			t.Errorf("%s: taken at %v, and described as of %v, %v", x.what, b.Time, meta.Time, err)
		}
	}
}

func TestADamagedSnapshotIsNotStored(t *testing.T) {
	now := time.Now()
	for name, s := range map[string]source{
		"a changed byte": append(source{'x'}, newSnapshot(t)[1:]...),
		"cut short":      newSnapshot(t)[:1000],
		"without digest": newSnapshot(t)[:4096],
		"empty":          {},
	} {
		a := archive(t, &now)
		if _, _, err := a.Take(t.Context(), s, etcd.Spec{}, time.Time{}); err == nil {
			t.Errorf("%s: it was taken", name)
		}
		if all, err := etcd.Backups(t.Context(), a.Store); err != nil || len(all) > 0 {
			t.Errorf("%s: the store has %v, %v", name, all, err)
		}
	}
}

// A damaged backup is reported before anything is given up for it: ours at a glance, by the facts
// recorded when it was taken; kOps' by its content.
func TestADamagedBackupIsNotFetched(t *testing.T) {
	now := time.Now()
	good := newSnapshot(t)
	packed := etcdtest.Packed(t, good)
	other := etcdtest.Packed(t, etcdtest.Snapshot(t, "another"))
	noDatabase := bytes.Repeat([]byte("etcd"), 256)
	sum := sha256.Sum256(noDatabase)
	overwritten := slices.Clone(packed)
	copy(overwritten[len(overwritten)/2:], "fourteen bytes")
	for what, x := range map[string]struct {
		data               []byte
		ours, kops, glance bool // whether it is found damaged: one with facts, one without, and at a glance
	}{
		"as it was taken":                {packed, false, false, false},
		"overwritten":                    {overwritten, true, true, true},
		"no gzip":                        {[]byte("text"), true, true, true},
		"cut short":                      {packed[:len(packed)-20], true, true, true},
		"of another cluster":             {other, true, false, false},
		"with a wrong digest of its own": {etcdtest.Packed(t, append(slices.Clone(good[:len(good)-1]), good[len(good)-1]^1)), true, true, true},
		"no database":                    {etcdtest.Packed(t, append(noDatabase, sum[:]...)), true, true, false},
	} {
		a := archive(t, &now)
		b, facts, err := a.Take(t.Context(), good, etcd.Spec{}, time.Time{})
		if err != nil || facts.Keys != 2 || facts.Revision != 3 {
			t.Fatal(facts, err)
		}
		if _, err := a.Store.Put(t.Context(), b.Name+etcd.SnapshotName, x.data, store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		check := func(whose string, damaged, glance bool) {
			t.Helper()
			c, err := a.Verify(t.Context(), b.Name)
			if errors.Is(err, etcd.ErrDamaged) != damaged || damaged && (!fault.Is(err, fault.Permanent) || fault.Remedy(err) == "") {
				t.Errorf("%s, %s: verified with %v", what, whose, err)
			}
			if !damaged && what != "of another cluster" && (c.Keys != 2 || c.Revision != 3) {
				t.Errorf("%s, %s: it holds %+v", what, whose, c)
			}
			if left, err := os.ReadDir(a.Scratch); err != nil || len(left) > 0 {
				t.Errorf("%s, %s: left are %v, %v", what, whose, left, err)
			}
			all, err := etcd.Backups(t.Context(), a.Store)
			if err != nil || len(all) != 1 {
				t.Fatal(all, err)
			}
			if _, err := backup.Inspect(t.Context(), a.Store, all[0]); errors.Is(err, etcd.ErrDamaged) != glance {
				t.Errorf("%s, %s: at a glance %v", what, whose, err)
			}
		}
		check("ours", x.ours, x.ours)
		if err := a.Store.Delete(t.Context(), etcd.FactsKey(b.Name), store.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		check("kOps'", x.kops, x.glance)
	}
	a := archive(t, &now)
	if _, err := a.Verify(t.Context(), "2026-08-01T10:15:00Z-000042"); !fault.Is(err, fault.Gone) {
		t.Errorf("one that is not there: %v", err)
	}
}

// A small object must not fill a disk.
func TestABackupUnpacksToWhatItWas(t *testing.T) {
	now := time.Now()
	a := archive(t, &now)
	good := newSnapshot(t)
	b, facts, err := a.Take(t.Context(), good, etcd.Spec{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	facts.Unpacked--
	if err := etcd.WriteFacts(t.Context(), a.Store, b.Name, facts); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Verify(t.Context(), b.Name); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("more than %d bytes", len(good)-1)) {
		t.Errorf("verified with %v", err)
	}
}

func TestOldBackupsAreRemovedOnceAnHour(t *testing.T) {
	now := time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)
	a := archive(t, &now)
	most := 0
	for range 5 * 24 * 4 {
		if _, _, err := a.Take(t.Context(), newSnapshot(t), etcd.Spec{}, time.Time{}); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Clean(t.Context()); err != nil {
			t.Fatal(err)
		}
		all, err := etcd.Backups(t.Context(), a.Store)
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, len(all))
		now = now.Add(15 * time.Minute)
	}
	// Four quarter-hours, the one about to be removed, two hours and three days.
	if most < 8 || most > 14 {
		t.Errorf("up to %d backups were kept", most)
	}
}

// versioned keeps versions, and records the objects all of whose versions were to be removed.
type versioned struct {
	store.Store
	purged *[]string
}

func (v versioned) About() store.About {
	about := v.Store.About()
	about.Purge = func(ctx context.Context, keys []string) error {
		*v.purged = append(*v.purged, keys...)
		return store.DeleteAll(ctx, v.Store, keys)
	}
	return about
}

// Otherwise a bucket that keeps versions would grow forever.
func TestOldBackupsGoWithTheirVersions(t *testing.T) {
	now := time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)
	a := archive(t, &now)
	var purged []string
	a.Store = versioned{a.Store, &purged}
	old, _, err := a.Take(t.Context(), newSnapshot(t), etcd.Spec{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(72 * time.Hour)
	if n, err := a.Clean(t.Context()); n != 1 || err != nil {
		t.Fatalf("%d were removed, %v", n, err)
	}
	if want := []string{old.Name + etcd.MetaName, old.Name + etcd.SnapshotName, etcd.FactsKey(old.Name)}; !slices.Equal(purged, want) {
		t.Errorf("without versions are %q", purged)
	}
}
