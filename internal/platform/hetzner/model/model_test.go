package model

import (
	"slices"
	"strings"
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/render/terraform"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model/access"
	"kops.local/kops/internal/model/managedfile"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/hetzner/kinds"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/test/accesstest"
)

// changedCluster returns the transcripts' base cluster with changes to its spec.
func changedCluster(t *testing.T, spec string) platform.Model {
	t.Helper()
	return read(t, aCluster().Documents(t, map[string]string{"cluster": spec}))
}

// reviewed are the differences between the firewalls with the load balancer, and the table of who may
// reach whom.
func reviewed() *accesstest.Judge {
	const network = "the private network is not filtered"
	return &accesstest.Judge{Wider: []accesstest.Exception{
		{From: access.Nodes, To: access.Servers, Why: network},
		{From: access.Nodes, To: access.Balancer, Why: "every cluster has a load balancer, at which nodes reach all of its ports"},
		{Ranges: []string{everyone}, To: access.Balancer, Protocol: access.TCP, Why: "load balancers have no firewall"},
		{From: access.Balancer, To: access.Servers, Why: "every cluster has a load balancer, which is in the private network"},
		{From: access.Balancer, To: access.Nodes, Why: "the load balancer is in the private network"},
	}, Narrower: []accesstest.Exception{
		{From: access.Users, To: access.Balancer, Why: "load balancers are open to everyone instead of some"},
	}}
}

// everyone are all addresses.
const everyone = "everyone"

// Nothing in the table of who may reach whom is closed, and nothing else is open.
func TestFirewallsAreTheTable(t *testing.T) {
	base, judge := changedCluster(t, ""), reviewed()
	networks := slices.DeleteFunc(accesstest.Networks(), func(n string) bool { return n == "kubenet" || n == "kindnet" })
	for _, v := range accesstest.Variants(networks...) {
		in := base
		in.Cluster = base.Cluster.DeepCopy()
		in.Groups = v.Change(in.Cluster, base.Groups)
		if in.Cluster.Spec.IPv6Only() || in.Cluster.Spec.DNSType() != api.DNSNone || access.HasBastions(in.Groups) || len(access.GroupsOf(in.Groups, api.RoleAPIServer)) > 0 {
			continue // Hetzner has none of them
		}
		m, err := newModel(in)
		if err != nil {
			t.Fatal(err)
		}
		judge.Check(t, v.Name, in.Cluster, in.Groups, access.Flows(in.Cluster, in.Groups), m.open(t))
	}
	judge.Done(t)
}

// open returns what the firewalls and the load balancer let in, and the private network.
func (m *model) open(t *testing.T) []access.Flow {
	t.Helper()
	nodes, err := m.firewalls()
	if err != nil {
		t.Fatal(err)
	}
	machines := []access.Party{access.ControlPlanes, access.Nodes}
	var out []access.Flow
	for _, to := range machines {
		for _, from := range append(machines, access.Balancer) {
			out = append(out, access.Flow{From: from, To: to})
		}
	}
	for i, n := range nodes {
		for _, r := range n.Want.(*kinds.Firewall).Rules {
			first, last, several := strings.Cut(r.Port, "-")
			if !several {
				last = first
			}
			out = append(out, access.Flow{From: access.Users, To: machines[i], Ranges: r.Sources, Protocol: access.Protocol(r.Protocol), Ports: access.Ports(number(t, first), number(t, last))})
		}
	}
	if nodes, err = m.balancer(); err != nil {
		t.Fatal(err)
	}
	b := nodes[0].Want.(*kinds.LoadBalancer)
	for port := range b.Services {
		at := access.Port(number(t, port))
		out = append(out, access.Flow{From: access.Nodes, To: access.Balancer, Protocol: access.TCP, Ports: at})
		if b.Public {
			out = append(out, access.Flow{From: access.Users, To: access.Balancer, Ranges: []string{everyone}, Protocol: access.TCP, Ports: at})
		}
	}
	return out
}

func number(t *testing.T, text string) (n int) {
	t.Helper()
	for _, c := range text {
		n = 10*n + int(c-'0')
	}
	return n
}

// User data that Hetzner would reject is an error before anything is created.
func TestUserDataIsNotTooLong(t *testing.T) {
	in := changedCluster(t, "")
	in.UserData = func(g *api.InstanceGroup, _ ...resource.Value) (resource.Content, error) {
		return resource.Text(resource.Lit(strings.Repeat("x", 32<<10+len(g.Name)-len("cp")))), nil
	}
	err := Build(in, &graph.Graph{})
	if want := "group nodes: its user data has 32771 bytes, and Hetzner takes 32768 at most; shorten spec.additionalUserData, or set spec.compressUserData"; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Error(err)
	}
}

// What was looked up takes precedence: the address of the load balancer that kOps created, and the name
// of a system image that the spec names by its number.
func TestFactsTakePrecedence(t *testing.T) {
	in := changedCluster(t, "")
	in.Facts.Of("hetzner").Own = []byte(`{"apiAddress": "10.0.0.2"}`)
	in.Facts.Of("hetzner").Images = map[string]facts.Image{"ubuntu-24.04": {ID: "ubuntu-x"}}
	g := built(t, in)
	b, _ := g.Get(kinds.LoadBalancers.At("api.a.example.com"))
	s, _ := g.Get(kinds.Servers.At("nodes"))
	w := s.Want.(*kinds.ServerGroup)
	if b.Want.(*kinds.LoadBalancer).Address != "10.0.0.2" || !strings.Contains(w.UserData.Value().Text(), "echo 10.0.0.2") || w.Image != "ubuntu-x" {
		t.Errorf("%+v %+v", b.Want, w)
	}
	if host, err := APIHost(in); err != nil || host.Text() != "10.0.0.2" {
		t.Error(host, err)
	}
	in.Cluster.Spec.Networking.NetworkCIDR = ""
	in.Facts = nil
	if err := Build(in, &graph.Graph{}); err == nil || !strings.Contains(err.Error(), `spec.networkCIDR is ""`) {
		t.Error(err)
	}
	in.Cluster.Spec.Networking.NetworkCIDR, in.SSHKeys = "10.0.0.0/16", []string{"ssh-rsa"}
	if err := Build(in, &graph.Graph{}); err == nil || !strings.Contains(err.Error(), `the SSH public key "ssh-rsa" has no data`) {
		t.Error(err)
	}
}

// Control planes that would lose their majority with one host are on several.
func TestControlPlanesOfALocationAreOnSeveralHosts(t *testing.T) {
	for _, c := range []struct {
		sizes map[string]int32 // of control planes, by location
		want  string
	}{
		{map[string]int32{"fsn1": 1}, ""},
		{map[string]int32{"fsn1": 3}, "fsn1"},
		{map[string]int32{"fsn1": 1, "nbg1": 2}, "nbg1"},
		{map[string]int32{"fsn1": 11}, ""}, // more than a placement group takes
	} {
		in := changedCluster(t, "")
		in.Cluster = in.Cluster.DeepCopy()
		in.Groups = slices.Clone(in.Groups)
		plane := in.Groups[slices.IndexFunc(in.Groups, (*api.InstanceGroup).IsControlPlane)]
		in.Groups = slices.DeleteFunc(in.Groups, (*api.InstanceGroup).IsControlPlane)
		in.Cluster.Spec.Networking.Subnets, in.Cluster.Spec.EtcdClusters = nil, nil
		for _, location := range []string{"fsn1", "nbg1"} {
			in.Cluster.Spec.Networking.Subnets = append(in.Cluster.Spec.Networking.Subnets, api.ClusterSubnetSpec{Name: location, Zone: location})
			if n := c.sizes[location]; n > 0 {
				g := plane.DeepCopy()
				g.Name, g.Spec.Subnets, g.Spec.MinSize, g.Spec.MaxSize = "control-plane-"+location, []string{location}, &n, &n
				in.Groups = append(in.Groups, g)
			}
		}
		g := &graph.Graph{}
		if err := Build(in, g); err != nil {
			t.Fatal(err)
		}
		for n := range g.All() {
			group, isGroup := n.Want.(*kinds.ServerGroup)
			_, isPlacement := n.Want.(*kinds.PlacementGroup)
			if isGroup && (strings.HasPrefix(group.Group, "control-plane-") && group.Location == c.want) != !group.Placement.IsZero() {
				t.Errorf("%v: the placement of %s is %v", c.sizes, n.Address, group.Placement)
			}
			if isPlacement && n.Name != "control-plane-"+c.want+"."+in.Cluster.Name {
				t.Errorf("%v: there is %s", c.sizes, n.Address)
			}
		}
		text := strings.Join(strings.Fields(string(rendered(t, in, g)[terraform.MainFile])), " ")
		if strings.Contains(text, "placement_group_id = hcloud_placement_group.control-plane-"+c.want) != (c.want != "") || strings.Contains(text, "ignore_changes = [placement_group_id]") != (c.want != "") {
			t.Errorf("%v: Terraform has\n%s", c.sizes, text)
		}
		if _, has := g.Get(kinds.PlacementGroups.At("control-plane-" + c.want + "." + in.Cluster.Name)); has != (c.want != "") {
			t.Errorf("%v: the placement group of %q is there: %v", c.sizes, c.want, has)
		}
	}
}

// Servers are created after what protects them and what their nodes need, and have a remedy where
// nothing may be replaced.
func TestOrder(t *testing.T) {
	in := changedCluster(t, "")
	ca := managedfile.KeysetNode("kubernetes-ca", resource.SecretText("x"))
	in.Keysets = []resource.Address{ca.Address}
	g := built(t, in, ca)
	n, _ := g.Get(kinds.Servers.At("cp"))
	for _, a := range []resource.Address{ca.Address, kinds.Firewalls.At("control-plane.a.example.com"), kinds.Firewalls.At("nodes.a.example.com"), kinds.LoadBalancers.At("api.a.example.com"), kinds.Networks.At("a.example.com")} {
		if !slices.Contains(n.Refs(), a) {
			t.Errorf("servers do not come after %s", a)
		}
	}
	v, _ := g.Get(kinds.Volumes.At("a.etcd-main.a.example.com"))
	if !strings.Contains(v.Remedy, "spec.etcdClusters[0].etcdMembers[0].instanceGroup") {
		t.Error(v.Remedy)
	}
}

// An update of one part writes its resources, and refers to the resources of earlier parts.
func TestTerraformOfAPart(t *testing.T) {
	in := changedCluster(t, "")
	whole := built(t, in)
	parts := []string{resource.Network, resource.Security, resource.Cluster}
	for i, c := range []struct{ want, unwanted []string }{
		{[]string{`resource "hcloud_network_subnet"`}, []string{"firewall", "server", "\ndata "}},
		{[]string{`resource "hcloud_firewall"`, `resource "hcloud_ssh_key"`}, []string{`"hcloud_network"`, "server", "\ndata "}},
		{[]string{`data "hcloud_network" "a-example-com"`, `network_id = data.hcloud_network.a-example-com.id`, `data "hcloud_ssh_key"`, `ssh_keys    = [data.hcloud_ssh_key.`},
			[]string{`resource "hcloud_network`, "hcloud_network_subnet", `"hcloud_firewall"`}},
	} {
		part := &graph.Graph{}
		for n := range whole.All() {
			n.Expect = strings.Contains(strings.Join(parts[:i], " "), n.Kind.Phase())
			if !n.Expect && n.Kind.Phase() != parts[i] {
				continue
			}
			if err := part.Add(n); err != nil {
				t.Fatal(err)
			}
		}
		text := string(rendered(t, in, part)[terraform.MainFile])
		for _, w := range c.want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: there is no %s in\n%s", parts[i], w, text)
			}
		}
		for _, w := range c.unwanted {
			if strings.Contains(text, w) {
				t.Errorf("%s: there is %s in\n%s", parts[i], w, text)
			}
		}
	}
}

func TestTerraformOfASharedNetworkHasItsNumber(t *testing.T) {
	in := changedCluster(t, "networkID: ours")
	g := built(t, in)
	if _, err := Terraform(in, g); err == nil || !strings.Contains(err.Error(), "the number of the network ours is not in the facts") {
		t.Error(err)
	}
	in.Facts.Of("hetzner").Own = []byte(`{"networkNumber": "7"}`)
	if text := string(rendered(t, in, g)[terraform.MainFile]); strings.Count(text, `network_id`) != 3 || strings.Count(text, `= "7"`) != 3 || strings.Contains(text, "depends_on = [hcloud_network") {
		t.Error(text)
	}
	in = changedCluster(t, "networkID: \"12\"")
	if text := string(rendered(t, in, built(t, in))[terraform.MainFile]); strings.Count(text, `= "12"`) != 3 {
		t.Error(text)
	}
}

func TestTerraformOfManagedFiles(t *testing.T) {
	in := changedCluster(t, "target: {terraform: {filesProviderExtraConfig: {profile: x}}}")
	in.Facts.Clouds["other"] = &facts.Cloud{Buckets: map[string]string{"testingBucket": "eu-1"}}
	bucket := managedfile.NewBucket("toy_object", "toy")
	bucket.Provider = "toy.files"
	g := built(t, in, managedfile.Buckets{"toy": bucket}.Location("toy://state/a.example.com").Node("f", "f", resource.Text(resource.Lit("text")), false))
	doc, err := Terraform(in, g)
	if err != nil {
		t.Fatal(err)
	}
	p, required := doc.Providers[1], doc.RequiredProviders["toy"]
	if len(doc.Providers) != 2 || p.Name != "toy" || p.Alias != "files" || p.Attributes["region"] != "eu-1" || p.Attributes["profile"] != "x" || required.Source != "hashicorp/toy" || required.Aliases[0] != "toy.files" {
		t.Errorf("%+v %+v", p, required)
	}
}
