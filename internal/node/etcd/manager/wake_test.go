package manager

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/node/etcd/peer"
	"kops.local/kops/internal/store"
)

func TestNewPeersAreHandledAtOnce(t *testing.T) {
	w := newWorld(1, "a")
	w.tick("a")
	m := w.machines["a"].manager
	greet := func() bool {
		t.Helper()
		if _, err := m.Hello(t.Context(), peer.Hello{Cluster: "etcd", Peer: etcd.Peer{ID: "z", Endpoint: "z:3996"}}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-m.wakeups:
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
	w.now = w.now.Add(m.cfg.Times.PeerTimeout + time.Second)
	if !greet() {
		t.Error("a peer that was gone wakes nobody")
	}
}

// A cluster that was replaced by another is stopped soon after the store, which
// was unreachable when it was due to be read, can be read again.
func TestAReplacedClusterIsStoppedOnceTheStoreIsBack(t *testing.T) {
	w := singleMachine(t, func(w *world) bool { return w.backups(t) > 0 })
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
	if err := w.objects.Delete(t.Context(), ".kops/cluster", store.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.pass(time.Minute)
	if r, err := etcd.ReadRecord(t.Context(), w.objects); err != nil || r == nil || r.Token != m.state.Token || !m.running {
		t.Errorf("after the record was removed, as is advised, etcd runs: %v; the record is %+v, %v", m.running, r, err)
	}
}

// The store names another cluster than the data on a disk that kOps' manager has used since.
// etcd is not started, but the data are not discarded either: it is started once the record
// has been removed.
func TestWhatTheStoreDoesNotKnowIsNotStarted(t *testing.T) {
	w := newWorld(1, "a")
	m := w.machines["a"]
	c, err := etcd.ReadControl(t.Context(), w.objects)
	if err == nil {
		err = errors.Join(etcd.WriteSpec(t.Context(), w.objects, etcd.Spec{MemberCount: 1, EtcdVersion: "3.6.12"}), etcd.WriteCreated(t.Context(), w.objects, w.now),
			c.SaveRecord(t.Context(), w.objects, etcd.Record{Token: "OLD", Phase: etcd.Running, Founder: "a", Version: "3.6.12"}))
	}
	if err != nil {
		t.Fatal(err)
	}
	w.clusters["NEW"] = &cluster{token: "NEW", members: []*member{{id: "1", peer: "a", name: "a"}}, nextID: 2}
	m.state = etcd.State{Token: "NEW", Seat: "1", Version: "3.6.12", Started: true}
	before := m.state
	for _, w.storeOff = range []bool{false, true} { // what was once known stays valid even if the store cannot be read
		w.pass(5 * time.Minute)
		if m.running || m.state != before {
			t.Fatalf("etcd runs: %v, and the disk holds %+v", m.running, m.state)
		}
	}
	w.storeBack()
	if err := w.objects.Delete(t.Context(), ".kops/cluster", store.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.pass(5 * time.Minute)
	r, err := etcd.ReadRecord(t.Context(), w.objects)
	if err != nil || r == nil || r.Token != "NEW" || !m.running {
		t.Errorf("etcd runs: %v; the record is %+v, %v", m.running, r, err)
	}
}

// A machine on which kOps' manager runs does not answer; the etcd there must be reachable by name.
func TestTheNamesOfThoseWhoDoNotAnswerAreKnown(t *testing.T) {
	w := newWorld(1, "a")
	m := w.machines["a"].manager
	m.cfg.Discovery = peer.Named{{Endpoint: "10.0.0.9:3996"}, {ID: "a", Endpoint: "10.0.0.1:3996"}, {ID: "b", Endpoint: "10.0.0.2:3996"}, {ID: "b", Endpoint: "10.9.0.2:3996"}, {ID: "c", Endpoint: "10.0.0.3:3996"}}
	var at map[string]string
	m.cfg.Hosts = func(ctx context.Context, to map[string]string) error {
		if _, bound := ctx.Deadline(); !bound {
			t.Error("a name that nobody answers for is waited for without an end")
		}
		at = to
		return nil
	}
	m.recordHello(peer.Hello{Cluster: "etcd", Peer: etcd.Peer{ID: "c"}}, "10.0.1.3:3996")
	w.pass(time.Second)
	if want := map[string]string{"a": endpoint("a"), "b": "10.0.0.2:3996", "c": "10.0.1.3:3996"}; !maps.Equal(at, want) {
		t.Errorf("they are at %v, want %v", at, want)
	}
	w.pass(2 * DefaultTimes().PeerTimeout)
	if want := map[string]string{"a": endpoint("a"), "b": "10.0.0.2:3996", "c": "10.0.0.3:3996"}; !maps.Equal(at, want) {
		t.Errorf("when c is not heard any more, they are at %v, want %v", at, want)
	}
}

// renewing is an etcd whose certificates cannot be written at first.
type renewing struct {
	*machine
	tries int
}

func (r *renewing) RenewCertificates() error {
	if r.tries++; r.tries == 1 {
		return errors.New("no space left on device")
	}
	return nil
}

func TestCertificatesThatCouldNotBeRenewedAreTriedAgain(t *testing.T) {
	w := newWorld(1, "a")
	m := w.machines["a"]
	local := &renewing{machine: m}
	m.manager.cfg.Local = local
	w.pass(3 * time.Minute)
	if local.tries < 2 {
		t.Errorf("their renewal was tried %d times", local.tries)
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
		m.Wake() // counts as one call
	}
	cancel()
	<-ended
}

// discovery finds no managers, and is called on each search.
type discovery func()

func (d discovery) Discover(context.Context) ([]etcd.Sighting, error) { d(); return nil, nil }
