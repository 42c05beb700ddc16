package kinds

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/hetzner/emulator"
	"kops.local/kops/internal/platform/hetzner/emulator/emulatortest"
	"kops.local/kops/internal/platform/hetzner/hetznerapi"
	"kops.local/kops/internal/platform/hetzner/hetznercloud"
	"kops.local/kops/internal/platform/servers"
	"kops.local/kops/internal/platform/servers/serverstest"
	"kops.local/kops/internal/test/kindtest"
)

const testCluster = "a.example.com"

// project is an emulated project with a client.
type project struct {
	*testing.T
	*emulatortest.Cloud
	c *Client
}

func start(t *testing.T, o emulator.Options) *project {
	t.Helper()
	cloud := emulatortest.Start(t, o)
	return &project{t, cloud, client(cloud)}
}

func client(cloud *emulatortest.Cloud) *Client {
	return NewClient(hetznerapi.New(hetznerapi.Config{Endpoint: cloud.URL, Token: "token", HTTP: cloud.HTTP, Pause: cloud.Sleep}))
}

func (p *project) ok(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// network creates a network and returns its ID.
func (p *project) network(cluster string) string {
	p.Helper()
	n := &Network{Name: cluster, CIDR: "10.0.0.0/16", Zone: "eu-central", Labels: of(cluster)}
	p.ok(Networks.Create(p.Context(), p.c, n))
	return n.ID
}

// of returns the labels of a cluster's object.
func of(cluster string, pairs ...string) Labels {
	out := Labels{hetznercloud.ClusterLabel: cluster}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return out
}

func TestKinds(t *testing.T) {
	labels := func(l *Labels) { *l = of(testCluster, "team", "a") }
	t.Run("network", func(t *testing.T) {
		kindtest.Run(t, &Networks, start(t, emulator.Options{}).c, kindtest.Life[Network]{Cluster: testCluster,
			Want:     Network{Name: testCluster, CIDR: "10.0.0.0/16", Zone: "eu-central", Labels: of(testCluster)},
			Changes:  []kindtest.Change[Network]{{Name: "labels", Do: func(n *Network) { labels(&n.Labels) }}},
			Untested: map[string]string{"Zone": "a subnet that is missing has a test of its own"}})
	})
	t.Run("firewall", func(t *testing.T) {
		ssh := Rule{Direction: "in", Protocol: "tcp", Port: "22", Sources: []string{"0.0.0.0/0", "2001:db8::/32"}}
		kindtest.Run(t, &Firewalls, start(t, emulator.Options{}).c, kindtest.Life[Firewall]{Cluster: testCluster,
			Want: Firewall{Name: "nodes." + testCluster, ApplyTo: Applied{hetznercloud.Selector(testCluster, "Node")}, Rules: []Rule{ssh}, Labels: of(testCluster)},
			Changes: []kindtest.Change[Firewall]{
				{Name: "rules", Do: func(f *Firewall) {
					f.Rules = []Rule{{Direction: "in", Protocol: "udp", Port: "30000-32767", Sources: []string{"192.0.2.0/24"}}, ssh}
				}},
				{Name: "no rules", Do: func(f *Firewall) { f.Rules = nil }},
				{Name: "labels", Do: func(f *Firewall) { labels(&f.Labels) }},
			},
			Untested: map[string]string{"ApplyTo": "a selector that is missing has a test of its own"}})
	})
	t.Run("SSH key", func(t *testing.T) {
		kindtest.Run(t, &SSHKeys, start(t, emulator.Options{}).c, kindtest.Life[SSHKey]{Cluster: testCluster, Want: key(testCluster)})
	})
	t.Run("volume", func(t *testing.T) {
		kindtest.Run(t, &Volumes, start(t, emulator.Options{}).c, kindtest.Life[Volume]{Cluster: testCluster,
			Want: Volume{Name: "a.etcd-main." + testCluster, Location: "fsn1", SizeGB: 20, Labels: of(testCluster, hetznercloud.VolumeLabel, "main")},
			Changes: []kindtest.Change[Volume]{
				{Name: "size", Do: func(v *Volume) { v.SizeGB = 30 }},
				{Name: "labels", Do: func(v *Volume) { v.Labels = of(testCluster, hetznercloud.VolumeLabel, "main", "team", "a") }},
			}})
	})
	t.Run("placement group", func(t *testing.T) {
		kindtest.Run(t, &PlacementGroups, start(t, emulator.Options{}).c, kindtest.Life[PlacementGroup]{Cluster: testCluster,
			Want:    PlacementGroup{Name: "control-plane-fsn1." + testCluster, Type: "spread", Labels: of(testCluster)},
			Changes: []kindtest.Change[PlacementGroup]{{Name: "labels", Do: func(g *PlacementGroup) { labels(&g.Labels) }}}})
	})
	t.Run("load balancer", func(t *testing.T) {
		p := start(t, emulator.Options{})
		kindtest.Run(t, &LoadBalancers, p.c, kindtest.Life[LoadBalancer]{Cluster: testCluster, Want: balancer(testCluster, p.network(testCluster)),
			Changes: []kindtest.Change[LoadBalancer]{
				{Name: "internal", Do: func(b *LoadBalancer) { b.Public = false }},
				{Name: "public", Do: func(b *LoadBalancer) { b.Public = true }},
				{Name: "services", Do: func(b *LoadBalancer) {
					b.Services = Services{"443": {443, 15, 10, 3}, "3988": {3988, 5, 3, 2}, "4003": {4003, 5, 3, 2}}
				}},
				{Name: "fewer services", Do: func(b *LoadBalancer) { b.Services = Services{"443": {443, 15, 10, 3}} }},
				{Name: "labels", Do: func(b *LoadBalancer) { labels(&b.Labels) }},
			},
			Unrepeated: map[string]string{"fewer services": "a service that is not there has no error code of its own"}})
	})
	t.Run("servers", func(t *testing.T) {
		p := start(t, emulator.Options{})
		kindtest.Run(t, &Servers, p.c, kindtest.Life[ServerGroup]{Cluster: testCluster, Want: *group(p.network(testCluster), testCluster, "nodes", 2, 2),
			Changes: []kindtest.Change[ServerGroup]{
				{Name: "type", Do: func(g *ServerGroup) { g.Type = "cx33" }},
				{Name: "image", Do: func(g *ServerGroup) { g.Image = "debian-12" }},
				{Name: "location", Do: func(g *ServerGroup) { g.Location = "nbg1" }},
				{Name: "user data", Do: func(g *ServerGroup) { g.UserData = resource.Text(resource.Lit("other")) }},
				{Name: "more", Do: func(g *ServerGroup) { g.Least, g.Most = 3, 3 }},
				{Name: "fewer", Do: func(g *ServerGroup) { g.Least, g.Most = 1, 1 }},
				{Name: "labels", Do: func(g *ServerGroup) { g.Labels["team"] = "a" }},
			}})
	})
}

func key(cluster string) SSHKey {
	return SSHKey{Name: cluster + "-69:3e", PublicKey: "ssh-rsa AAAA", Labels: of(cluster), Fingerprint: "69:3e:9a:f8:4d:3d:fc:c7:1e:64:0e:00:5b:dc:5e:2e"}
}

func balancer(cluster, network string) LoadBalancer {
	return LoadBalancer{Name: "api." + cluster, Type: "lb11", Location: "fsn1", Public: true, Labels: of(cluster), Network: resource.Lit(network), Address: "10.0.255.254",
		Selector: hetznercloud.Selector(cluster, "ControlPlane"), Services: Services{"443": {443, 5, 3, 2}, "3988": {3988, 5, 3, 2}}}
}

func group(network, cluster, name string, least, most int) *ServerGroup {
	return &ServerGroup{Cluster: cluster, Group: name, Least: least, Most: most, Type: "cx23", Image: "ubuntu-24.04", Location: "fsn1", UserData: resource.Text(resource.Lit("one")),
		Labels:  of(cluster, hetznercloud.GroupLabel, name, hetznercloud.RoleLabel, "Node"),
		Network: ServerNetwork{resource.Lit(network)}, PublicNet: PublicNet{IPv4: true}}
}

func TestFleet(t *testing.T) {
	networks := map[*Client]string{}
	serverstest.Run(t, serverstest.Subject[ServerGroup, *Client]{Base: resource.Kind[ServerGroup, *Client]{Name: "hcloud_server", API: api},
		Machines: []string{"Type", "Image", "Location", "UserData"}, Others: []string{"Least", "Most", "Labels"},
		New: func(tb testing.TB) (*servers.Fleet[ServerGroup, *Client], *Client) {
			c := client(emulatortest.Start(tb, emulator.Options{}))
			n := &Network{Name: "net", CIDR: "10.0.0.0/16", Zone: "eu-central", Labels: Labels{}}
			if err := Networks.Create(tb.Context(), c, n); err != nil {
				tb.Fatal(err)
			}
			networks[c] = n.ID
			return Fleet(), c
		},
		Want: func(c *Client, cluster, name string, least, most int, small bool, userData string) *ServerGroup {
			g := group(networks[c], cluster, name, least, most)
			if g.UserData = resource.Text(resource.Lit(userData)); !small {
				g.Type = "cx33"
			}
			return g
		}})
}

// observe returns the objects of a kind.
func observe[T any](p *project, k resource.Kind[T, *Client], s resource.Scope) []*T {
	p.Helper()
	all, err := k.List(p.Context(), p.c.Snapshot(), s)
	p.ok(err)
	return all
}

func TestSharedNetworksAreFound(t *testing.T) {
	p := start(t, emulator.Options{})
	id := p.network("ours")
	p.network(testCluster)
	for _, name := range []string{"ours", strings.TrimPrefix(id, "networks/")} {
		all := observe(p, Networks, resource.Scope{Cluster: testCluster, Adopted: []string{name}})
		if len(all) != 2 || all[1].ID != id || all[1].Adopted != name || all[0].Name != testCluster {
			t.Errorf("%s: %+v", name, all)
		}
	}
	if all := observe(p, Networks, resource.Scope{Cluster: "other", Adopted: []string{"none"}}); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

// A network whose creation was interrupted gets its subnet; a subnet elsewhere stays.
func TestAMissingSubnetIsAdded(t *testing.T) {
	p := start(t, emulator.Options{})
	_, err := hetznerapi.Create[hetznerapi.Network](t.Context(), p.c.Client, "networks", map[string]any{"name": testCluster, "ip_range": "10.0.0.0/16", "labels": of(testCluster)})
	p.ok(err)
	have := observe(p, Networks, resource.Scope{Cluster: testCluster})[0]
	want := &Network{Name: testCluster, CIDR: "10.0.0.0/16", Zone: "eu-central", Labels: of(testCluster)}
	if have.Zone != "" {
		t.Errorf("%+v", have)
	}
	p.ok(Networks.Update[0].Set(t.Context(), p.c, have, want))
	if have = observe(p, Networks, resource.Scope{Cluster: testCluster})[0]; have.Zone != "eu-central" {
		t.Errorf("%+v", have)
	}
	want.Zone = "us-east"
	if err := Networks.Update[0].Set(t.Context(), p.c, have, want); !fault.Is(err, fault.Permanent) || !strings.Contains(fault.Remedy(err), "spec.subnets") {
		t.Error(err)
	}
}

// A firewall protects the servers of its role even if someone has taken them away from it. It is applied
// to others as the user likes.
func TestFirewallsAreApplied(t *testing.T) {
	p := start(t, emulator.Options{})
	f := &Firewall{Name: "nodes." + testCluster, ApplyTo: Applied{hetznercloud.Selector(testCluster, "Node")}, Labels: of(testCluster)}
	p.ok(Firewalls.Create(t.Context(), p.c, f))
	p.ok(p.c.Act(t.Context(), f.ID, "apply_to_resources", map[string]any{"apply_to": []any{selecting("a=b")}}))
	p.ok(p.c.Act(t.Context(), f.ID, "remove_from_resources", map[string]any{"remove_from": []any{selecting(f.ApplyTo.Selector)}}))
	k, have := Firewalls.Erase(), observe(p, Firewalls, resource.Scope{Cluster: testCluster})[0]
	diff := k.Schema().Diff(f, have)
	if len(diff) != 1 || diff[0].Field != "ApplyTo" {
		t.Fatalf("%+v", diff)
	}
	_, err := k.Set(t.Context(), p.c, have, f, diff)
	p.ok(err)
	if have = observe(p, Firewalls, resource.Scope{Cluster: testCluster})[0]; len(k.Schema().Diff(f, have)) > 0 {
		t.Errorf("%+v", have)
	}
	now, err := hetznerapi.Get[hetznerapi.Firewall](t.Context(), p.c.Client, f.ID)
	if p.ok(err); len(now.AppliedTo) != 2 {
		t.Errorf("%+v", now.AppliedTo)
	}
}

// A key that a user or another cluster has created is used, and left alone. With the cluster that created
// it, it goes to another cluster, which may use it.
func TestKeysAreShared(t *testing.T) {
	p := start(t, emulator.Options{})
	theirs, k := key("b.example.com"), key(testCluster)
	names := []string{k.Fingerprint}
	p.ok(SSHKeys.Create(t.Context(), p.c, &theirs))
	if err := SSHKeys.Create(t.Context(), p.c, &k); !fault.Is(err, fault.Taken) {
		t.Error(err)
	}
	all := observe(p, SSHKeys, resource.Scope{Cluster: testCluster, Names: names})
	if len(all) != 1 || all[0].ID != theirs.ID || len(SSHKeys.Erase().Schema().Diff(&k, all[0])) > 0 {
		t.Fatalf("%+v", all)
	}
	if all = observe(p, SSHKeys, resource.Scope{Cluster: testCluster, All: true}); len(all) != 0 {
		t.Errorf("it would be deleted with the cluster that uses it: %+v", all[0])
	}
	b := balancer(testCluster, p.network(testCluster))
	p.ok(LoadBalancers.Create(t.Context(), p.c, &b))
	own := observe(p, SSHKeys, resource.Scope{Cluster: "b.example.com", All: true})[0]
	p.ok(SSHKeys.Delete(t.Context(), p.c, own))
	if all = observe(p, SSHKeys, resource.Scope{Cluster: testCluster, All: true}); len(all) != 1 || all[0].ID != theirs.ID {
		t.Errorf("after the deletion of its cluster: %+v", all)
	}
	p.ok(LoadBalancers.Delete(t.Context(), p.c, &b))
	p.ok(SSHKeys.Delete(t.Context(), p.c, all[0]))
	if left := p.Inventory(); !slices.Equal(left, []string{"networks/" + testCluster}) {
		t.Errorf("%v", left)
	}
}

// The servers of others in the cluster's network stay in it.
func TestANetworkIsNotTakenAway(t *testing.T) {
	p := start(t, emulator.Options{})
	n := &Network{Name: testCluster, ID: p.network(testCluster)}
	g := group(n.ID, "b.example.com", "nodes", 1, 1)
	p.ok(Servers.Create(t.Context(), p.c, g))
	if err := Networks.Delete(t.Context(), p.c, n); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), p.Servers()[0].Name) || !strings.Contains(fault.Remedy(err), "detach") {
		t.Error(err)
	}
	p.ok(Servers.Delete(t.Context(), p.c, g))
	p.ok(Networks.Delete(t.Context(), p.c, n))
	p.ok(Networks.Delete(t.Context(), p.c, n))
}

// What the cloud controller and the storage driver have created is found by what it belongs to.
func TestADeletionFindsWhatControllersMade(t *testing.T) {
	p := start(t, emulator.Options{})
	own, other := p.network(testCluster), p.network("b.example.com")
	p.ok(Servers.Create(t.Context(), p.c, group(own, testCluster, "nodes", 1, 1)))
	p.ok(Servers.Create(t.Context(), p.c, group(other, "b.example.com", "nodes", 1, 1)))
	servers := p.Servers()
	service := func(name, network string, server int64) {
		t.Helper()
		body := map[string]any{"name": name, "load_balancer_type": "lb11", "location": "fsn1", "labels": map[string]string{hetznercloud.ServiceLabel: name}}
		if network != "" {
			body["network"] = hetznerapi.Number(network)
		}
		if server != 0 {
			body["targets"] = []any{map[string]any{"type": "server", "server": map[string]any{"id": server}}}
		}
		_, err := hetznerapi.Create[hetznerapi.LoadBalancer](t.Context(), p.c.Client, "load_balancers", body)
		p.ok(err)
	}
	service("by-server", "", servers[0].ID)
	service("by-network", own, 0)
	service("others", other, servers[1].ID)
	service("nobodys", "", 0)
	var names []string
	for _, b := range observe(p, LoadBalancers, resource.Scope{Cluster: testCluster, All: true}) {
		names = append(names, b.Name)
	}
	if !slices.Equal(names, []string{"by-server", "by-network"}) {
		t.Errorf("%v", names)
	}
	if all := observe(p, LoadBalancers, resource.Scope{Cluster: testCluster}); len(all) != 0 {
		t.Errorf("an update would delete %+v", all[0])
	}
	claim := Volume{Name: "pvc-1", Location: "fsn1", SizeGB: 10, Labels: of(testCluster, "pvc-name", "data", "pvc-namespace", "shop", "managed-by", "csi-driver")}
	p.ok(Volumes.Create(t.Context(), p.c, &claim))
	if all := observe(p, Volumes, resource.Scope{Cluster: testCluster}); len(all) != 0 {
		t.Errorf("an update would delete %+v", all[0])
	}
	if all := observe(p, Volumes, resource.Scope{Cluster: testCluster, All: true}); len(all) != 1 || Volumes.Holds(all[0]) != "data of the claim shop/data" {
		t.Errorf("%+v", all)
	}
}

// Servers without a group, such as one whose labels someone removed, are deleted with the cluster only.
func TestServersWithoutAGroup(t *testing.T) {
	p := start(t, emulator.Options{})
	p.ok(Servers.Create(t.Context(), p.c, group(p.network(testCluster), testCluster, "nodes", 2, 2)))
	p.ok(p.c.Set(t.Context(), hetznerapi.Path("servers", p.Servers()[0].ID), map[string]any{"labels": of(testCluster)}))
	if all := observe(p, Servers, resource.Scope{Cluster: testCluster}); len(all) != 1 || all[0].Group != "nodes" || all[0].Least != 1 {
		t.Errorf("%+v", all)
	}
	all := observe(p, Servers, resource.Scope{Cluster: testCluster, All: true})
	if len(all) != 2 || len(all[0].Uses) != 1 || len(all[1].Uses) != 1 {
		t.Fatalf("%+v", all)
	}
	p.ok(Servers.Delete(t.Context(), p.c, all[0]))
	if left := p.Servers(); len(left) != 1 || left[0].Labels[hetznercloud.GroupLabel] != "nodes" {
		t.Errorf("%+v", left)
	}
}

// machines records what happens to machines.
type machines struct{ events []string }

func (m *machines) note(what string) error { m.events = append(m.events, what); return nil }

func (m *machines) Start(context.Context, emulator.Server) error  { return m.note("start") }
func (m *machines) Stop(context.Context, emulator.Server) error   { return m.note("stop") }
func (m *machines) Delete(context.Context, emulator.Server) error { return m.note("delete") }
func (m *machines) Plug(context.Context, emulator.Server) error   { return nil }

// A server is shut down before it is deleted; one that does not shut down is deleted all the same.
func TestServersShutDown(t *testing.T) {
	m := &machines{}
	p := start(t, emulator.Options{Machines: m})
	g := group(p.network(testCluster), testCluster, "nodes", 1, 1)
	p.ok(Servers.Create(t.Context(), p.c, g))
	p.ok(Servers.Delete(t.Context(), p.c, g))
	if got := fmt.Sprint(m.events); got != "[start stop delete]" {
		t.Error(got)
	}
}

// A placement group that no longer is wanted stays as long as it has servers, which refer to it, unless the
// cluster is deleted with them.
func TestPlacementGroupsOfServers(t *testing.T) {
	p := start(t, emulator.Options{})
	placed := &PlacementGroup{Name: "g", Type: "spread", Labels: of(testCluster)}
	p.ok(PlacementGroups.Create(t.Context(), p.c, placed))
	g := group(p.network(testCluster), testCluster, "control-plane", 2, 2)
	g.Placement = resource.Lit(placed.ID)
	p.ok(Servers.Create(t.Context(), p.c, g))
	for _, s := range observe(p, Servers, resource.Scope{Cluster: testCluster}) {
		if n := len(slices.DeleteFunc(s.Uses, func(v resource.Value) bool { return v.Text() != placed.ID })); n != 2 {
			t.Errorf("%d servers refer to the placement group: %+v", n, s)
		}
	}
	if got := observe(p, PlacementGroups, resource.Scope{Cluster: testCluster}); len(got) != 1 || PlacementGroups.Idle(got[0]) {
		t.Errorf("the placement groups are %+v", got)
	}
	if got := observe(p, PlacementGroups, resource.Scope{Cluster: testCluster, All: true}); len(got) != 1 || !PlacementGroups.Idle(got[0]) {
		t.Errorf("with the cluster, these stay: %+v", got)
	}
	p.ok(Servers.Delete(t.Context(), p.c, g))
	if got := observe(p, PlacementGroups, resource.Scope{Cluster: testCluster}); len(got) != 1 || !PlacementGroups.Idle(got[0]) {
		t.Errorf("without servers, the placement groups are %+v", got)
	}
}

// A server that could not be created or attached to the network leaves nothing, and the error says why.
func TestServersThatCannotBeCreated(t *testing.T) {
	p := start(t, emulator.Options{Most: map[string]int{"servers": 1}})
	g := group(p.network(testCluster), testCluster, "nodes", 1, 1)
	p.Exhaust("fsn1", true)
	err := Servers.Create(t.Context(), p.c, g)
	if !fault.Is(err, fault.Quota) || !strings.Contains(fault.Remedy(err), "another location") || len(p.Servers()) != 0 {
		t.Errorf("%v, %q", err, fault.Remedy(err))
	}
	p.Exhaust("fsn1", false)
	g.Least, g.Most = 2, 2
	err = Servers.Create(t.Context(), p.c, g)
	if !fault.Is(err, fault.Quota) || !strings.Contains(err.Error(), "server_limit") || len(p.Servers()) != 1 {
		t.Errorf("%v, %d servers", err, len(p.Servers()))
	}
}

// A server that is created, but not attached to the network, is deleted.
func TestAServerWithoutItsNetworkIsDeleted(t *testing.T) {
	for answer, want := range map[string]string{
		`{"code": "no_subnet_available", "message": "m"}`: "POST /servers DELETE /servers/7",
		`null`: "POST /servers",
	} {
		var calls []string
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			calls = append(calls, r.Method+" "+r.URL.Path)
			if r.Method == http.MethodPost {
				_, _ = fmt.Fprintf(w, `{"server": {"id": 7}, "action": {"id": 1, "status": "success"}, "next_actions": [{"id": 2, "command": "attach_to_network", "status": "%s", "error": %s}]}`,
					map[bool]string{true: "success", false: "error"}[answer == "null"], answer)
			}
		}))
		t.Cleanup(s.Close)
		err := startServer(t.Context(), NewClient(hetznerapi.New(hetznerapi.Config{Endpoint: s.URL, Token: "token"})), group("networks/1", testCluster, "nodes", 1, 1), servers.Launch{Name: "a"})
		if got := strings.Join(calls, " "); got != want || fault.Is(err, fault.NotYet) != strings.Contains(want, "DELETE") {
			t.Errorf("%s: %s, %v", answer, got, err)
		}
	}
}

func TestVolumesDoNotShrink(t *testing.T) {
	p := start(t, emulator.Options{})
	v := &Volume{Name: "v", Location: "fsn1", SizeGB: 20, Labels: Labels{}}
	p.ok(Volumes.Create(t.Context(), p.c, v))
	if err := growVolume(t.Context(), p.c, v, &Volume{SizeGB: 10}); !fault.Is(err, fault.Permanent) || !strings.Contains(fault.Remedy(err), "20 or more") {
		t.Error(err)
	}
	if err := growVolume(t.Context(), p.c, v, &Volume{SizeGB: 20000}); !fault.Is(err, fault.Permanent) {
		t.Error(err)
	}
}

// A protected object stays, and the error says what to do.
func TestProtectedObjectsStay(t *testing.T) {
	p := start(t, emulator.Options{})
	n := &Network{Name: "n", ID: p.network("n")}
	p.ok(p.c.Act(t.Context(), n.ID, "change_protection", map[string]bool{"delete": true}))
	if err := Networks.Delete(t.Context(), p.c, n); !fault.Is(err, fault.Permanent) || !strings.Contains(fault.Remedy(err), "disable-protection") {
		t.Error(err)
	}
}

// A protected server is not shut down either.
func TestAProtectedServerRuns(t *testing.T) {
	p := start(t, emulator.Options{})
	g := group(p.network(testCluster), testCluster, "nodes", 1, 1)
	p.ok(Servers.Create(t.Context(), p.c, g))
	p.ok(p.Sleep(t.Context(), time.Minute))
	all, err := listServers(t.Context(), p.c, testCluster, "nodes")
	p.ok(err)
	p.ok(p.c.Act(t.Context(), all[0].ID, "change_protection", map[string]bool{"delete": true, "rebuild": true}))
	if err := Servers.Delete(t.Context(), p.c, g); !fault.Is(err, fault.Permanent) || !strings.Contains(fault.Remedy(err), "disable-protection") {
		t.Error(err)
	}
	if all, err = listServers(t.Context(), p.c, testCluster, "nodes"); err != nil || !all[0].Running {
		t.Errorf("%+v, %v", all, err)
	}
}

// The user's own services, targets and labels stay, and are no difference.
func TestWhatUsersAddStays(t *testing.T) {
	p := start(t, emulator.Options{})
	want := balancer(testCluster, p.network(testCluster))
	k := LoadBalancers.Erase()
	made, err := k.Create(t.Context(), p.c, &want)
	p.ok(err)
	_, err = k.Set(t.Context(), p.c, made, &want, k.Schema().Diff(&want, made))
	p.ok(err)
	have := observe(p, LoadBalancers, resource.Scope{Cluster: testCluster})[0]
	p.ok(p.c.Act(t.Context(), have.ID, "add_service", Service{80, 15, 10, 3}.request("80")))
	p.ok(p.c.Act(t.Context(), have.ID, "add_target", selecting("a=b")))
	p.ok(p.c.Set(t.Context(), have.ID, map[string]any{"labels": of(testCluster, "mine", "x")}))
	have = observe(p, LoadBalancers, resource.Scope{Cluster: testCluster})[0]
	if diff := k.Schema().Diff(&want, have); len(diff) > 0 {
		t.Errorf("%+v", diff)
	}
	want.Services, want.Labels = Services{"443": {443, 5, 3, 2}}, of(testCluster, "team", "a")
	_, err = k.Set(t.Context(), p.c, have, &want, k.Schema().Diff(&want, have))
	p.ok(err)
	have = observe(p, LoadBalancers, resource.Scope{Cluster: testCluster})[0]
	if have.Labels["mine"] != "x" || have.Labels["team"] != "a" || len(have.Services) != 2 || have.Services["80"].Destination != 80 {
		t.Errorf("%+v", have)
	}
	other := p.network("other")
	want.Network = resource.Lit(other)
	if err := attachBalancer(t.Context(), p.c, have, &want); !fault.Is(err, fault.Permanent) || !strings.Contains(fault.Remedy(err), "detach") {
		t.Error(err)
	}
}
