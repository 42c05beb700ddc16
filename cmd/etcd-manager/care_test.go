package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/node/etcd/etcdtest"
)

// requestMembers requests members by name, as an update does.
func (c *testCluster) requestMembers(peers ...*testPeer) {
	c.t.Helper()
	var names []string
	for _, p := range peers {
		names = append(names, p.id)
	}
	err := etcd.WriteSeats(c.t.Context(), c.store, names)
	if err == nil {
		err = etcd.WriteSpec(c.t.Context(), c.store, etcd.Spec{MemberCount: len(names), EtcdVersion: etcdtest.New})
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// TestMembersGrowMoveAndShrink is 1 → 3, three to three others, and 3 → 1, while a client writes.
func TestMembersGrowMoveAndShrink(t *testing.T) {
	t.Parallel()
	c := newCluster(t, etcd.Spec{MemberCount: 1, EtcdVersion: etcdtest.New}, "etcd-a", "etcd-b", "etcd-c", "etcd-d", "etcd-e")
	all := c.peers
	for _, p := range all {
		c.requestMembers(all[0])
		c.start(p)
	}
	c.awaitMembers(etcdtest.New, all[0])
	for _, step := range []struct {
		what string
		to   []*testPeer
		// at are the machines that serve all the time.
		at []*testPeer
	}{
		{"one becomes three", []*testPeer{all[0], all[1], all[2]}, all[:1]},
		{"two of three move", []*testPeer{all[2], all[3], all[4]}, all[2:3]},
		{"three become one, the last", []*testPeer{all[4]}, all[4:]},
		{"one moves", []*testPeer{all[0]}, all},
	} {
		w := c.writeOn(step.at...)
		lap := stopwatch(t)
		c.requestMembers(step.to...)
		c.awaitMembers(etcdtest.New, step.to...)
		lap(step.what)
		w.stop()
		t.Logf("%d writes meanwhile, %d failed, longest gap %s", len(w.acknowledged), w.failed, w.gap.Round(time.Millisecond))
		cli := c.client(step.to...)
		for key := range w.acknowledged {
			if c.get(cli, key) != key {
				t.Errorf("%s: the write of %s was acknowledged, and is lost", step.what, key)
			}
		}
		if w.gap > 3*time.Second {
			t.Errorf("%s: nothing was written for %s", step.what, w.gap)
		}
	}
}

// ask requests a task and returns the answer.
func (c *testCluster) ask(r etcd.Request) etcd.Answer {
	c.t.Helper()
	r.ID, r.At = fmt.Sprint(time.Now().UnixNano()), time.Now()
	if err := etcd.Ask(c.t.Context(), c.store, r); err != nil {
		c.t.Fatal(err)
	}
	var a *etcd.Answer
	c.eventually("an answer to "+string(r.Task), time.Minute, func() bool {
		var err error
		if a, err = etcd.ReadAnswer(c.t.Context(), c.store); err != nil {
			c.t.Fatal(err)
		}
		return a != nil && a.Request == r.ID && a.Done
	})
	return *a
}

// status waits until the status reported by the managers satisfies ok.
func (c *testCluster) status(what string, ok func(*etcd.Status) bool) *etcd.Status {
	c.t.Helper()
	var s *etcd.Status
	c.eventually("a status: "+what, 30*time.Second, func() bool {
		var err error
		if s, err = etcd.ReadStatus(c.t.Context(), c.store); err != nil {
			c.t.Fatal(err)
		}
		return s != nil && ok(s)
	})
	return s
}

// TestAFullDatabaseIsDefragmented fills a database until etcd refuses writes, and defragments it.
func TestAFullDatabaseIsDefragmented(t *testing.T) {
	t.Parallel()
	c := newCluster(t, etcd.Spec{MemberCount: 3, EtcdVersion: etcdtest.New}, "etcd-a", "etcd-b", "etcd-c")
	if err := os.WriteFile(c.path("quota"), []byte("ETCD_QUOTA_BACKEND_BYTES=16777216\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range c.peers {
		p.more = []string{"--env-file=" + c.path("quota")}
	}
	c.startAll()
	c.awaitMembers(etcdtest.New, c.peers...)
	cli := c.client(c.peers...)
	value := strings.Repeat("x", 1<<18) // so that the database is nearly full when a write is refused
	full := func() bool { _, err := cli.Put(t.Context(), "/registry/big", value); return err != nil }
	c.eventually("etcd is full", 30*time.Second, full)
	s := c.status("an alarm", func(s *etcd.Status) bool {
		return len(s.Members) == 3 && strings.Contains(fmt.Sprint(s.Members), etcd.NoSpace)
	})
	t.Logf("%+v", s.Members)
	if a := c.ask(etcd.Request{Task: etcd.DisarmAlarms}); !strings.Contains(a.Problem, "defragment first") {
		t.Errorf("alarms of a full etcd: %+v", a)
	}
	lap := stopwatch(t)
	a := c.ask(etcd.Request{Task: etcd.Defragment})
	lap("three members were defragmented")
	if a.Problem != "" || len(a.Members) != 3 {
		t.Fatalf("the answer is %+v", a)
	}
	var largest int64
	for _, m := range a.Members {
		if m.After >= m.Before/2 || m.Before < 4<<20 {
			t.Errorf("%s had %d bytes, and has %d", m.Name, m.Before, m.After)
		}
		largest = max(largest, m.Before)
	}
	if largest < 12<<20 { // one full member makes the cluster full; others may have reused space
		t.Errorf("the largest database had %d bytes", largest)
	}
	a = c.ask(etcd.Request{Task: etcd.DisarmAlarms})
	if a.Problem != "" || len(a.Disarmed) == 0 || !strings.HasPrefix(a.Disarmed[0], etcd.NoSpace) {
		t.Errorf("the alarms: %+v", a)
	}
	c.putKey(cli, "/registry/again", "1")
	c.status("no alarm", func(s *etcd.Status) bool { return !strings.Contains(fmt.Sprint(s.Members), etcd.NoSpace) })
	c.kill(c.peers[2])
	c.status("a member is not well", func(s *etcd.Status) bool { return len(s.Members) == 3 && !s.Members[2].Healthy })
	if a := c.ask(etcd.Request{Task: etcd.Defragment}); len(a.Members) > 0 || !strings.Contains(a.Problem, "etcd-c is unhealthy") {
		t.Errorf("with a member that is not well: %+v", a)
	}
}

// TestADrill restores a back-up beside the cluster, which keeps running.
func TestADrill(t *testing.T) {
	t.Parallel()
	c := newCluster(t, etcd.Spec{MemberCount: 1, EtcdVersion: etcdtest.New}, "etcd-a")
	c.startAll()
	c.awaitMembers(etcdtest.New, c.peers...)
	cli := c.client(c.peers...)
	for i := range 1000 {
		c.putKey(cli, fmt.Sprintf("/registry/pods/%04d", i), "1")
	}
	if err := etcd.RequestBackup(t.Context(), c.store, time.Now()); err != nil {
		t.Fatal(err)
	}
	backup := c.nextBackup()
	at, err := cli.Get(t.Context(), "/registry/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		t.Fatal(err)
	}
	c.putKey(cli, "/registry/pods/0000", "2")
	c.putKey(cli, "/registry/pods/new", "1")
	c.putKey(cli, "/registry/pods/new2", "1")
	if _, err := cli.Delete(t.Context(), "/registry/pods/0999"); err != nil {
		t.Fatal(err)
	}
	a := c.ask(etcd.Request{Task: etcd.Drill, Backup: backup})
	d := a.Drill
	if a.Problem != "" || d == nil {
		t.Fatalf("%+v", a)
	}
	t.Logf("%+v", *d)
	if d.Keys != at.Count || d.Changed != 1 || d.Made != 2 || d.Deleted != 1 || d.Same != 998 || len(d.Wrong) > 0 || d.Revision != at.Header.Revision {
		t.Errorf("the drill found %+v", *d)
	}
	if _, err := os.Stat(c.peers[0].dir + "/drill"); err == nil {
		t.Error("what was restored is still there")
	}
	if a := c.ask(etcd.Request{Task: etcd.Drill, Backup: "2020-01-01T00:00:00Z-000001"}); a.Problem == "" || a.Drill == nil {
		t.Errorf("of a backup that does not exist: %+v", a)
	}
}
