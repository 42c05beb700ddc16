package routes

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
)

// inNamespace moves the test into its own network namespace, with an interface
// eth0 that has the address 10.0.0.1/24 and whose peer is up.
func inNamespace(t *testing.T) {
	t.Helper()
	runtime.LockOSThread() // never unlocked: the thread ends with the test, and the namespace with it
	if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("a network namespace of its own: %v", err)
		}
		t.Skipf("SKIPPED, NOT TESTED: a network namespace needs root: %v", err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "peer0"}))
	for _, name := range []string{"eth0", "peer0"} {
		l, err := netlink.LinkByName(name)
		must(err)
		must(netlink.LinkSetUp(l))
	}
	l, err := netlink.LinkByName("eth0")
	must(err)
	must(netlink.AddrAdd(l, &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(10, 0, 0, 1), Mask: net.CIDRMask(24, 32)}}))
}

func TestTheKernelsTable(t *testing.T) {
	inNamespace(t)
	k := System()
	foreign := toKernel(route("100.96.50.0/24", "10.0.0.50"))
	foreign.Protocol = 4
	if err := netlink.RouteAdd(foreign); err != nil {
		t.Fatal(err)
	}
	all := Route{Pods: netip.MustParsePrefix("100.96.0.0/11")}
	b, moved, c := route("100.96.1.0/24", "10.0.0.2"), route("100.96.1.0/24", "10.0.0.3"), route("100.96.2.0/24", "10.0.0.4")
	for _, r := range []Route{all, b, c, moved, all} {
		if err := k.Set(r); err != nil {
			t.Fatal(err)
		}
	}
	got, err := k.Routes()
	if err != nil || len(got) != 3 || !slices.Contains(got, moved) || !slices.Contains(got, c) || !slices.Contains(got, all) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := netlink.RouteGet(net.IPv4(100, 96, 77, 1)); !errors.Is(err, syscall.EHOSTUNREACH) {
		t.Errorf("a packet to the pod of no node is not refused: %v", err)
	}
	if way, err := netlink.RouteGet(net.IPv4(100, 96, 1, 9)); err != nil || len(way) != 1 || way[0].Gw.String() != moved.Via.String() {
		t.Errorf("a packet to the pod of a node goes %v: %v", way, err)
	}
	for range 2 { // a missing route is not an error
		if err := k.Remove(c); err != nil {
			t.Error(err)
		}
	}
	if err := k.Set(route("100.96.3.0/24", "192.0.2.1")); err == nil {
		t.Error("a route by way of an unreachable address is set")
	}
	if err := agent(t, k).syncRoutes(nil); err != nil {
		t.Fatal(err)
	}
	list, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, r := range list {
		left = append(left, r.Dst.String())
	}
	slices.Sort(left)
	if !slices.Equal(left, []string{"10.0.0.0/24", "100.96.50.0/24"}) {
		t.Errorf("left are %v; a route of others is gone or one of ours stayed", left)
	}
}
