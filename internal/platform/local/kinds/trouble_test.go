package kinds

import (
	"net"
	"os"
	"testing"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/local/keeper"
	"kops.local/kops/internal/platform/local/site"
)

// TestAForeignServerIsNotTakenForOurs: an answer at the address means nothing until
// the keeper has checked, and does not override what it reports.
func TestAForeignServerIsNotTakenForOurs(t *testing.T) {
	const cluster = "a.k8s.local"
	c := &Client{Root: t.TempDir()}
	s := site.Site{Root: c.Root, Cluster: cluster}
	if err := site.WriteJSON(keeper.NetworkFile(s), keeper.Network{CIDR: "127.0.0.0/24"}); err != nil {
		t.Fatal(err)
	}
	foreign, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	port := foreign.Addr().(*net.TCPAddr).Port
	for _, x := range []struct {
		part string
		kind resource.Any
		want any
	}{
		{site.Balancers, LoadBalancers.Erase(), &LoadBalancer{Cluster: cluster, Name: "x", Listeners: []Listener{{Port: port, Target: port}}}},
		{site.Mirrors, Mirrors.Erase(), &Mirror{Cluster: cluster, Name: "x", Bundle: t.TempDir(), Port: port}},
	} {
		made, err := x.kind.Create(t.Context(), c, x.want)
		if err != nil {
			t.Fatal(err)
		}
		if err := x.kind.Ready(t.Context(), c, made); !fault.Is(err, fault.NotYet) {
			t.Errorf("%s, before the keeper looked: %v", x.part, err)
		}
		file := keeper.TroubleFile(s, x.part, "x")
		if err := site.Write(file, []byte("in use\nremedy: free it\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := x.kind.Ready(t.Context(), c, made); !fault.Is(err, fault.Permanent) || err.Error() != "in use" || fault.Remedy(err) != "free it" {
			t.Errorf("%s, in trouble: %v; %s", x.part, err, fault.Remedy(err))
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if err := x.kind.Ready(t.Context(), c, made); err != nil {
			t.Errorf("%s, without trouble: %v", x.part, err)
		}
		if _, err := x.kind.Create(t.Context(), c, x.want); err != nil {
			t.Fatal(err)
		}
		if err := x.kind.Delete(t.Context(), c, made); err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(s.Path(x.part)); err != nil || len(left) > 0 {
			t.Errorf("%s: left are %v, %v", x.part, left, err)
		}
	}
}
