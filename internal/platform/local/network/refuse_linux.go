package network

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink"
)

// rejectProtocol is the protocol number that marks the routes of RejectRanges. Numbers from 4 up are
// free for routing daemons (rtnetlink(7)).
const rejectProtocol = 107

// RejectRanges sets the ranges to which this host rejects packets on behalf of a network. Any other
// route to such a range or to a part of it takes precedence. A range inside a wider one that
// the host has a route to is left to that route, and returned.
func RejectRanges(network netip.Prefix, ranges []string) ([]Conflict, error) {
	have, conflicts, err := rejectedRanges(network, ranges)
	if err != nil {
		return nil, err
	}
	want := slices.DeleteFunc(slices.Clone(ranges), func(r string) bool {
		return slices.ContainsFunc(conflicts, func(c Conflict) bool { return c.Range.String() == r })
	})
	for _, r := range have {
		if slices.Contains(want, r) {
			continue
		}
		route, err := newUnreachableRoute(network, r)
		if err == nil {
			err = netlink.RouteDel(route)
		}
		if err != nil && !errors.Is(err, syscall.ESRCH) {
			return nil, fmt.Errorf("stop refusing packets to %s: %w", r, err)
		}
	}
	for _, r := range want {
		if slices.Contains(have, r) {
			continue
		}
		route, err := newUnreachableRoute(network, r)
		if err == nil {
			err = netlink.RouteReplace(route)
		}
		if err != nil {
			return nil, fmt.Errorf("refuse packets to %s: %w", r, err)
		}
	}
	return conflicts, nil
}

// RejectedRanges returns the given ranges for which RejectRanges has nothing to do, and all others to
// which packets are rejected.
func RejectedRanges(network netip.Prefix, ranges []string) ([]string, error) {
	have, conflicts, err := rejectedRanges(network, ranges)
	if err != nil {
		return nil, err
	}
	left := func(r string) bool {
		return slices.ContainsFunc(conflicts, func(c Conflict) bool { return c.Range.String() == r })
	}
	var out []string
	for _, r := range ranges {
		if slices.Contains(have, r) != left(r) {
			out = append(out, r)
		}
	}
	for _, r := range have {
		if !slices.Contains(ranges, r) {
			out = append(out, r)
		}
	}
	return out, nil
}

// rejectedRanges returns the ranges that are rejected on behalf of a network, and those of the
// given ranges that are inside a wider range to which the host has a route.
func rejectedRanges(network netip.Prefix, ranges []string) (have []string, conflicts []Conflict, err error) {
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return nil, nil, fmt.Errorf("list the routes of the host: %w", err)
	}
	for _, route := range routes {
		to, err := netip.ParsePrefix(route.Dst.String())
		switch {
		case err != nil: // the default route
		case route.Protocol == rejectProtocol:
			if route.Priority == metric(network) {
				have = append(have, to.String())
			}
		case to.Bits() >= maxRange:
			for _, text := range ranges {
				if r, err := netip.ParsePrefix(text); err == nil && to.Bits() < r.Bits() && to.Contains(r.Addr()) {
					conflicts = append(conflicts, Conflict{r, to})
				}
			}
		}
	}
	return have, conflicts, nil
}

// metric returns a network's address as a number. Networks of one host do not overlap, so
// each has routes of its own, even to a range that several reject.
func metric(network netip.Prefix) int {
	a := network.Addr().As4()
	return int(binary.BigEndian.Uint32(a[:]))
}

func newUnreachableRoute(network netip.Prefix, to string) (*netlink.Route, error) {
	_, dst, err := net.ParseCIDR(to)
	return &netlink.Route{Dst: dst, Type: syscall.RTN_UNREACHABLE, Protocol: rejectProtocol, Priority: metric(network)}, err
}
