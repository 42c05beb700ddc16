package backup_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"kops.local/kops/internal/etcd"
	"kops.local/kops/internal/etcd/backup"
	"kops.local/kops/internal/fault"
	"kops.local/kops/internal/store"
)

// source gives a snapshot, in small pieces.
type source []byte

func (s source) Snapshot(_ context.Context, w io.Writer) (string, error) {
	for len(s) > 0 {
		n := min(7, len(s))
		if _, err := w.Write(s[:n]); err != nil {
			return "", err
		}
		s = s[n:]
	}
	return "3.6.12", nil
}

// snapshot is two pages and their digest.
func snapshot() source {
	data := bytes.Repeat([]byte("etcd"), 256)
	sum := sha256.Sum256(data)
	return append(data, sum[:]...)
}

func archive(now *time.Time) *backup.Archive {
	return &backup.Archive{Store: store.NewMemory("memory://etcd"), Retention: etcd.Retention{Hourly: 2 * time.Hour, Daily: 48 * time.Hour},
		Now: func() time.Time { return *now }}
}

func TestWhatIsTakenIsFetched(t *testing.T) {
	now := time.Date(2026, 8, 1, 10, 15, 0, 0, time.UTC)
	a := archive(&now)
	spec := etcd.Spec{MemberCount: 3, EtcdVersion: "3.6.12"}
	taken, err := a.Take(t.Context(), snapshot(), spec, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	name := taken.Name
	if name != "2026-08-01T10:15:00Z-000001" {
		t.Errorf("the name is %s", name)
	}
	if all, err := etcd.Backups(t.Context(), a.Store); err != nil || len(all) != 1 || all[0] != taken {
		t.Errorf("what was taken is %v, and what is listed %v, %v", taken, all, err)
	}
	meta, err := etcd.ReadMeta(t.Context(), a.Store, name)
	if err != nil || meta.EtcdVersion != "3.6.12" || meta.Spec != spec || !meta.Time.Equal(now) {
		t.Errorf("it is described as %v, %v", meta, err)
	}
	file := filepath.Join(t.TempDir(), "snapshot")
	if err := a.Fetch(t.Context(), name, file); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(got, snapshot()) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info, err)
	}
	if latest, err := a.Latest(t.Context()); err != nil || !latest.Equal(now) {
		t.Errorf("the latest is of %v, %v", latest, err)
	}
}

func TestABackupIsLaterThanAllOthers(t *testing.T) {
	start := time.Date(2026, 8, 1, 10, 15, 0, 999e6, time.UTC)
	now := start
	a := archive(&now)
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
		b, err := a.Take(t.Context(), snapshot(), etcd.Spec{}, start.Add(x.since))
		if err != nil || b.Name != x.want {
			t.Errorf("%s: %s, %v; want %s", x.what, b.Name, err, x.want)
		}
		if latest, err := a.Latest(t.Context()); err != nil || latest != b.Time {
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
		"a changed byte": append(source{'x'}, snapshot()[1:]...),
		"cut short":      snapshot()[:1000],
		"without digest": snapshot()[:1024],
		"empty":          {},
	} {
		a := archive(&now)
		if _, err := a.Take(t.Context(), s, etcd.Spec{}, time.Time{}); err == nil {
			t.Errorf("%s: it was taken", name)
		}
		if all, err := etcd.Backups(t.Context(), a.Store); err != nil || len(all) > 0 {
			t.Errorf("%s: the store has %v, %v", name, all, err)
		}
	}
}

func TestADamagedBackupIsNotFetched(t *testing.T) {
	now := time.Now()
	a := archive(&now)
	taken, err := a.Take(t.Context(), snapshot(), etcd.Spec{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	name := taken.Name
	var damaged bytes.Buffer
	zip := gzip.NewWriter(&damaged)
	_, err = zip.Write(append([]byte{'x'}, snapshot()[1:]...))
	if err != nil || zip.Close() != nil {
		t.Fatal(err)
	}
	for what, data := range map[string][]byte{"another content": damaged.Bytes(), "no gzip": []byte("text"), "cut short": damaged.Bytes()[:20]} {
		if _, err := a.Store.Put(t.Context(), name+etcd.SnapshotName, data, store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := a.Verify(t.Context(), name); !fault.Is(err, fault.Permanent) || fault.Remedy(err) == "" {
			t.Errorf("%s: verified with %v", what, err)
		}
		file := filepath.Join(t.TempDir(), "snapshot")
		if err := a.Fetch(t.Context(), name, file); err == nil {
			t.Errorf("%s: it was fetched", what)
		}
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%s: a file is left", what)
		}
	}
	if err := a.Verify(t.Context(), "2026-08-01T10:15:00Z-000042"); !fault.Is(err, fault.Gone) {
		t.Errorf("one that is not there: %v", err)
	}
}

func TestOldBackupsAreRemovedOnceAnHour(t *testing.T) {
	now := time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)
	a := archive(&now)
	most := 0
	for range 5 * 24 * 4 {
		if _, err := a.Take(t.Context(), snapshot(), etcd.Spec{}, time.Time{}); err != nil {
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
	// An hour of quarters, the one that is about to go, two hours and three days.
	if most < 8 || most > 14 {
		t.Errorf("up to %d back-ups were kept", most)
	}
}

// versioned keeps versions, and remembers of which objects none was to be left.
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

// A bucket that keeps versions would otherwise grow for ever.
func TestOldBackupsGoWithTheirVersions(t *testing.T) {
	now := time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)
	a := archive(&now)
	var purged []string
	a.Store = versioned{a.Store, &purged}
	old, err := a.Take(t.Context(), snapshot(), etcd.Spec{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(72 * time.Hour)
	if n, err := a.Clean(t.Context()); n != 1 || err != nil {
		t.Fatalf("%d were removed, %v", n, err)
	}
	if want := []string{old.Name + etcd.MetaName, old.Name + etcd.SnapshotName}; !slices.Equal(purged, want) {
		t.Errorf("without versions are %q", purged)
	}
}
