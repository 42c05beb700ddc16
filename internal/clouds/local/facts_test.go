package local

import (
	"net/netip"
	"testing"

	"kops.local/kops/internal/clouds/local/keeper"
	"kops.local/kops/internal/clouds/local/site"
)

// Clusters that are only described, about which the host knows nothing, get
// networks by their names; those that are made keep theirs.
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
