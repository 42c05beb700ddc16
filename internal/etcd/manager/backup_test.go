package manager

import (
	"testing"
	"time"

	"kops.local/kops/internal/etcd"
)

// alone is a world of one machine that forms a cluster, at the time when until holds.
func alone(t *testing.T, until func(*world) bool) *world {
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

// pass lets time go by, with a round every two seconds.
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
			w := alone(t, func(w *world) bool { return w.backups(t) > 0 })
			change(w)
			for want := 2; want < 5; want++ {
				if err := etcd.RequestBackup(t.Context(), w.objects); err != nil {
					t.Fatal(err)
				}
				before := w.now
				for w.backups(t) < want && w.now.Sub(before) < time.Minute {
					w.tick("a")
					w.now = w.now.Add(100 * time.Millisecond)
				}
				if got := w.backups(t); got != want {
					t.Fatalf("%d back-ups, not %d", got, want)
				}
			}
			w.pass(3 * time.Minute)
			if got := w.backups(t); got != 4 {
				t.Errorf("nobody asks, and there are %d back-ups, not 4", got)
			}
		})
	}
}

// A leader whose clock is behind takes them as often as any other.
func TestAClockThatIsBehindTakesNoFewerAndNoMore(t *testing.T) {
	running := func(w *world) bool {
		r, err := etcd.ReadRecord(t.Context(), w.objects)
		return err == nil && r != nil && r.Phase == etcd.Running
	}
	for name, since := range map[string]func(*world) bool{
		"than the youngest back-up": func(w *world) bool { return w.backups(t) > 0 },
		"than the founding":         running,
	} {
		t.Run(name, func(t *testing.T) {
			w := alone(t, since)
			w.now = w.now.Add(-time.Hour)
			w.machines["a"].crashed = true
			w.pass(31 * time.Minute)
			if got := w.backups(t); got != 3 {
				t.Errorf("%d back-ups in half an hour, not the first and two more", got)
			}
		})
	}
}
