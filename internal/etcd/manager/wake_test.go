package manager

import (
	"context"
	"testing"
	"time"

	"kops.local/kops/internal/etcd"
	"kops.local/kops/internal/etcd/peer"
)

func TestWhoIsNewIsAttendedToAtOnce(t *testing.T) {
	w := newWorld(1, "a")
	w.tick("a")
	m := w.machines["a"].manager
	greet := func() bool {
		t.Helper()
		if _, err := m.Hello(t.Context(), peer.Hello{Cluster: "etcd", Peer: etcd.Peer{ID: "z", Endpoint: "z:3996"}}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-m.woken:
			return true
		default:
			return false
		}
	}
	if !greet() {
		t.Error("a peer that nobody knew wakes nobody")
	}
	w.now = w.now.Add(m.cfg.Times.Meet)
	if greet() {
		t.Error("a peer that is well known wakes the manager each time")
	}
	w.now = w.now.Add(m.cfg.Times.Heard + time.Second)
	if !greet() {
		t.Error("a peer that was gone wakes nobody")
	}
}

// A cluster that was replaced by another is stopped soon after the store, which
// failed when it was to be asked, can be read again.
func TestAReplacedClusterIsStoppedOnceTheStoreIsBack(t *testing.T) {
	w := alone(t, func(w *world) bool { return w.backups(t) > 0 })
	m := w.machines["a"]
	for before := m.manager.fenced; m.manager.fenced.Equal(before); {
		w.pass(time.Second)
	}
	c, err := etcd.ReadControl(t.Context(), w.objects)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SaveRecord(t.Context(), w.objects, etcd.Record{Token: "another", Phase: etcd.Running, Founder: "b", Version: "3.6.12"}); err != nil {
		t.Fatal(err)
	}
	w.pass(DefaultTimes().Control - 6*time.Second)
	w.storeOff = true
	w.pass(10 * time.Second)
	if m.state.Stopped {
		t.Fatal("it is stopped, though nobody could know")
	}
	w.storeBack()
	w.pass(2 * DefaultTimes().Meet)
	if !m.state.Stopped {
		t.Error("the cluster that was replaced still runs")
	}
}

func TestAWokenManagerLooksForOthers(t *testing.T) {
	w := newWorld(1, "a")
	m := w.machines["a"].manager
	looks := make(chan struct{}, 100)
	m.cfg.Discovery = discovery(func() { looks <- struct{}{} })
	m.cfg.Now, m.started = time.Now, time.Now().Add(-time.Hour) // no longer young
	m.cfg.Times.Meet, m.cfg.Times.Discover, m.cfg.Times.Soon = time.Hour, time.Hour, time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); m.Run(ctx) }()
	for range 3 {
		select {
		case <-looks:
		case <-time.After(10 * time.Second):
			t.Fatal("nobody looked")
		}
		m.Wake()
		m.Wake() // as good as one
	}
	cancel()
	<-ended
}

// discovery finds nobody, and tells that it looked.
type discovery func()

func (d discovery) Discover(context.Context) ([]string, error) { d(); return nil, nil }
