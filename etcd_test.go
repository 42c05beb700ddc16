package kops_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"kops.local/kops"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/node/etcd/backup"
	"kops.local/kops/internal/node/etcd/etcdtest"
	"kops.local/kops/internal/ops/health"
	"kops.local/kops/internal/store"
)

// takesBackup stores a backup of an etcd cluster as its managers do, and returns its name.
func (b *bench) takesBackup(etcdName string, keys ...string) string {
	b.Helper()
	return b.storesBackup(etcdName, etcdtest.Packed(b, etcdtest.Snapshot(b, append(keys, "/registry/namespaces/default")...)))
}

// storesBackup stores a backup with a compressed snapshot, as kOps' managers do.
func (b *bench) storesBackup(etcdName string, packed []byte) string {
	b.Helper()
	s := b.etcdStore(etcdName)
	backup := etcd.BackupName(b.now, 1)
	_, err := s.Put(b.Context(), backup+etcd.SnapshotName, packed, store.PutOptions{})
	if err == nil {
		err = etcd.WriteMeta(b.Context(), s, backup, etcd.Meta{EtcdVersion: "3.6.12", Time: b.now, Spec: etcd.Spec{MemberCount: 1, EtcdVersion: "3.6.12"}})
	}
	if err != nil {
		b.Fatal(err)
	}
	return backup
}

// etcdStore returns the store of an etcd cluster's managers.
func (b *bench) etcdStore(etcdName string) store.Store {
	b.Helper()
	s, err := b.stores().Open(b.Context(), b.cfg.Store.URL+"/"+name+"/backups/etcd/"+etcdName)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func TestBackupsOfEtcd(t *testing.T) {
	b := newAppliedBench(t)
	first := b.takesBackup("main")
	b.now = b.now.Add(time.Hour)
	second := b.takesBackup("main")
	events := b.takesBackup("events")
	if _, err := b.etcdStore("main").Put(t.Context(), etcd.BackupName(b.now, 9)+etcd.SnapshotName, []byte("half"), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	names := func(of string) []string {
		t.Helper()
		list, err := b.Etcd().Backups(t.Context(), name, of)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, x := range list {
			if x.EtcdVersion != "3.6.12" || x.MemberCount != 1 || x.Size == 0 || x.Damaged || x.Empty {
				t.Errorf("%+v", x)
			}
			out = append(out, x.Etcd+" "+x.Name)
		}
		return out
	}
	if got := names(""); !slices.Equal(got, []string{"main " + first, "main " + second, "events " + events}) {
		t.Errorf("the backups are %q", got)
	}
	if got := names("events"); !slices.Equal(got, []string{"events " + events}) {
		t.Errorf("those of events are %q", got)
	}
}

// One damaged backup must not make the others inaccessible.
func TestADamagedBackupDoesNotHideTheOthers(t *testing.T) {
	b := newAppliedBench(t)
	first := b.takesBackup("main")
	b.now = b.now.Add(time.Hour)
	damaged := b.takesBackup("main")
	if _, err := b.etcdStore("main").Put(t.Context(), damaged+etcd.MetaName, []byte("{"), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	list, err := b.Etcd().Backups(t.Context(), name, "main")
	if err != nil || len(list) != 2 || list[0].Name != first || list[0].Damaged || list[1].Name != damaged || !list[1].Damaged {
		t.Errorf("the backups are %+v, %v", list, err)
	}
	latest, err := b.Etcd().Restore(t.Context(), name, "main", kops.LatestBackup, kops.RestoreEtcdOptions{Apply: true})
	if err != nil || latest.Backup.Name != first || !latest.Requested {
		t.Errorf("the restore of the latest: %+v, %v", latest, err)
	}
	_, err = b.Etcd().Restore(t.Context(), name, "main", damaged, kops.RestoreEtcdOptions{})
	expectTexts(t, err, damaged, "damaged")
}

func TestARestoreIsRequestedUnderTheLease(t *testing.T) {
	b := newAppliedBench(t)
	first := b.takesBackup("main")
	b.now = b.now.Add(time.Hour)
	b.takesBackup("main")
	b.now = b.now.Add(time.Minute)
	preview, err := b.Etcd().Restore(t.Context(), name, "main", first, kops.RestoreEtcdOptions{})
	if err != nil || preview.Age != 61*time.Minute || preview.Younger != 1 || preview.Requested {
		t.Errorf("%+v, %v", preview, err)
	}
	commands := func() []etcd.Command {
		t.Helper()
		c, err := etcd.ReadControl(t.Context(), b.etcdStore("main"))
		if err != nil {
			t.Fatal(err)
		}
		return c.Commands
	}
	if got := commands(); len(got) > 0 {
		t.Errorf("a preview wrote %v", got)
	}
	planned := func(e kops.Event) error {
		if e.Kind != kops.EventRestore {
			return nil
		}
		_, err := b.Update(t.Context(), name, kops.UpdateOptions{Apply: true})
		expectRefusal(t, err, "jane", "laptop")
		return nil
	}
	done, err := b.Etcd().Restore(t.Context(), name, "main", first, kops.RestoreEtcdOptions{Apply: true, On: planned})
	if err != nil || !done.Requested {
		t.Fatalf("%+v, %v", done, err)
	}
	if got := commands(); len(got) != 1 || got[0].Backup != first || got[0].BackupVersion != "3.6.12" {
		t.Errorf("the commands are %v", got)
	}
	history, err := b.Clusters().Revisions(t.Context(), name)
	if err != nil || !strings.Contains(history[0].Message, first) {
		t.Errorf("the history is %v, %v", history, err)
	}
	again, err := b.Etcd().Restore(t.Context(), name, "main", kops.LatestBackup, kops.RestoreEtcdOptions{})
	if err != nil || !slices.Equal(again.Pending, []string{first}) || again.Younger != 0 {
		t.Errorf("%+v, %v", again, err)
	}
	_, err = b.Etcd().Restore(t.Context(), name, "main", strings.Replace(first, "-000001", "-000002", 1), kops.RestoreEtcdOptions{Apply: true})
	if !fault.Is(err, fault.Gone) || len(commands()) != 1 {
		t.Errorf("a backup that is not there: %v", err)
	}
	_, err = b.Etcd().Restore(t.Context(), name, "", first, kops.RestoreEtcdOptions{})
	expectTexts(t, err, "main or events")
}

func TestABackupIsWaitedFor(t *testing.T) {
	b := newAppliedBench(t)
	b.takesBackup("main")
	looks := 0
	c := b.client(func(cfg *kops.Config) {
		cfg.World.Sleep = func(_ context.Context, d time.Duration) error {
			b.now = b.now.Add(d)
			if looks++; looks == 5 {
				control, err := etcd.ReadControl(t.Context(), b.etcdStore("main"))
				if err != nil || control.BackupAfter == nil || !control.BackupAfter.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) {
					t.Errorf("asked for is a backup after %v, %v", control.BackupAfter, err)
				}
				b.takesBackup("main")
			}
			return nil
		}
	})
	made, err := c.Etcd().BackUp(t.Context(), name, "main", time.Minute)
	if err != nil || looks != 5 || !made.Time.Equal(b.now.Truncate(time.Second)) {
		t.Errorf("%+v after %d looks, %v", made, looks, err)
	}
	if _, err := c.Etcd().BackUp(t.Context(), name, "main", time.Minute); !fault.Is(err, fault.NotYet) {
		t.Errorf("nobody takes it: %v", err)
	}
}

// The cluster is ready until the managers begin: only they can report when it is restored.
func TestARestoreIsWaitedFor(t *testing.T) {
	b := newAppliedBench(t)
	first := b.takesBackup("main")
	looks, managers := 0, func(etcd.Command) {}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	c := b.client(func(cfg *kops.Config) {
		cfg.World.Sleep = func(ctx context.Context, d time.Duration) error {
			if d > time.Second { // until the lease is renewed
				<-ctx.Done()
				return ctx.Err()
			}
			b.now = b.now.Add(d)
			control, err := etcd.ReadControl(t.Context(), b.etcdStore("main"))
			if looks++; err != nil || len(control.Commands) == 0 {
				t.Errorf("while it is waited for the commands are %v, %v", control.Commands, err)
			} else if looks == 5 {
				managers(control.Commands[len(control.Commands)-1])
			}
			return ctx.Err()
		}
	})
	restore := func(ctx context.Context, wait time.Duration) (*kops.EtcdRestore, error) {
		t.Helper()
		looks, b.now = 0, b.now.Add(time.Minute)
		awaited := false
		r, err := c.Etcd().Restore(ctx, name, "main", first, kops.RestoreEtcdOptions{Apply: true, Wait: wait, On: func(e kops.Event) error {
			awaited = awaited || e.Kind == kops.EventAwaiting
			return nil
		}})
		if awaited != (wait > 0) || !r.Requested {
			t.Errorf("waits: %t; %+v", awaited, r)
		}
		return r, err
	}
	if r, err := restore(ctx, 0); err != nil || r.Restored || looks > 0 {
		t.Errorf("nobody waits: %+v after %d looks, %v", r, looks, err)
	}
	if r, err := restore(ctx, 10*time.Second); !fault.Is(err, fault.NotYet) || r.Restored || looks != 20 || !strings.Contains(fault.Remedy(err), "/control/") {
		t.Errorf("nobody restores it: %+v after %d looks, %v; %s", r, looks, err, fault.Remedy(err))
	}
	managers = func(asked etcd.Command) {
		if err := etcd.DeleteCommand(t.Context(), b.etcdStore("main"), asked.Key); err != nil {
			t.Error(err)
		}
	}
	if r, err := restore(ctx, time.Minute); err != nil || !r.Restored || r.Serving || looks < 60 || !strings.Contains(r.NotServing, "no API server was ready within 1m0s") {
		t.Errorf("%+v after %d looks, %v", r, looks, err)
	}
	managers = func(asked etcd.Command) {
		err := etcd.WriteRefusal(t.Context(), b.etcdStore("main"), etcd.Refusal{Command: asked.Key, Backup: first, Why: "it was damaged", At: b.now})
		if err := errors.Join(err, etcd.DeleteCommand(t.Context(), b.etcdStore("main"), asked.Key)); err != nil {
			t.Error(err)
		}
	}
	if r, err := restore(ctx, time.Minute); !fault.Is(err, fault.Permanent) || r.Restored || looks != 5 || !strings.Contains(err.Error(), "it was damaged") || strings.Contains(fault.Remedy(err), "until the restore is done") {
		t.Errorf("of a backup that the managers refuse: %+v after %d looks, %v", r, looks, err)
	}
	if d, err := c.Diagnose(ctx, name, kops.DiagnoseOptions{}); err != nil || !slices.ContainsFunc(d.Failures, func(f health.Failure) bool { return f.Kind == "Etcd" && strings.Contains(f.Message, "it was damaged") }) {
		t.Errorf("doctor does not tell of it: %+v, %v", d, err)
	}
	b.takesBackup("main")
	managers = func(etcd.Command) { interrupt() }
	first = kops.LatestBackup
	if _, err := restore(ctx, time.Minute); !errors.Is(err, context.Canceled) || !strings.Contains(fault.Remedy(err), "until the restore is done") {
		t.Errorf("interrupted: %v; %s", err, fault.Remedy(err))
	}
}

// The latest backup is the most recent one that is not empty: others are restored only by name.
func TestTheLatestBackupIsWholeAndHoldsKeys(t *testing.T) {
	b := newAppliedBench(t)
	restore := func(from string) (*kops.EtcdRestore, error) {
		t.Helper()
		b.now = b.now.Add(time.Minute)
		return b.Etcd().Restore(t.Context(), name, "main", from, kops.RestoreEtcdOptions{})
	}
	later := func() { b.now = b.now.Add(time.Hour) }
	nothing := b.storesBackup("main", etcdtest.Packed(t, etcdtest.Snapshot(t)))
	_, err := restore(kops.LatestBackup)
	expectTexts(t, err, nothing, "no keys")
	if !strings.Contains(fault.Remedy(err), "specify it") {
		t.Errorf("the remedy is %s", fault.Remedy(err))
	}
	if r, err := restore(nothing); err != nil || !r.Backup.Empty {
		t.Errorf("by its name: %+v, %v", r, err)
	}
	later()
	good := b.takesBackup("main")
	later()
	packed := etcdtest.Packed(t, etcdtest.Snapshot(t, "/registry/namespaces/default"))
	copy(packed[len(packed)/2:], "fourteen bytes")
	damaged := b.storesBackup("main", packed)
	later()
	founding := b.storesBackup("main", etcdtest.Packed(t, etcdtest.Snapshot(t)))
	if err := etcd.WriteFacts(t.Context(), b.etcdStore("main"), founding, etcd.Facts{Size: 1}); err != nil {
		t.Fatal(err)
	}
	later()
	empty, _, err := (&backup.Archive{Store: b.etcdStore("main"), Now: func() time.Time { return b.now }}).Take(t.Context(), origin(etcdtest.Snapshot(t)), etcd.Spec{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	list, err := b.Etcd().Backups(t.Context(), name, "main")
	if err != nil || len(list) != 5 || list[1].Damaged || !list[2].Damaged || !list[3].Damaged || !strings.Contains(list[3].Problem, "had 1 when it was taken") || !list[4].Empty {
		t.Errorf("the list is %+v, %v", list, err)
	}
	r, err := restore(kops.LatestBackup)
	if err != nil || r.Backup.Name != good || len(r.Skipped) != 3 || r.Skipped[0] != (kops.SkippedBackup{Name: empty.Name, Why: "it holds no keys"}) {
		t.Errorf("%+v, %v", r, err)
	}
	_, err = restore(damaged)
	expectTexts(t, err, damaged, "damaged")
	if fault.Of(err) != fault.Permanent {
		t.Errorf("the class is %v", fault.Of(err))
	}
}

// origin creates a snapshot without keys.
type origin []byte

func (o origin) Snapshot(_ context.Context, w io.Writer) (backup.Origin, error) {
	_, err := w.Write(o)
	return backup.Origin{EtcdVersion: "3.6.12", Revision: 1}, err
}
