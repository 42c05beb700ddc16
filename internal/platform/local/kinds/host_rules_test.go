package kinds

import (
	"os"
	"strings"
	"testing"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/local/ground"
	"kops.local/kops/internal/platform/local/site"
)

// TestNAT: the rules that let machines out are added, removed, and deleted with the network.
func TestNAT(t *testing.T) {
	const cluster = "nat.k8s.local"
	l := newLab(t, cluster)
	l.needProgram("iptables")
	set := func(have *Network, nat bool) *Network {
		t.Helper()
		want := *have
		want.NAT = nat
		l.ok(Networks.Update[0].Set(l.Context(), l.Client, have, &want))
		seen, err := Networks.List(l.Context(), l.Client, resource.Scope{Cluster: cluster})
		l.ok(err)
		if len(seen) != 1 || seen[0].NAT != nat {
			t.Errorf("NAT is to be %t: %+v", nat, seen)
		}
		return seen[0]
	}
	net := build(l, &Networks, Network{Cluster: cluster, CIDR: "10.199.6.0/24", Up: true, NAT: true})
	if ground.ReadSysctls(ground.Sysctls)["net/ipv4/ip_forward"] != "1" {
		t.Error("the host does not pass packets on")
	}
	remove(l, &Networks, set(set(net, false), true))
	l.nothingLeft()
}

// TestObstacles: a failed creation reports why, and leaves nothing behind.
func TestObstacles(t *testing.T) {
	const cluster = "obstacles.k8s.local"
	l := newLab(t, cluster)
	create := func(k resource.Any, want any) error {
		_, err := k.Create(t.Context(), l.Client, want)
		return err
	}
	err := create(Networks.Erase(), &Network{Cluster: cluster, CIDR: "127.0.0.0/16", Up: true})
	if err == nil || err.Error() != "the network 127.0.0.0/16 overlaps the network of this host's interface lo" || fault.Remedy(err) == "" {
		t.Errorf("a network that the host has: %v", err)
	}
	if err := create(Networks.Erase(), &Network{Cluster: "../x", CIDR: "10.199.7.0/24", Up: true}); err == nil {
		t.Error("a cluster whose name leaves the folder is made")
	}
	if err := create(MachineGroups.Erase(), &MachineGroup{Cluster: cluster, Name: "g"}); !fault.Is(err, fault.Gone) {
		t.Errorf("a group without a network: %v", err)
	}
	img, net := l.base(cluster, "10.199.7.0/24")
	group := MachineGroup{Cluster: cluster, Name: "g", Network: resource.Lit(net.ID), Image: resource.Lit(img.Path), Size: 1}
	bad := group
	bad.UserData = resource.Text(resource.Lit("no script"))
	if err := create(MachineGroups.Erase(), &bad); err == nil || !strings.Contains(err.Error(), "neither a script") {
		t.Errorf("user data that is no script: %v", err)
	}
	bad = group
	bad.Image = resource.Lit("/no/such/image")
	if err := create(MachineGroups.Erase(), &bad); err != nil {
		t.Fatal(err)
	}
	l.wait("a group whose image is gone says so", func() error {
		err := MachineGroups.Ready(t.Context(), l.Client, &bad)
		if fault.Is(err, fault.NotYet) {
			return err
		}
		if err == nil || !strings.Contains(err.Error(), "its image: stat /no/such/image: no such file or directory") {
			t.Errorf("%v", err)
		}
		return nil
	})
	if err := Networks.Delete(t.Context(), l.Client, net); err != nil && !fault.Is(err, fault.Conflict) {
		t.Error(err)
	}
	remove(l, &MachineGroups, &bad)
	remove(l, &Images, img)
	remove(l, &Networks, net)
	if _, err := os.Stat(site.Site{Root: l.Root, Cluster: cluster}.Dir()); err == nil {
		t.Error("the cluster's folder is left")
	}
	l.nothingLeft()
}
