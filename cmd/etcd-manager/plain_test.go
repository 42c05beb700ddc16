package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/node/etcd/etcdtest"
)

// TestAClusterGoesFromTLSToNoneAndBack changes one machine after the other, as a rolling
// update does when the feature EtcdEventsHTTP is set, and unset again. No data is lost, and
// a majority of the members serves all the time.
func TestAClusterGoesFromTLSToNoneAndBack(t *testing.T) {
	t.Parallel()
	c := newCluster(t, etcd.Spec{MemberCount: 3, EtcdVersion: etcdtest.New}, "etcd-a", "etcd-b", "etcd-c")
	lap := stopwatch(t)
	c.startAll()
	c.awaitMembers(etcdtest.New, c.peers...)
	lap("a cluster of three formed, with TLS")
	for _, plain := range []bool{true, false} {
		for i, p := range c.peers {
			c.kill(p)
			other := c.peers[(i+1)%3]
			c.putKey(c.client(other), "/registry/events/without-"+p.id, "written")
			p.plain = plain
			c.start(p)
			c.awaitMembers(etcdtest.New, c.peers...)
			c.putKey(c.client(p), "/registry/events/"+p.id, p.scheme())
			for _, q := range c.peers {
				if got := c.get(c.client(q), "/registry/events/"+p.id); got != p.scheme() {
					t.Errorf("%s has %q of %s, which was written by %s", q.id, got, p.id, p.scheme())
				}
			}
			lap(p.id + " goes by " + p.scheme())
		}
		list, err := c.client(c.peers...).MemberList(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range list.Members {
			if want := c.peers[0].scheme(); !strings.HasPrefix(m.PeerURLs[0], want) || !strings.HasPrefix(m.ClientURLs[0], want) {
				t.Errorf("%s is at %v and %v, and not at %s", m.Name, m.PeerURLs, m.ClientURLs, want)
			}
		}
		for _, p := range c.peers {
			r, err := http.Get("http://127.0.0.1:" + p.client + "/health") // etcd closes the connection if it serves TLS
			if err == nil {
				_ = r.Body.Close()
			}
			if served := err == nil && r.StatusCode == http.StatusOK; served != plain {
				t.Errorf("the etcd of %s answers without TLS: %v, %v", p.id, served, err)
			}
		}
	}
	before := len(c.backups())
	c.eventually("a backup after all that", 30*time.Second, func() bool { return len(c.backups()) > before })
}
