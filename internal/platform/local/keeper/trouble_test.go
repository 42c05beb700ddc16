package keeper

import (
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/local/balance"
	"kops.local/kops/internal/platform/local/machine"
	"kops.local/kops/internal/platform/local/site"
)

// TestPortsInUse: an obstacle to opening a port is reported, with a remedy, until it is gone.
func TestPortsInUse(t *testing.T) {
	s := site.Site{Root: t.TempDir(), Cluster: "a.k8s.local"}
	k := newKeeper(machine.Host{Site: s}, slog.New(slog.DiscardHandler))
	cidr := netip.MustParsePrefix("127.0.0.0/24") // the gateway is 127.0.0.1
	var foreign []net.Listener
	var ports []int
	for range 3 {
		l, err := net.Listen("tcp4", "0.0.0.0:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		foreign, ports = append(foreign, l), append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	var fronts []balance.Front
	for _, p := range ports {
		fronts = append(fronts, balance.Front{Port: p, Target: p})
	}
	for file, wish := range map[string]any{
		File(s, site.Balancers, "api"):  Balancer{Name: "api", Fronts: fronts},
		File(s, site.Mirrors, "bundle"): Mirror{Name: "bundle", Bundle: t.TempDir(), Port: ports[0]},
	} {
		if err := site.WriteJSON(file, wish); err != nil {
			t.Fatal(err)
		}
	}
	first := ""
	for range 20 { // each pass of the keeper reports the same
		err := k.reconcileBalancers(cidr, time.Now())
		if err == nil || !strings.Contains(err.Error(), "address already in use") {
			t.Fatalf("the port is in use, and the keeper's log has: %v", err)
		}
		err = Trouble(s, site.Balancers, "api")
		if !fault.Is(err, fault.Permanent) || !strings.HasPrefix(err.Error(), "load balancer api: ") || strings.Contains(err.Error(), "remedy") ||
			!strings.Contains(fault.Remedy(err), "ss -ltnp") {
			t.Fatalf("told is: %v; %s", err, fault.Remedy(err))
		}
		if first == "" {
			first = err.Error()
		}
		if err.Error() != first {
			t.Fatalf("told is %s and was %s", err, first)
		}
	}
	if err := k.reconcileMirrors(cidr); err == nil {
		t.Error("a folder without a bundle is served")
	}
	if err := Trouble(s, site.Mirrors, "bundle"); !fault.Is(err, fault.Permanent) || !strings.HasPrefix(err.Error(), "mirror bundle: ") {
		t.Errorf("told is: %v", err)
	}
	for _, l := range foreign {
		l.Close()
	}
	if err := k.reconcileBalancers(cidr, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := Trouble(s, site.Balancers, "api"); err != nil {
		t.Errorf("the port is free, and told is: %v", err)
	}
	for _, f := range k.fronts {
		f.Close()
	}
}
