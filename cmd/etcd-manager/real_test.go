package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/node/etcd/etcdtest"
)

func TestOneMemberSurvivesKillsAndTheLossOfItsDisk(t *testing.T) {
	t.Parallel()
	c := newCluster(t, etcd.Spec{MemberCount: 1, EtcdVersion: etcdtest.New}, "etcd-a")
	a := c.peers[0]
	start := time.Now()
	c.start(a)
	c.awaitMembers(etcdtest.New, a)
	t.Logf("a cluster of one formed in %s", time.Since(start).Round(time.Millisecond))
	cli := c.client(a)
	c.putKey(cli, "/registry/one", "1")

	pid, _ := a.etcdPID()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	took := c.eventually("etcd runs again", 10*time.Second, func() bool { now, ok := a.etcdPID(); return ok && now != pid })
	t.Logf("etcd, killed, was started again after %s", took.Round(time.Millisecond))
	if got := c.get(cli, "/registry/one"); got != "1" {
		t.Errorf("after etcd was killed: %q", got)
	}
	c.kill(a)
	c.start(a)
	c.awaitMembers(etcdtest.New, a)
	if got := c.get(cli, "/registry/one"); got != "1" {
		t.Errorf("after the manager was killed: %q", got)
	}

	c.eventually("a backup is there", 10*time.Second, func() bool { return len(c.backups()) > 0 })
	c.kill(a)
	if err := os.RemoveAll(a.dir); err != nil {
		t.Fatal(err)
	}
	c.start(a)
	time.Sleep(2 * time.Second)
	if _, err := os.Stat(filepath.Join(a.dir, "data")); err == nil {
		t.Fatal("an empty cluster was made in the place of one that was lost")
	}
	list := c.backups()
	start = time.Now()
	if _, err := etcd.RequestRestore(t.Context(), c.store, list[len(list)-1], time.Now()); err != nil {
		t.Fatal(err)
	}
	c.awaitMembers(etcdtest.New, a)
	t.Logf("a cluster of one restored in %s", time.Since(start).Round(time.Millisecond))
}

func TestThreeMembersHealAndAreRestored(t *testing.T) {
	t.Parallel()
	c := newCluster(t, etcd.Spec{MemberCount: 3, EtcdVersion: etcdtest.New}, "etcd-a", "etcd-b", "etcd-c")
	lap := stopwatch(t)
	c.startAll()
	c.awaitMembers(etcdtest.New, c.peers...)
	lap("a cluster of three formed")
	a, b, x := c.peers[0], c.peers[1], c.peers[2]
	cli := c.client(a, b)
	c.putKey(cli, "/registry/kept", "before")

	if err := os.RemoveAll(filepath.Join(x.dir, "data")); err != nil {
		t.Fatal(err)
	}
	lap("")
	c.eventually("the seat of the lost data is given up", 10*time.Second, func() bool { return c.hasNewMember(a, x) })
	c.awaitMembers(etcdtest.New, a, b, x)
	lap("a member whose data were wiped was back")

	c.destroy(x)
	c.peers = c.peers[:2]
	d := c.add("etcd-d")
	lap("")
	c.start(d)
	c.awaitMembers(etcdtest.New, a, b, d)
	lap("a lost machine was replaced by one of another name (3 s of which to give it up)")
	if got := c.get(c.client(d), "/registry/kept"); got != "before" {
		t.Errorf("the new member has %q", got)
	}

	c.putKey(cli, "/registry/kept", "backed up")
	backup := c.nextBackup()
	c.putKey(cli, "/registry/kept", "after the backup")
	for _, p := range c.peers {
		c.destroy(p)
	}
	if _, err := etcd.RequestRestore(t.Context(), c.store, backup, time.Now()); err != nil {
		t.Fatal(err)
	}
	lap("")
	c.startAll()
	c.awaitMembers(etcdtest.New, c.peers...)
	lap("three empty machines were restored from a backup")
	if got := c.get(c.client(c.peers...), "/registry/kept"); got != "backed up" {
		t.Errorf("after the restore: %q", got)
	}
}

// TestVersionChangesUpAndDownWithoutALostWrite passes through the intermediate version, both ways.
func TestVersionChangesUpAndDownWithoutALostWrite(t *testing.T) {
	t.Parallel()
	c := newCluster(t, etcd.Spec{MemberCount: 3, EtcdVersion: etcdtest.Old}, "etcd-a", "etcd-b", "etcd-c")
	c.startAll()
	c.awaitMembers(etcdtest.Old, c.peers...)
	for _, version := range []string{etcdtest.Newest, etcdtest.Old} {
		lap := stopwatch(t)
		w := c.writeOn(c.peers...)
		if err := etcd.WriteSpec(t.Context(), c.store, etcd.Spec{MemberCount: 3, EtcdVersion: version}); err != nil {
			t.Fatal(err)
		}
		c.awaitMembers(version, c.peers...)
		lap("three members changed to etcd " + version)
		w.stop()
		t.Logf("%d writes meanwhile, %d failed, longest gap %s", len(w.acknowledged), w.failed, w.gap.Round(time.Millisecond))
		c.expectKeys(w.acknowledged)
	}
}

// TestMachinesAreIdentifiedByNames gives each manager its own address and the ports of a
// manifest: members know each other by names, which the managers write to a hosts
// file that is a mount, as in a pod.
func TestMachinesAreIdentifiedByNames(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("SKIPPED, names are not tested: mounting a hosts file needs root")
	}
	c := newCluster(t, etcd.Spec{MemberCount: 3, EtcdVersion: etcdtest.New}, "etcd-a", "etcd-b", "etcd-c")
	for i, p := range c.peers {
		p.host, p.hosts = fmt.Sprintf("127.0.77.%d", i+1), c.path("hosts-"+p.id)
		p.grpc, p.peer, p.client, p.quarantine = "3996", "2380", "4001", "3994"
		if err := os.WriteFile(p.hosts, []byte("127.0.0.1\tlocalhost\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c.startAll()
	c.awaitMembers(etcdtest.New, c.peers...)
	list, err := c.client(c.peers[0]).MemberList(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list.Members {
		if want := "https://" + m.Name + ".internal.example.com:"; m.PeerURLs[0] != want+"2380" || m.ClientURLs[0] != want+"4001" {
			t.Errorf("%s is at %v and %v", m.Name, m.PeerURLs, m.ClientURLs)
		}
	}
	text, err := os.ReadFile(c.peers[2].hosts)
	if err != nil || !strings.Contains(string(text), "127.0.77.1\tetcd-a.internal.example.com\n") || !strings.HasPrefix(string(text), "127.0.0.1\tlocalhost\n") {
		t.Errorf("the hosts of etcd-c are %s, %v", text, err)
	}
}

// stopwatch logs the time since its last call; an empty text only restarts it.
func stopwatch(t *testing.T) func(what string) {
	start := time.Now()
	return func(what string) {
		t.Helper()
		if what != "" {
			t.Logf("%s: %s", what, time.Since(start).Round(time.Millisecond))
		}
		start = time.Now()
	}
}

// expectKeys checks that every key exists.
func (c *testCluster) expectKeys(keys map[string]bool) {
	c.t.Helper()
	cli := c.client(c.peers...)
	r, err := cli.Get(c.t.Context(), "/registry/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		c.t.Fatal(err)
	}
	there := map[string]bool{}
	for _, kv := range r.Kvs {
		there[string(kv.Key)] = true
	}
	for key := range keys {
		if !there[key] {
			c.t.Errorf("the write of %s was acknowledged, and is lost", key)
		}
	}
}

// hasNewMember reports whether a machine has no member, or one that is newer than its first.
func (c *testCluster) hasNewMember(at, p *testPeer) bool {
	list, err := c.client(at).MemberList(c.t.Context())
	if err != nil {
		return false
	}
	for _, m := range list.Members {
		if m.Name == p.id && !m.IsLearner {
			return false
		}
	}
	return true
}

// nextBackup returns a back-up that was started after the call: the second one from now.
func (c *testCluster) nextBackup() string {
	c.t.Helper()
	before := len(c.backups())
	c.eventually("two more backups", 20*time.Second, func() bool { return len(c.backups()) > before+1 })
	return c.backups()[before+1]
}

// writer writes keys one after the other, and records which were acknowledged.
type writer struct {
	cancel       context.CancelFunc
	stopped      sync.WaitGroup
	acknowledged map[string]bool
	failed       int
	gap          time.Duration
}

func (c *testCluster) writeOn(peers ...*testPeer) *writer {
	ctx, cancel := context.WithCancel(c.t.Context())
	w := &writer{cancel: cancel, acknowledged: map[string]bool{}}
	cli := c.client(peers...)
	w.stopped.Go(func() {
		last := time.Now()
		for i := 0; ctx.Err() == nil; i++ {
			key := time.Now().Format("/registry/150405.000000000")
			one, cancel := context.WithTimeout(ctx, time.Second)
			_, err := cli.Put(one, key, key)
			cancel()
			if err != nil {
				w.failed++
				continue
			}
			time.Sleep(2 * time.Millisecond) // to yield to the others on this machine
			w.acknowledged[key] = true
			w.gap, last = max(w.gap, time.Since(last)), time.Now()
		}
	})
	return w
}

func (w *writer) stop() {
	w.cancel()
	w.stopped.Wait()
}
