package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/node/etcd/etcdtest"
)

// localTag is the prefix of the disks of a local cluster's machines.
const localTag = "demo.k8s.local--main--"

// newLocal prepares a cluster whose machines are registered, and use names.
func newLocal(t *testing.T, members int) *testCluster {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("SKIPPED, local machines are not tested: mounting a hosts file needs root")
	}
	c := newCluster(t, etcd.Spec{MemberCount: members, EtcdVersion: etcdtest.New})
	c.registry = c.path("machines")
	if err := os.Mkdir(c.registry, 0o755); err != nil {
		t.Fatal(err)
	}
	c.register("nodes-x1", "127.0.0.9", "node")
	return c
}

func (c *testCluster) register(machine, address, role string) {
	c.t.Helper()
	text := fmt.Sprintf(`{"name": %q, "address": %q, "labels": {"role": %q}}`, machine, address, role)
	if err := os.WriteFile(filepath.Join(c.registry, machine+".json"), []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// boot registers a machine with the disk of a member and starts its manager.
func (c *testCluster) boot(machine, address, member string) *testPeer {
	c.t.Helper()
	p := &testPeer{id: "etcd-" + member, machine: machine, host: address, hosts: c.path("hosts-" + machine), dir: filepath.Join(c.path("disks-"+member), localTag+member),
		grpc: "3996", peer: "2380", client: "4001", quarantine: "3994"}
	if err := os.WriteFile(p.hosts, []byte("127.0.0.1\tlocalhost\n"), 0o644); err != nil {
		c.t.Fatal(err)
	}
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		c.t.Fatal(err)
	}
	c.register(machine, address, "control-plane")
	c.peers = append(c.peers, p)
	c.start(p)
	return p
}

// unplug removes a machine; its disk stays.
func (c *testCluster) unplug(p *testPeer) {
	c.t.Helper()
	c.kill(p)
	if err := os.Remove(filepath.Join(c.registry, p.machine+".json")); err != nil {
		c.t.Fatal(err)
	}
	for i, q := range c.peers {
		if q == p {
			c.peers = append(c.peers[:i:i], c.peers[i+1:]...)
		}
	}
}

func TestALocalClusterOfOneIsSoonThere(t *testing.T) {
	t.Parallel()
	c := newLocal(t, 1)
	lap := stopwatch(t)
	a := c.boot("control-plane-a-x1", "127.0.78.9", "a")
	c.awaitMembers(etcdtest.New, a)
	lap("a local cluster of one formed, in the times of a manifest")
	c.putKey(c.client(a), "/registry/one", "1")

	if err := etcd.RequestBackup(t.Context(), c.store, time.Now()); err != nil {
		t.Fatal(err)
	}
	c.eventually("the backup that was asked for", 20*time.Second, func() bool { return len(c.backups()) > 0 }) // the first scheduled one is only taken after a minute
	lap("a backup was there after it was asked for")

	c.unplug(a)
	lap("")
	a = c.boot("control-plane-a-x2", "127.0.78.10", "a")
	c.awaitMembers(etcdtest.New, a)
	lap("its only machine was replaced by one of another name and address with the same disk")
	if got := c.get(c.client(a), "/registry/one"); got != "1" {
		t.Errorf("after the machine was replaced: %q", got)
	}
}

func TestLocalMachinesComeAndGo(t *testing.T) {
	t.Parallel()
	c := newLocal(t, 3)
	lap := stopwatch(t)
	a := c.boot("control-plane-a-x1", "127.0.78.1", "a")
	b := c.boot("control-plane-b-x1", "127.0.78.2", "b")
	x := c.boot("control-plane-c-x1", "127.0.78.3", "c")
	c.awaitClient(a, b, x)
	lap("the first of three local machines serves clients")
	c.awaitMembers(etcdtest.New, a, b, x)
	lap("and then all three do")
	c.putKey(c.client(a, b), "/registry/kept", "before")

	seat := c.seat(b, x.id)
	c.unplug(x)
	c.putKey(c.client(a, b), "/registry/kept", "while c was away")
	lap("")
	x = c.boot("control-plane-c-x2", "127.0.78.4", "c")
	c.awaitMembers(etcdtest.New, a, b, x)
	lap("a machine of another name and address took over the disk")
	if now := c.seat(b, x.id); now != seat {
		t.Errorf("its member was %x and is %x", seat, now)
	}
	c.eventually("the others know its new address", 10*time.Second, func() bool {
		return c.hasAddressOf(a, x) && c.hasAddressOf(b, x)
	})
	lap("and the others had its address")
	if got := c.get(c.client(x), "/registry/kept"); got != "while c was away" {
		t.Errorf("the member on the disk has %q", got)
	}

	dir := a.dir
	c.unplug(a) // the leader
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	seat = c.seat(b, "etcd-a")
	lap("")
	a = c.boot("control-plane-a-x2", "127.0.78.5", "a")
	c.awaitMembers(etcdtest.New, b, x, a)
	lap("the leader's machine was replaced, with an empty disk")
	if now := c.seat(b, a.id); now == seat {
		t.Error("an empty disk came back as the member whose data are lost")
	}
	if got := c.get(c.client(a), "/registry/kept"); got != "while c was away" {
		t.Errorf("the member on the empty disk has %q", got)
	}
}

// awaitClient waits until the etcd of one of the machines serves clients.
func (c *testCluster) awaitClient(peers ...*testPeer) {
	c.t.Helper()
	cli := c.client(peers...)
	c.putKey(cli, "/registry/first", "1")
}

// seat returns the ID of the member with a name.
func (c *testCluster) seat(at *testPeer, name string) uint64 {
	c.t.Helper()
	list, err := c.client(at).MemberList(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	for _, m := range list.Members {
		if m.Name == name {
			return m.ID
		}
	}
	c.t.Fatalf("no member is called %s", name)
	return 0
}

// hasAddressOf reports whether a machine has the address of another in its hosts file.
func (c *testCluster) hasAddressOf(at, p *testPeer) bool {
	text, err := os.ReadFile(at.hosts)
	if err != nil {
		c.t.Fatal(err)
	}
	return strings.Contains(string(text), p.host+"\t"+p.id+".internal.example.com\n")
}
