package manager

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/store"
)

// singleMachine returns a world of one machine that forms a cluster, at the time when until becomes
// true.
func singleMachine(t *testing.T, until func(*world) bool) *world {
	t.Helper()
	w := newWorld(1, "a")
	if err := etcd.WriteSpec(t.Context(), w.objects, etcd.Spec{MemberCount: 1, EtcdVersion: "3.6.12"}); err != nil {
		t.Fatal(err)
	}
	for range 200 {
		if until(w) {
			return w
		}
		w.tick("a")
		w.now = w.now.Add(700 * time.Millisecond)
	}
	t.Fatal("the cluster did not form")
	return nil
}

// pass lets time pass, with a round every two seconds.
func (w *world) pass(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); w.now = w.now.Add(2 * time.Second) {
		w.tick("a")
	}
}

func (w *world) backups(t *testing.T) int {
	t.Helper()
	all, err := etcd.Backups(t.Context(), w.objects)
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func TestARequestIsMetOnceWhateverTheClock(t *testing.T) {
	for name, change := range map[string]func(*world){
		"in the same second": func(w *world) { w.now = w.now.Add(-700 * time.Millisecond) },
		"the second ends while it is taken": func(w *world) {
			w.machines["a"].manager.cfg.Now = func() time.Time { return w.now.Add(time.Second) }
		},
		"a leader one hour behind": func(w *world) {
			w.now = w.now.Add(-time.Hour)
			w.machines["a"].crashed = true
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := singleMachine(t, func(w *world) bool { return w.backups(t) > 0 })
			change(w)
			for want := 2; want < 5; want++ {
				if err := etcd.RequestBackup(t.Context(), w.objects, w.now); err != nil {
					t.Fatal(err)
				}
				before := w.now
				for w.backups(t) < want && w.now.Sub(before) < time.Minute {
					w.tick("a")
					w.now = w.now.Add(100 * time.Millisecond)
				}
				if got := w.backups(t); got != want {
					t.Fatalf("%d backups, not %d", got, want)
				}
			}
			w.pass(3 * time.Minute)
			if got := w.backups(t); got != 4 {
				t.Errorf("nobody asks, and there are %d backups, not 4", got)
			}
		})
	}
}

// A leader whose clock is behind takes as many backups as any other.
func TestAClockThatIsBehindTakesNoFewerAndNoMore(t *testing.T) {
	running := func(w *world) bool {
		r, err := etcd.ReadRecord(t.Context(), w.objects)
		return err == nil && r != nil && r.Phase == etcd.Running
	}
	for name, since := range map[string]func(*world) bool{
		"than the youngest backup": func(w *world) bool { return w.backups(t) > 0 },
		"than the founding":        running,
	} {
		t.Run(name, func(t *testing.T) {
			w := singleMachine(t, since)
			w.now = w.now.Add(-time.Hour)
			w.machines["a"].crashed = true
			w.pass(31 * time.Minute)
			if got := w.backups(t); got != 3 {
				t.Errorf("%d backups in half an hour, not the first and two more", got)
			}
		})
	}
}

// Without a spec, because it was removed, the manager still takes backups, and does not stop.
func TestWithoutASpecBackupsAreTaken(t *testing.T) {
	w := singleMachine(t, func(w *world) bool { return w.backups(t) > 0 })
	if err := w.objects.Delete(t.Context(), "control/etcd-cluster-spec", store.DeleteOptions{}); err != nil && !fault.Is(err, fault.Gone) {
		t.Fatal(err)
	}
	w.pass(31 * time.Minute)
	if got := w.backups(t); got != 3 {
		t.Errorf("%d backups in half an hour, not the first and two more", got)
	}
}

// A backup that is damaged or was removed cannot be restored; the running cluster
// continues, with its backups, and another restore can be requested.
func TestAnImpossibleRestoreLeavesTheClusterAlone(t *testing.T) {
	for name, spoil := range map[string]func(*world, string) error{
		"damaged": func(w *world, backup string) error {
			_, err := w.objects.Put(t.Context(), backup+etcd.SnapshotName, []byte("no snapshot"), store.PutOptions{})
			return err
		},
		"described by something else": func(w *world, backup string) error {
			_, err := w.objects.Put(t.Context(), backup+etcd.MetaName, []byte("no JSON"), store.PutOptions{})
			return err
		},
		"removed": func(w *world, backup string) error {
			return store.DeleteAll(t.Context(), w.objects, []string{backup + etcd.SnapshotName, backup + etcd.MetaName})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := singleMachine(t, func(w *world) bool { return w.backups(t) > 0 })
			w.pass(16 * time.Minute)
			all, err := etcd.Backups(t.Context(), w.objects)
			if err != nil {
				t.Fatal(err)
			}
			before := w.machines["a"].state
			_, err = etcd.RequestRestore(t.Context(), w.objects, all[0].Name, w.now)
			if err := errors.Join(err, spoil(w, all[0].Name)); err != nil {
				t.Fatal(err)
			}
			had := w.backups(t)
			w.pass(31 * time.Minute)
			if w.machines["a"].state != before || w.backups(t) != had+2 {
				t.Errorf("the state is %+v, was %+v; %d backups, were %d", w.machines["a"].state, before, w.backups(t), had)
			}
			if _, err := etcd.RequestRestore(t.Context(), w.objects, all[1].Name, w.now); err != nil {
				t.Fatal(err)
			}
			w.pass(2 * time.Minute)
			c, err := etcd.ReadControl(t.Context(), w.objects)
			if err != nil || c.Record.Backup != all[1].Name || c.Record.Phase != etcd.Running || len(c.Commands) > 0 {
				t.Errorf("after another was asked for: %+v, %v, %v", c.Record, c.Commands, err)
			}
		})
	}
}

// A store that cannot be reached, which some report as a permanent error, does not
// make a backup unusable.
func TestARestoreSurvivesAStoreThatFails(t *testing.T) {
	w := singleMachine(t, func(w *world) bool { return w.backups(t) > 0 })
	all, err := etcd.Backups(t.Context(), w.objects)
	if err != nil {
		t.Fatal(err)
	}
	m := w.machines["a"].manager
	m.cfg.Archive.Store = unreadableStore{m.cfg.Store}
	if _, err := etcd.RequestRestore(t.Context(), w.objects, all[0].Name, w.now); err != nil {
		t.Fatal(err)
	}
	w.pass(3 * time.Minute)
	m.cfg.Archive.Store = m.cfg.Store
	w.pass(2 * time.Minute)
	c, err := etcd.ReadControl(t.Context(), w.objects)
	if err != nil || c.Record.Backup != all[0].Name || c.Record.Phase != etcd.Running || len(c.Commands) > 0 {
		t.Errorf("once the store can be read: %+v, %v, %v", c.Record, c.Commands, err)
	}
}

// unreadableStore is a store whose snapshots cannot be read.
type unreadableStore struct{ store.Store }

func (u unreadableStore) Get(ctx context.Context, key string) ([]byte, store.Version, error) {
	if strings.HasSuffix(key, etcd.SnapshotName) {
		return nil, "", fault.New(fault.Permanent, "the connection is reset")
	}
	return u.Store.Get(ctx, key)
}

// A manager that waits for machines, which may take forever, does not read the
// store all the time: requests to a store cost money.
func TestWaitingCostsFewRequests(t *testing.T) {
	w := newWorld(1, "a")
	if err := etcd.WriteSpec(t.Context(), w.objects, etcd.Spec{MemberCount: 3, EtcdVersion: "3.6.12"}); err != nil {
		t.Fatal(err)
	}
	w.tick("a")
	first := w.requests
	for end := w.now.Add(10 * time.Minute); w.now.Before(end); {
		w.now = w.now.Add(w.tick("a"))
	}
	// Twenty times the record's fence and the control objects, and the initial reads.
	if most := 20*(first+1) + first; w.requests > most {
		t.Errorf("%d requests in ten minutes, and not %d", w.requests, most)
	}
}
