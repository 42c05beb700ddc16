package network

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

// enterNamespace puts the test into a network namespace of its own, with a default route. route returns
// one through the same gateway.
func enterNamespace(t *testing.T) (route func(string) *netlink.Route) {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("CANNOT RUN: only root can make a network")
		}
		t.Skip("SKIPPED, NOTHING WAS TESTED: only root can make a network")
	}
	runtime.LockOSThread() // for good: the namespace disappears with the thread
	if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	if err := Ensure("uplink", netip.MustParsePrefix("192.0.2.2/24")); err != nil {
		t.Fatal(err)
	}
	route = func(to string) *netlink.Route {
		t.Helper()
		_, dst, err := net.ParseCIDR(to)
		if err != nil {
			t.Fatal(err)
		}
		return &netlink.Route{Dst: dst, Gw: net.IPv4(192, 0, 2, 1)}
	}
	if err := netlink.RouteAdd(route("0.0.0.0/0")); err != nil {
		t.Fatal(err)
	}
	return route
}

// TestPacketsToAddressesThatNobodyHasAreRefused: two clusters reject packets to the same range,
// independently of each other, but not packets to ranges to which the host's user has a route.
func TestPacketsToAddressesThatNobodyHasAreRefused(t *testing.T) {
	route := enterNamespace(t)
	one, two := netip.MustParsePrefix("10.199.1.0/24"), netip.MustParsePrefix("192.168.9.0/24")
	pods, services := "100.96.0.0/11", "100.64.0.0/13"
	refuse := func(n netip.Prefix, ranges ...string) []Conflict {
		t.Helper()
		var conflicts []Conflict
		for range 2 {
			var err error
			if conflicts, err = RejectRanges(n, ranges); err != nil {
				t.Fatal(err)
			}
			if got, err := RejectedRanges(n, ranges); err != nil || !slices.Equal(got, ranges) {
				t.Errorf("%s is to refuse %v, and refuses %v: %v", n, ranges, got, err)
			}
		}
		return conflicts
	}
	leaves := func(to string, want bool) {
		t.Helper()
		way, err := netlink.RouteGet(net.ParseIP(to))
		if !want && !errors.Is(err, syscall.EHOSTUNREACH) || want && (err != nil || !way[0].Gw.Equal(net.IPv4(192, 0, 2, 1))) {
			t.Errorf("packets to %s go %v: %v", to, way, err)
		}
	}
	leaves("100.96.200.77", true)
	refuse(one, pods, services)
	refuse(two, pods)
	leaves("100.96.200.77", false)
	leaves("100.64.0.1", false)
	leaves("8.8.8.8", true)
	for _, own := range []string{"100.96.200.0/24", pods} { // the user's routes, to a part of it and to all of it
		if err := netlink.RouteAdd(route(own)); err != nil {
			t.Fatal(err)
		}
		leaves("100.96.200.77", true)
		if c := refuse(one, pods, services); len(c) > 0 {
			t.Errorf("beside a route to %s there are the conflicts %v", own, c)
		}
		if err := netlink.RouteDel(route(own)); err != nil {
			t.Fatal(err)
		}
	}
	refuse(one, services)
	leaves("100.96.200.77", false) // because of the other cluster
	refuse(two)
	leaves("100.96.200.77", true)
	leaves("100.64.0.1", false)

	// A wider route takes precedence, too, even if it is added later.
	if err := netlink.RouteAdd(route("100.64.0.0/10")); err != nil {
		t.Fatal(err)
	}
	if got, err := RejectedRanges(one, []string{services}); err != nil || len(got) > 0 {
		t.Errorf("a range that is part of a route counts as it should be: %v, %v", got, err)
	}
	want := []Conflict{{netip.MustParsePrefix(services), netip.MustParsePrefix("100.64.0.0/10")}}
	if c := refuse(one, services); !slices.Equal(c, want) {
		t.Errorf("conflicts %v, want %v", c, want)
	}
	leaves("100.64.0.1", true)
	refuse(one)
}
