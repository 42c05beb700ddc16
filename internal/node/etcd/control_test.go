package etcd_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/store"
)

// put returns a store with objects.
func put(t *testing.T, objects map[string]string) store.Store {
	t.Helper()
	s := store.NewMemory("memory://etcd")
	for key, text := range objects {
		if _, err := s.Put(t.Context(), key, []byte(text), store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func text(t *testing.T, s store.Store, key string) string {
	t.Helper()
	data, _, err := s.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestObjectsThatOthersWriteAreRead(t *testing.T) {
	s := put(t, map[string]string{
		"control/etcd-cluster-spec":                         "{\n  \"memberCount\": 3,\n  \"etcdVersion\": \"3.6.12\"\n}",
		"control/etcd-cluster-created":                      `{"timestamp": 1785578400000000000}`,
		"control/2026-08-01T10:00:02Z-000000/_command.json": `{"timestamp":"1785578402000000000","restoreBackup":{"clusterSpec":{"memberCount":1,"etcdVersion":"3.5.31"},"backup":"2026-08-01T10:00:00Z-000001"}}`,
		"control/2026-08-01T10:00:01Z-000000/_command.json": `{"timestamp":1785578401000000000,"restoreBackup":{"clusterSpec":{"memberCount":3,"etcdVersion":"3.6.12"},"backup":"gone"}}`,
		"control/2026-08-01T10:00:03Z-000000/_command.json": `{"timestamp":"1785578403000000000","somethingNew":{}}`,
		"2026-08-01T10:00:00Z-000001" + etcd.MetaName:       `{"etcdVersion":"3.5.30","timestamp":"1785578400","clusterSpec":{"memberCount":3,"etcdVersion":"3.5.31"}}`,
	})
	c, err := etcd.ReadControl(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	want := etcd.Control{Spec: &etcd.Spec{MemberCount: 3, EtcdVersion: "3.6.12"}, Created: true, Commands: []etcd.Command{
		{Key: "control/2026-08-01T10:00:01Z-000000/_command.json", Time: time.Unix(1785578401, 0), Spec: etcd.Spec{MemberCount: 3, EtcdVersion: "3.6.12"}, Backup: "gone", Unusable: "there is no backup gone in memory://memory://etcd"},
		{Key: "control/2026-08-01T10:00:02Z-000000/_command.json", Time: time.Unix(1785578402, 0), Spec: etcd.Spec{MemberCount: 1, EtcdVersion: "3.5.31"},
			Backup: "2026-08-01T10:00:00Z-000001", BackupVersion: "3.5.30"},
	}}
	if d := cmp.Diff(want, c, cmpopts.IgnoreUnexported(etcd.Control{})); d != "" {
		t.Error(d)
	}
}

func TestAnUnreadableObjectIsNamed(t *testing.T) {
	s := put(t, map[string]string{"control/etcd-cluster-spec": "not JSON"})
	if _, err := etcd.ReadControl(t.Context(), s); err == nil || !strings.Contains(err.Error(), "memory://etcd/control/etcd-cluster-spec") {
		t.Errorf("the error is %v", err)
	}
}

func TestObjectsAreWrittenAsOthersReadThem(t *testing.T) {
	s := put(t, nil)
	at := time.Unix(1785578400, 5)
	if err := etcd.WriteSpec(t.Context(), s, etcd.Spec{MemberCount: 3, EtcdVersion: "3.6.12"}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second call changes nothing
		if err := etcd.WriteCreated(t.Context(), s, at); err != nil {
			t.Fatal(err)
		}
		at = at.Add(time.Hour)
	}
	meta := etcd.Meta{EtcdVersion: "3.6.12", Time: time.Unix(1785578400, 0), Spec: etcd.Spec{MemberCount: 1, EtcdVersion: "3.6.12"}}
	if err := etcd.WriteMeta(t.Context(), s, "b", meta); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"control/etcd-cluster-spec":    "{\n  \"memberCount\": 3,\n  \"etcdVersion\": \"3.6.12\"\n}",
		"control/etcd-cluster-created": "{\n  \"timestamp\": 1785578400000000005\n}",
		"b/_etcd_backup.meta":          "{\n  \"etcdVersion\": \"3.6.12\",\n  \"timestamp\": \"1785578400\",\n  \"clusterSpec\": {\n    \"memberCount\": 1,\n    \"etcdVersion\": \"3.6.12\"\n  }\n}",
	} {
		if d := cmp.Diff(want, text(t, s, key)); d != "" {
			t.Errorf("%s: %s", key, d)
		}
	}
	if got, err := etcd.ReadMeta(t.Context(), s, "b"); err != nil || got != meta {
		t.Errorf("read %v, %v", got, err)
	}
}

func TestARecordIsReplacedOnlyByItsReader(t *testing.T) {
	s := put(t, nil)
	first, err := etcd.ReadControl(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.SaveRecord(t.Context(), s, etcd.Record{Token: "A"}); err != nil {
		t.Fatal(err)
	}
	if err := first.SaveRecord(t.Context(), s, etcd.Record{Token: "B"}); !fault.Is(err, fault.Conflict) {
		t.Errorf("a second record in the place of none: %v", err)
	}
	second, err := etcd.ReadControl(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	third := second
	if err := second.SaveRecord(t.Context(), s, etcd.Record{Token: "C"}); err != nil {
		t.Fatal(err)
	}
	if err := third.SaveRecord(t.Context(), s, etcd.Record{Token: "D"}); !fault.Is(err, fault.Conflict) {
		t.Errorf("a record in the place of another than was read: %v", err)
	}
	if r, err := etcd.ReadRecord(t.Context(), s); err != nil || r.Token != "C" {
		t.Errorf("the record is %v, %v", r, err)
	}
}

func TestARestoreIsRequestedOfABackupThatExists(t *testing.T) {
	now := time.Date(2026, 8, 1, 11, 0, 0, 0, time.UTC)
	s := put(t, map[string]string{"control/etcd-cluster-spec": `{"memberCount":3,"etcdVersion":"3.6.12"}`})
	if _, err := etcd.RequestRestore(t.Context(), s, "2026-08-01T10:00:00Z-000001", now); !fault.Is(err, fault.Gone) || fault.Remedy(err) == "" {
		t.Errorf("of one that does not exist: %v", err)
	}
	if err := etcd.WriteMeta(t.Context(), s, "2026-08-01T10:00:00Z-000001", etcd.Meta{EtcdVersion: "3.5.30", Time: now}); err != nil {
		t.Fatal(err)
	}
	key, err := etcd.RequestRestore(t.Context(), s, "2026-08-01T10:00:00Z-000001", now)
	if err != nil {
		t.Fatal(err)
	}
	if key != "control/2026-08-01T11:00:00Z-000000/_command.json" || !strings.Contains(text(t, s, key), `"timestamp": "1785582000000000000"`) {
		t.Errorf("%s is %s", key, text(t, s, key))
	}
	c, err := etcd.ReadControl(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	want := []etcd.Command{{Key: key, Time: now, Spec: etcd.Spec{MemberCount: 3, EtcdVersion: "3.6.12"}, Backup: "2026-08-01T10:00:00Z-000001", BackupVersion: "3.5.30"}}
	if d := cmp.Diff(want, c.Commands); d != "" {
		t.Error(d)
	}
	later, err := etcd.RequestRestore(t.Context(), s, "2026-08-01T10:00:00Z-000001", now.Add(time.Millisecond))
	if c, failed := etcd.ReadControl(t.Context(), s); err != nil || failed != nil || len(c.Commands) != 2 || c.Commands[1].Key != later {
		t.Errorf("another within the same second is %s, %v, among %v, %v", later, err, c.Commands, failed)
	}
	if err := errors.Join(etcd.DeleteCommand(t.Context(), s, key), etcd.DeleteCommand(t.Context(), s, later)); err != nil {
		t.Fatal(err)
	}
	if c, err = etcd.ReadControl(t.Context(), s); err != nil || len(c.Commands) > 0 {
		t.Errorf("commands %v, %v", c.Commands, err)
	}
}

func TestBackupsAreListed(t *testing.T) {
	s := put(t, map[string]string{
		"2026-08-01T10:15:00Z-000042/etcd.backup.gz":    "12345",
		"2026-08-01T10:15:00Z-000042/_etcd_backup.meta": "{}",
		"2026-08-01T10:00:00Z-000041/etcd.backup.gz":    "123",
		"2026-08-01/etcd.backup.gz":                     "of another program",
		"control/etcd-cluster-spec":                     "{}",
	})
	got, err := etcd.Backups(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	want := []etcd.Backup{
		{Name: "2026-08-01T10:00:00Z-000041", Time: time.Date(2026, 8, 1, 10, 0, 0, 0, time.UTC), Size: 3, Version: store.Version(store.Digest([]byte("123")))},
		{Name: "2026-08-01T10:15:00Z-000042", Time: time.Date(2026, 8, 1, 10, 15, 0, 0, time.UTC), Size: 5, Version: store.Version(store.Digest([]byte("12345"))), Complete: true},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if name := etcd.BackupName(want[1].Time.In(time.FixedZone("", 7200)), 42); name != want[1].Name {
		t.Errorf("the name is %s", name)
	}
}

// TestRetention keeps every quarter of an hour for an hour, the first of each hour
// for three hours, and the first of each day for two days; and no incomplete
// backup that is older than an hour.
func TestRetention(t *testing.T) {
	now := time.Date(2026, 8, 3, 12, 0, 0, 0, time.UTC)
	var all []etcd.Backup
	for at := now.Add(-60 * time.Hour); at.Before(now); at = at.Add(15 * time.Minute) {
		half := etcd.Backup{Name: etcd.BackupName(at.Add(-time.Second), 1), Time: at.Add(-time.Second)}
		all = append(all, half, etcd.Backup{Name: etcd.BackupName(at, 1), Time: at, Complete: true})
	}
	expired := map[string]bool{}
	for _, b := range (etcd.Retention{Hourly: 3 * time.Hour, Daily: 48 * time.Hour}).Expired(all, now) {
		expired[b.Name] = true
	}
	var kept []string
	halves := 0
	for _, b := range all {
		if !expired[b.Name] && !b.Complete {
			halves++
		} else if !expired[b.Name] {
			kept = append(kept, b.Time.Format("02 15:04"))
		}
	}
	want := []string{"01 12:15", "02 00:00", "03 00:00", "03 09:15", "03 10:00", "03 11:00", "03 11:15", "03 11:30", "03 11:45"}
	if halves != 3 {
		t.Errorf("%d that are not whole are kept, not the 3 of the last hour", halves)
	}
	if d := cmp.Diff(want, kept); d != "" {
		t.Error(d)
	}
}

func TestClaims(t *testing.T) {
	for _, x := range []struct {
		name    string
		claim   etcd.Claim
		healthy []string
		want    string
	}{
		{"agreed", etcd.Claim{Leader: "a", Peers: []string{"a", "b"}}, []string{"a", "b"}, ""},
		{"the leader knows more", etcd.Claim{Leader: "a", Peers: []string{"a", "b", "c"}}, []string{"b"}, ""},
		{"the leader knows less", etcd.Claim{Leader: "b", Peers: []string{"b", "c"}}, []string{"a", "b", "c"}, "b does not know of a"},
		{"not the first", etcd.Claim{Leader: "b", Peers: []string{"a", "b"}}, []string{"b"}, "a leads, not b"},
		{"not of the party", etcd.Claim{Leader: "b", Peers: []string{"a"}}, []string{"a"}, "the claim of b does not name itself"},
	} {
		err := x.claim.Check(x.healthy)
		if (err == nil) != (x.want == "") || err != nil && err.Error() != x.want {
			t.Errorf("%s: %v, want %q", x.name, err, x.want)
		}
	}
}

func TestPick(t *testing.T) {
	available := []string{"3.5.31", "3.6.9", "3.6.12", "3.7.0", "odd"}
	for want, got := range map[string]string{"3.6.9": "3.6.9", "3.6.4": "3.6.12", "3.6.13": "", "3.4.0": "", "odd": "odd", "x": ""} {
		if v, ok := etcd.Pick(available, want); v != got || ok != (got != "") {
			t.Errorf("%s is served by %q, want %q", want, v, got)
		}
	}
}

func TestTheRosterRemembersContacts(t *testing.T) {
	var r etcd.Roster
	now := time.Unix(1000, 0)
	r.RecordMention(etcd.Sighting{ID: "c", Endpoint: "c:1"})
	r.RecordContact("b", "b:1", now)
	r.RecordContact("a", "a:1", now.Add(-time.Minute))
	r.RecordMention(etcd.Sighting{ID: "a", Endpoint: "elsewhere:1"}) // which it has heard itself
	if d := cmp.Diff([]etcd.Sighting{{ID: "b", Endpoint: "b:1", At: now}}, r.Since(now.Add(-time.Second))); d != "" {
		t.Error(d)
	}
	if all := r.Since(time.Time{}); len(all) != 3 || all[0].Endpoint != "a:1" || all[2].Endpoint != "c:1" {
		t.Errorf("all are %v", all)
	}
	r.Forget(now)
	if all := r.Since(time.Time{}); len(all) != 1 || all[0].ID != "b" {
		t.Errorf("after some were forgotten: %v", all)
	}
}
