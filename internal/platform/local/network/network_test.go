package network

import (
	"net/netip"
	"testing"

	"kops.local/kops/internal/engine/fault"
)

func TestCheck(t *testing.T) {
	for cidr, ok := range map[string]bool{"10.77.0.0/24": true, "10.77.0.0/16": true, "10.77.0.0/28": true,
		"10.77.0.0/29": false, "10.0.0.0/8": false, "10.77.0.1/24": false, "fd00::/64": false, "10.77.0.0": false, "": false} {
		if _, err := Check(cidr); (err == nil) != ok {
			t.Errorf("Check(%q): %v", cidr, err)
		}
	}
}

func TestFreeGivesEachAddressOnceAndThenSays(t *testing.T) {
	cidr := netip.MustParsePrefix("10.77.0.16/28")
	if g := Gateway(cidr); g.String() != "10.77.0.17/28" {
		t.Errorf("the gateway is %s", g)
	}
	taken := map[netip.Addr]bool{}
	for range 5 { // .26 to .30; .31 is the broadcast address
		a, err := FreeAddress(cidr, func(a netip.Addr) bool { return taken[a] })
		if err != nil || !cidr.Contains(a.Addr()) || a.Addr() == Gateway(cidr).Addr() || a.Bits() != 28 {
			t.Fatalf("%s, %v", a, err)
		}
		taken[a.Addr()] = true
	}
	if a, err := FreeAddress(cidr, func(a netip.Addr) bool { return taken[a] }); !fault.Is(err, fault.Quota) {
		t.Errorf("a sixth: %s, %v", a, err)
	}
}

func TestOverlapFindsTheHostsOwnNetworks(t *testing.T) {
	for cidr, want := range map[string]string{"127.0.0.0/16": "lo", "203.0.113.0/24": ""} {
		if got, err := Overlap(netip.MustParsePrefix(cidr), ""); err != nil || got != want {
			t.Errorf("Overlap(%s) = %q, %v", cidr, got, err)
		}
	}
	if got, err := Overlap(netip.MustParsePrefix("127.0.0.0/16"), "lo"); err != nil || got != "" {
		t.Errorf("the interface itself: %q, %v", got, err)
	}
}
