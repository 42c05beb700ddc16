package kinds

import (
	"testing"

	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/test/kindtest"
)

func TestEveryKindIsWellDeclared(t *testing.T) {
	for _, k := range All() {
		if err := k.Check(); err != nil {
			t.Error(err)
		}
		if !k.KindDirect() {
			t.Errorf("%s: nothing of this host is Terraform's", k.KindName())
		}
	}
}

// TestKinds takes one object of each kind through its life cycle.
func TestKinds(t *testing.T) {
	const cluster = "kinds.k8s.local"
	l := newLab(t, cluster)
	kindtest.Run(t, &Networks, l.Client, kindtest.Life[Network]{Cluster: cluster,
		Want: Network{Cluster: cluster, CIDR: "10.199.1.0/24", Refused: []string{"100.96.0.0/11"}, Up: true},
		Changes: []kindtest.Change[Network]{
			{Name: "add a route", Do: func(n *Network) { n.Routes = map[string]string{"100.96.1.0/24": "10.199.1.10"} }},
			{Name: "move the route", Do: func(n *Network) { n.Routes = map[string]string{"100.96.2.0/24": "10.199.1.10"} }},
			{Name: "refuse packets", Do: func(n *Network) { n.Refused = []string{"100.96.0.0/11", "100.64.0.0/13"} }},
			{Name: "refuse fewer", Do: func(n *Network) { n.Refused = []string{"100.64.0.0/13"} }},
		},
		Untested: map[string]string{"NAT": "it has a test of its own", "Up": "it has a test of its own"},
	})
	l.nothingLeft()

	kindtest.Run(t, &Images, l.Client, kindtest.Life[Image]{Cluster: cluster, Want: Image{Cluster: cluster}})
	kindtest.Run(t, &Volumes, l.Client, kindtest.Life[Volume]{Cluster: cluster, Want: Volume{Cluster: cluster, Name: "a.etcd-main"}})

	img, net := l.base(cluster, "10.199.1.0/24")
	lit := resource.Lit
	kindtest.Run(t, &Machines, l.Client, kindtest.Life[Machine]{Cluster: cluster, Want: Machine{Cluster: cluster, Name: "alone",
		Network: lit(net.ID), Image: lit(img.Path), MemoryMiB: 256, CPUs: 1, DiskGiB: 2, UserData: resource.Text(lit("#!/bin/sh\ntrue\n")),
		Folders: []Folder{{lit("/etc"), "/mnt/etc", true}}, Labels: map[string]string{"role": "node"}}})
	kindtest.Run(t, &MachineGroups, l.Client, kindtest.Life[MachineGroup]{Cluster: cluster, Want: MachineGroup{Cluster: cluster, Name: "nodes",
		Network: lit(net.ID), Image: lit(img.Path), Size: 1},
		Changes: []kindtest.Change[MachineGroup]{
			{Name: "size", Do: func(g *MachineGroup) { g.Size = 2 }},
			{Name: "memory and processors", Do: func(g *MachineGroup) { g.MemoryMiB, g.CPUs = 256, 1 }},
			{Name: "disk", Do: func(g *MachineGroup) { g.DiskGiB = 2 }},
			{Name: "least disk", Do: func(g *MachineGroup) { g.MinDiskGiB = 4 }},
			{Name: "user data", Do: func(g *MachineGroup) { g.UserData = resource.Text(lit("#!/bin/sh\ntrue\n")) }},
			{Name: "folders", Do: func(g *MachineGroup) { g.Folders = []Folder{{lit("/etc"), "/mnt/etc", true}} }},
			{Name: "labels", Do: func(g *MachineGroup) { g.Labels = map[string]string{"role": "node"} }},
			{Name: "image", Do: func(g *MachineGroup) { g.Image = lit(img.Path + "/.") }},
		}})
	kindtest.Run(t, &LoadBalancers, l.Client, kindtest.Life[LoadBalancer]{Cluster: cluster, Want: LoadBalancer{Cluster: cluster, Name: "api",
		Network: lit(net.ID), Listeners: []Listener{{443, 443, "https://:443/readyz"}}, Groups: []string{"a"}},
		Changes: []kindtest.Change[LoadBalancer]{
			{Name: "listeners", Do: func(b *LoadBalancer) { b.Listeners = append(b.Listeners, Listener{3988, 3988, ""}) }},
			{Name: "groups", Do: func(b *LoadBalancer) { b.Groups = []string{"a", "b"} }},
		}})
	remove(l, &Images, img)
	remove(l, &Networks, net)
	l.nothingLeft()
}
