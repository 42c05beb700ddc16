package network

import (
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
)

// TestEnsureGivesTheBridgeAnAddressForGood: another interface in the bridge does
// not change the bridge's hardware address, and one that is wrong is corrected.
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
	if routed, err := Routed(); err != nil || !slices.Contains(routed, address.Masked()) {
		t.Errorf("the routes of the host are %v (%v), without %s", routed, err, address.Masked())
	}
	if !Others("another-") {
		t.Error("a bridge of another name is not seen")
	}
	other := bridge.Attrs().HardwareAddr
	if err := netlink.LinkSetHardwareAddr(bridge, append(other[:5:5], 0xfe)); err != nil {
		t.Fatal(err)
	}
	is()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MasterIndex = "kops-t-member", bridge.Attrs().Index
	attrs.HardwareAddr = append([]byte{0x02, 0x00}, 0, 0, 0, 1) // lower: a bridge would take it
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
