package local

import (
	"net/netip"
	"strings"
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/local/keeper"
	"kops.local/kops/internal/platform/local/site"
)

// Clusters that are only described, and unknown to the host, get networks by their
// names; those that were created keep theirs.
func TestNetworksThatAreOffered(t *testing.T) {
	root := t.TempDir()
	offer := func(cluster string) netip.Prefix {
		t.Helper()
		p, err := freeNetwork(root, cluster)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	a, b := offer("a.k8s.local"), offer("b.k8s.local")
	if a == b || a != offer("a.k8s.local") {
		t.Errorf("two clusters that are not made yet get %s and %s", a, b)
	}
	if err := site.WriteJSON(keeper.NetworkFile(site.Site{Root: root, Cluster: "other"}), keeper.Network{CIDR: a.String()}); err != nil {
		t.Fatal(err)
	}
	if got := offer("a.k8s.local"); got == a {
		t.Errorf("%s is offered twice", got)
	}
	seen := map[netip.Prefix]bool{}
	for _, p := range candidates("a.k8s.local") {
		if seen[p] || p.Addr().As4()[0] != 10 || p.Addr().As4()[1] < firstNetwork || p.Bits() != 24 {
			t.Errorf("%s is a candidate", p)
		}
		seen[p] = true
	}
	if len(seen) != lastNetwork-firstNetwork+1 {
		t.Errorf("%d networks are candidates", len(seen))
	}
}

// A state store that was lost or replaced has no record of the machines that run.
func TestAClusterOverTheRemainsOfAnother(t *testing.T) {
	o, c := Options{Root: t.TempDir(), Bundle: t.TempDir()}, &api.Cluster{}
	c.Name, c.Spec.Networking.NetworkCIDR = "a.k8s.local", "10.80.0.0/24"
	refused := func() bool {
		_, err := o.lookUp(t.Context(), nil, c, nil) // it finds no bundle either
		return err != nil && strings.Contains(err.Error(), "10.79.0.0/24") &&
			strings.Contains(fault.Remedy(err), "kops delete cluster a.k8s.local --external --cloud local --yes")
	}
	for _, x := range []struct {
		left string
		want bool
	}{{"", false}, {"10.80.0.0/24", false}, {"10.79.0.0/24", true}} {
		if x.left != "" {
			if err := site.WriteJSON(keeper.NetworkFile(site.Site{Root: o.Root, Cluster: c.Name}), keeper.Network{CIDR: x.left}); err != nil {
				t.Fatal(err)
			}
		}
		if refused() != x.want {
			t.Errorf("left is %q; refused: %t", x.left, !x.want)
		}
	}
}
