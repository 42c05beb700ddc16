package main

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/node/etcd/etcdtest"
)

// TestMetricsOfManagersAndEtcd queries all endpoints that a manifest can enable.
func TestMetricsOfManagersAndEtcd(t *testing.T) {
	t.Parallel()
	c := newCluster(t, etcd.Spec{MemberCount: 3, EtcdVersion: etcdtest.New}, "etcd-a", "etcd-b", "etcd-c")
	own, etcds := map[*testPeer]string{}, map[*testPeer]string{}
	for _, p := range c.peers {
		own[p], etcds[p] = freePort(t), freePort(t)
		p.more = []string{"--etcd-manager-metrics-port=" + own[p], "--listen-metrics-urls=http://127.0.0.1:" + etcds[p]}
	}
	c.startAll()
	c.awaitMembers(etcdtest.New, c.peers...)
	a, b, x := c.peers[0], c.peers[1], c.peers[2]
	var lead map[string]float64
	c.eventually("the leader tells of three members and a backup", 30*time.Second, func() bool {
		lead = scrape(t, own[a])
		return lead[`etcd_manager_backups_total{cluster="etcd"}`] > 0 && sum(lead, "etcd_manager_member_votes{") == 3 && sum(lead, "etcd_manager_member_healthy{") == 3
	})
	for name, want := range map[string]float64{"leads": 1, "peers": 3, "members_wanted": 3, "etcd_seated": 1, "etcd_quarantined": 0, "backup_failures_total": 0} {
		if got, ok := lead[fmt.Sprintf("etcd_manager_%s{cluster=\"etcd\"}", name)]; !ok || got != want {
			t.Errorf("%s is %v, and not %v", name, got, want)
		}
	}
	if n := sum(lead, "etcd_manager_member_leads{"); n != 1 {
		t.Errorf("etcd has %v leaders:\n%v", n, lead)
	}
	list, err := etcd.Backups(t.Context(), c.store)
	if err != nil || len(list) == 0 {
		t.Fatal(list, err)
	}
	at, size := int64(lead[`etcd_manager_backup_timestamp_seconds{cluster="etcd"}`]), int64(lead[`etcd_manager_backup_size_bytes{cluster="etcd"}`])
	known := false
	for _, b := range list {
		known = known || b.Complete && b.Time.Unix() == at && b.Size == size
	}
	if took := lead[`etcd_manager_backup_duration_seconds{cluster="etcd"}`]; !known || took <= 0 || took > 30 {
		t.Errorf("a backup of %d bytes at %d took %v seconds; there are %+v", size, at, took, list)
	}
	for _, p := range []*testPeer{b, x} {
		if s := scrape(t, own[p]); s[`etcd_manager_leads{cluster="etcd"}`] != 0 || sum(s, "etcd_manager_member") != 0 || s[`etcd_manager_peers{cluster="etcd"}`] != 3 {
			t.Errorf("%s, which follows, tells %v", p.id, s)
		}
	}
	for _, p := range c.peers {
		if s := scrape(t, etcds[p]); s["etcd_server_has_leader"] != 1 {
			t.Errorf("the etcd of %s tells nothing of its leader, among %d values", p.id, len(s))
		}
	}

	c.kill(x)
	c.eventually("the leader tells of a member that is not well", 30*time.Second, func() bool {
		lead = scrape(t, own[a])
		return sum(lead, "etcd_manager_member_healthy{") == 2 && sum(lead, "etcd_manager_member_votes{") == 3 && lead[`etcd_manager_peers{cluster="etcd"}`] == 2
	})
	if lead[`etcd_manager_waits{cluster="etcd"}`] != 1 {
		t.Errorf("nothing is told to be in the way: %v", lead)
	}
}

// scrape returns the metrics at a port, by name and labels; empty if no server responds.
func scrape(t *testing.T, port string) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	r, err := http.Get("http://127.0.0.1:" + port + "/metrics")
	if err != nil {
		return out
	}
	defer r.Body.Close() // only read
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if out[line[:at]], err = strconv.ParseFloat(line[at+1:], 64); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
	}
	return out
}

// sum adds the values of metrics with a prefix.
func sum(of map[string]float64, prefix string) float64 {
	n := 0.0
	for name, v := range of {
		if strings.HasPrefix(name, prefix) {
			n += v
		}
	}
	return n
}
