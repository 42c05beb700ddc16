package hetzner_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/hetzner"
	"kops.local/kops/internal/platform/hetzner/emulator"
	"kops.local/kops/internal/platform/hetzner/emulator/emulatortest"
	"kops.local/kops/internal/platform/hetzner/hetznercloud"
	"kops.local/kops/internal/platform/hetzner/kinds"
	"kops.local/kops/internal/platform/rest"
	"kops.local/kops/internal/spec/newcluster"
)

// project is an emulated project, reached through the provider.
type project struct {
	*testing.T
	*emulatortest.Cloud
	platform.Provider
	session *platform.Session
	cluster *api.Cluster
}

func start(t *testing.T) *project {
	t.Helper()
	p := &project{T: t, Cloud: emulatortest.Start(t, emulator.Options{Token: "secret"}), cluster: &api.Cluster{}}
	p.cluster.Name = "a.example.com"
	p.Provider = hetzner.Provider(hetzner.Options{Config: rest.Config{Endpoint: p.URL, Token: "secret", HTTP: p.HTTP, UserAgent: "kops/1", Pause: p.Sleep}, Now: time.Now})
	var err error
	p.session, err = p.Connect(t.Context(), platform.Config{})
	p.ok(err)
	return p
}

func (p *project) ok(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func (p *project) client() *kinds.Client { return p.session.Client.(*kinds.Client) }

func (p *project) labels(pairs ...string) kinds.Labels {
	out := kinds.Labels{hetznercloud.ClusterLabel: p.cluster.Name}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return out
}

// network creates the cluster's network and returns a reference to it.
func (p *project) network() resource.Value {
	p.Helper()
	n := &kinds.Network{Name: p.cluster.Name, CIDR: "10.0.0.0/16", Zone: "eu-central", Labels: p.labels()}
	p.ok(kinds.Networks.Create(p.Context(), p.client(), n))
	return resource.Lit(n.ID)
}

func TestTheEnvironment(t *testing.T) {
	p := start(t)
	env := map[string]string{"HCLOUD_ENDPOINT": p.URL, "HCLOUD_TOKEN": "secret\n"}
	p.Provider = hetzner.In(platform.World{Env: func(name string) string { return env[name] }, HTTP: p.HTTP, Version: "1"})
	var err error
	p.session, err = p.Connect(t.Context(), platform.Config{})
	p.ok(err)
	f, err := p.Lookup.NewClusterFacts(t.Context(), p.session, newcluster.Options{Zones: []string{"nbg1"}}, newcluster.World{})
	if p.ok(err); f.Of("hetzner").Region != "eu-central" {
		t.Errorf("%+v", f.Of("hetzner"))
	}
	p.cluster.Spec.Networking.Subnets = []api.ClusterSubnetSpec{{Name: "hil", Zone: "hil"}}
	f, err = p.Lookup.Facts(t.Context(), p.session, p.cluster, nil)
	if p.ok(err); f.Of("hetzner").Region != "us-west" {
		t.Errorf("%+v", f.Of("hetzner"))
	}
	s, err := p.Secrets()
	if token := s["HCLOUD_TOKEN"]; err != nil || token.Reveal() != "secret" {
		t.Errorf("%v %v", s, err)
	}
	none := hetzner.In(platform.World{})
	if _, err := none.Secrets(); !fault.Is(err, fault.Denied) || !strings.Contains(fault.Remedy(err), "HCLOUD_TOKEN") {
		t.Error(err)
	}
	if _, err := none.Connect(t.Context(), platform.Config{}); err != nil {
		t.Errorf("the commands that ask nothing of the cloud: %v", err)
	}
}

func TestSharedNetworks(t *testing.T) {
	p := start(t)
	for _, id := range []string{"", "ours"} {
		p.cluster.Spec.Networking.NetworkID = id
		nodes, err := p.Declare.Shared(p.cluster)
		if p.ok(err); (len(nodes) == 1) != (id != "") || len(nodes) == 1 && nodes[0].Adopt != id {
			t.Errorf("%q: %+v", id, nodes)
		}
	}
}

// The address of the API is the public one of its load balancer, or otherwise the private one.
func TestEndpoint(t *testing.T) {
	p := start(t)
	endpoint := func() string {
		t.Helper()
		e, err := p.Lookup.Endpoint(t.Context(), p.session, p.cluster)
		p.ok(err)
		return e
	}
	b := kinds.LoadBalancer{Name: "api.a.example.com.au", Type: "lb11", Location: "fsn1", Public: true, Labels: kinds.Labels{hetznercloud.ClusterLabel: "a.example.com.au"}}
	p.ok(kinds.LoadBalancers.Create(t.Context(), p.client(), &b))
	b.Name, b.Labels = "mine", p.labels()
	p.ok(kinds.LoadBalancers.Create(t.Context(), p.client(), &b))
	if e := endpoint(); e != "" {
		t.Errorf("without a load balancer: %s", e)
	}
	b.Name = "api.a.example.com"
	k := kinds.LoadBalancers.Erase()
	have, err := k.Create(t.Context(), p.client(), &b)
	if p.ok(err); endpoint() == "" {
		t.Error("there is no public address")
	}
	want := b
	want.Public, want.Network, want.Address = false, p.network(), "10.0.255.254"
	_, err = k.Set(t.Context(), p.client(), have, &want, k.Schema().Diff(&want, have))
	if p.ok(err); endpoint() != "10.0.255.254" {
		t.Error(endpoint())
	}
}

// Machines are found by the cluster's label, and replaced with one in excess.
func TestMachines(t *testing.T) {
	p := start(t)
	g := &kinds.ServerGroup{Cluster: p.cluster.Name, Group: "nodes", Least: 2, Most: 2, Type: "cx23", Image: "ubuntu-24.04", Location: "fsn1", UserData: resource.Text(resource.Lit("x")),
		Labels: p.labels(hetznercloud.GroupLabel, "nodes", hetznercloud.RoleLabel, "Node"), Network: kinds.ServerNetwork{Network: p.network()}, PublicNet: kinds.PublicNet{IPv4: true}}
	p.ok(kinds.Servers.Create(t.Context(), p.client(), g))
	machines := func() []platform.Machine {
		t.Helper()
		all, err := p.Fleet.Machines(t.Context(), p.session, p.cluster, nil)
		if p.ok(err); len(all) != 1 || all[0].Name != "nodes" {
			t.Fatalf("%+v", all)
		}
		return all[0].Machines
	}
	all := machines()
	m := all[0]
	if len(all) != 2 || m.Node != m.Name || !strings.HasPrefix(m.Name, "nodes-") || m.Zone != "fsn1" || m.Type != "cx23" || len(m.Addresses) != 2 || !strings.HasPrefix(m.Addresses[0], "10.0.") || m.Created.IsZero() {
		t.Errorf("%+v", all)
	}
	if roll := p.Fleet.Roll; roll.Surge != 1 || roll.Refills || roll.InPlace || roll.Deregister != nil {
		t.Errorf("%+v", roll)
	}
	p.ok(p.Fleet.Roll.Terminate(t.Context(), p.session, p.cluster, m))
	if left := machines(); len(left) != 1 || slices.ContainsFunc(left, func(l platform.Machine) bool { return l.Name == m.Name }) {
		t.Errorf("%+v", left)
	}
}

// All kinds are observed with one request for each list.
func TestAnObservationAsksOnce(t *testing.T) {
	p := start(t)
	snapshot := p.session.Snapshot()
	p.session.Prefetch(t.Context(), snapshot, p.cluster.Name)
	requests := func() (n int) {
		for _, times := range p.Requests() {
			n += times
		}
		return n
	}
	before := requests()
	for _, k := range p.Kinds {
		_, err := k.Observe(t.Context(), snapshot, resource.Scope{Cluster: p.cluster.Name})
		p.ok(err)
	}
	if n := requests(); before != len(p.Kinds) || n != before {
		t.Errorf("%d requests in advance for %d kinds, and %d later", before, len(p.Kinds), n-before)
	}
}
