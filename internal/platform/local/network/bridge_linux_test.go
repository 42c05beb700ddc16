package network

import (
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
)

// TestEnsureGivesTheBridgeAnAddressForGood: another interface in the bridge does not
// change the bridge's hardware address, and a wrong address is corrected.
func TestEnsureGivesTheBridgeAnAddressForGood(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("CANNOT RUN: only root can make a bridge")
		}
		t.Skip("SKIPPED, NOTHING WAS TESTED: only root can make a bridge")
	}
	const name, want = "kops-t-bridge", "02:00:0a:c7:09:01"
	address := netip.MustParsePrefix("10.199.9.1/24")
	t.Cleanup(func() {
		if err := Remove(name); err != nil {
			t.Error(err)
		}
	})
	is := func() netlink.Link {
		t.Helper()
		if err := Ensure(name, address); err != nil {
			t.Fatal(err)
		}
		l, err := netlink.LinkByName(name)
		if err != nil || l.Attrs().HardwareAddr.String() != want {
			t.Fatalf("%v (%v), not %s", l.Attrs().HardwareAddr, err, want)
		}
		return l
	}
	bridge := is()
	if routed, err := RoutedNetworks(); err != nil || !slices.Contains(routed, address.Masked()) {
		t.Errorf("the routes of the host are %v (%v), without %s", routed, err, address.Masked())
	}
	if !HasOtherBridges("another-") {
		t.Error("a bridge of another name is not seen")
	}
	other := bridge.Attrs().HardwareAddr
	if err := netlink.LinkSetHardwareAddr(bridge, append(other[:5:5], 0xfe)); err != nil {
		t.Fatal(err)
	}
	is()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MasterIndex = "kops-t-member", bridge.Attrs().Index
	attrs.HardwareAddr = append([]byte{0x02, 0x00}, 0, 0, 0, 1) // lower: a bridge would adopt it
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "kops-t-peer"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Remove(attrs.Name); err != nil {
			t.Error(err)
		}
	})
	if l, err := netlink.LinkByName(name); err != nil || l.Attrs().HardwareAddr.String() != want {
		t.Errorf("with a member: %v (%v), not %s", l.Attrs().HardwareAddr, err, want)
	}
}

// TestAddressesAreThoseGiven: addresses are added, removed and kept.
func TestAddressesAreThoseGiven(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("CANNOT RUN: only root can make a bridge")
		}
		t.Skip("SKIPPED, NOTHING WAS TESTED: only root can make a bridge")
	}
	const name = "kops-t-many"
	t.Cleanup(func() {
		if err := Remove(name); err != nil {
			t.Error(err)
		}
	})
	list := func(text ...string) (out []netip.Prefix) {
		for _, p := range text {
			out = append(out, netip.MustParsePrefix(p))
		}
		return out
	}
	if err := Ensure(name, netip.MustParsePrefix("10.199.9.1/32")); err != nil {
		t.Fatal(err)
	}
	for _, want := range [][]netip.Prefix{
		list("10.199.9.1/32", "10.199.10.1/24", "10.199.10.2/24", "10.199.10.9/32"),
		list("10.199.9.1/32", "10.199.10.2/24"), // in the network of the address that is removed
		list("10.199.9.1/32"),
	} {
		for range 2 {
			if err := SetAddresses(name, want); err != nil {
				t.Fatal(err)
			}
		}
		l, err := netlink.LinkByName(name)
		if err != nil {
			t.Fatal(err)
		}
		addrs, err := netlink.AddrList(l, netlink.FAMILY_V4)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, a := range addrs {
			got = append(got, a.IPNet.String())
		}
		slices.Sort(got)
		text := make([]string, len(want))
		for i, p := range want {
			text[i] = p.String()
		}
		slices.Sort(text)
		if !slices.Equal(got, text) {
			t.Errorf("got %v, want %v", got, text)
		}
	}
}
